/** Options about the process of a worker. */
import { z } from 'zod';
import { type FlagMeta, flagMetas, WORKER } from './flag-meta.ts';

const worker: Pick<FlagMeta, 'topic' | 'roles' | 'ours'> = { topic: 'Models', roles: WORKER, ours: true };

export const workerOptions = {
  workerMemoryLimit: z
    .int()
    .min(0)
    .default(0)
    .register(flagMetas, {
      ...worker,
      form: '<bytes>',
      description:
        'Resident memory of the worker process above which another one takes its place, without a gap: the next is started first, and the old one ends what it has accepted, its sequences too. Processes of instances do not count. 0 for no limit.',
    }),
  workerMaxLoads: z
    .int()
    .min(0)
    .default(0)
    .register(flagMetas, {
      ...worker,
      form: '<number>',
      description:
        'How many versions of models a worker loads, after those of its start, before another one takes its place in the same way. 0 for no limit.',
    }),
};
