/** Options about the machine that instances run on. */
import { z } from 'zod';
import { EVERY_ROLE, type FlagMeta, flagMetas, MODEL_ROLES } from './flag-meta.ts';

const hardware: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Hardware', roles: MODEL_ROLES };

/** Linux' own bounds of a machine. */
const CORE_MAX = 8_191;
const NODE_MAX = 1_023;

const MALLOCS = ['default', 'jemalloc', 'tcmalloc'] as const;
/** Whose malloc a process has: the system's own, or that of a library that is loaded before it (docs/memory.md). */
export type MallocName = (typeof MALLOCS)[number];

/** What instances under one host policy are bound to. */
export interface HostPolicy {
  /** Numbers of processor cores, ascending; undefined for any. */
  readonly cores: readonly number[] | undefined;
  /** A node of the machine's memory and processors (NUMA); undefined for any. */
  readonly node: number | undefined;
}

interface Entry {
  readonly name: string;
  readonly setting: Partial<HostPolicy>;
}

const ENTRY = /^([^,]+),(cpu-cores|numa-node)=(.+)$/s;
const RANGE = /^(\d{1,4})(?:-(\d{1,4}))?$/;

export const HOST_POLICY_FORM = '<name>,cpu-cores=<first>-<last>[,…] or <name>,numa-node=<number>';

export const hardwareOptions = {
  malloc: z.enum(MALLOCS).default('default').register(flagMetas, {
    topic: 'Hardware',
    roles: EVERY_ROLE,
    ours: true,
    description:
      "Whose malloc the process has, read before it starts, so as a flag or a variable: the system's, or that of a library which has to be installed. docs/memory.md says what each gives back of an unloaded model.",
  }),
  hostPolicy: z
    .array(z.string().refine((text) => readEntry(text) !== undefined))
    .default([])
    .register(flagMetas, {
      ...hardware,
      form: '<name>,<setting>=<value>',
      allowed: HOST_POLICY_FORM,
      description:
        'A setting of the host policy of that name: `cpu-cores=0-3,8` binds its instances to these processor cores, `numa-node=0` to the memory of that node, and to its cores where no others are named. Instances are under the policy that their instance group names, else `cpu`, `model` or `gpu_<id>`. Repeat it for several.',
    }),
};

/** The host policies by name, the last of each setting; undefined where an entry is none. */
export function readHostPolicies(entries: readonly string[]): ReadonlyMap<string, HostPolicy> | undefined {
  const policies = new Map<string, HostPolicy>();
  for (const text of entries) {
    const entry = readEntry(text);
    if (entry === undefined) return undefined;
    policies.set(entry.name, { cores: undefined, node: undefined, ...policies.get(entry.name), ...entry.setting });
  }
  return policies;
}

/** `<name>,cpu-cores=0-3,8` or `<name>,numa-node=0` (Triton takes ranges only). */
function readEntry(text: string): Entry | undefined {
  const [, name, setting, value = ''] = ENTRY.exec(text) ?? [];
  if (name === undefined) return undefined;
  if (setting === 'numa-node') {
    const node = /^\d{1,4}$/.test(value) ? Number(value) : NODE_MAX + 1;
    return node > NODE_MAX ? undefined : { name, setting: { node } };
  }
  const cores = readCores(value);
  return cores === undefined ? undefined : { name, setting: { cores } };
}

/** The numbers of a list like `0-3,8`, ascending, as taskset and /proc have it; undefined where it is none. */
export function readCores(text: string): readonly number[] | undefined {
  const cores = new Set<number>();
  for (const part of text.split(',')) {
    const [, first, last = first] = RANGE.exec(part) ?? [];
    if (first === undefined || Number(last) < Number(first) || Number(last) > CORE_MAX) return undefined;
    for (let core = Number(first); core <= Number(last); core++) cores.add(core);
  }
  return [...cores].sort((a, b) => a - b);
}
