/** Options of the rate limiter. Flags and meanings are Triton's (command_line_parser.cc, docs/user_guide/rate_limiter.md). */
import { z } from 'zod';
import { type FlagMeta, flagMetas, MODEL_ROLES } from './flag-meta.ts';

const rate: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Models', roles: MODEL_ROLES };

const RESOURCE = /^[^:]+:\d{1,9}(:\d{1,9})?$/;

export const rateOptions = {
  rateLimit: z
    .enum(['off', 'execution_count'])
    .default('off')
    .register(flagMetas, {
      ...rate,
      description:
        'execution_count: an execution begins once the resources that its instance needs are free, and instances take turns by how often they have run and by their priority. off: what configs say of it is ignored. The same in all coordinators and workers.',
    }),
  rateLimitResource: z
    .array(z.string().regex(RESOURCE))
    .default([])
    .register(flagMetas, {
      ...rate,
      form: '<name>:<count>[:<device>]',
      allowed: 'a name, a count and perhaps the number of a device, with colons between them',
      description:
        'How much of a resource there is on each device, or on that one; of a resource that is `global` in a config, in the whole cluster. Without this flag as much as the greediest instance needs; with it nothing of what it does not name. Names are taken in any case. Repeat it for several.',
    }),
};

/** One value of `--rate-limit-resource`. */
export interface ResourceLimit {
  readonly name: string;
  readonly count: number;
  /** Undefined: on every device. */
  readonly device?: number | undefined;
}

/** The values of `--rate-limit-resource`, each of the form that the schema lets through. */
export function resourceLimits(entries: readonly string[]): readonly ResourceLimit[] {
  return entries.map((entry) => {
    const [name = '', count, device] = entry.split(':');
    return { name, count: Number(count), device: device === undefined ? undefined : Number(device) };
  });
}
