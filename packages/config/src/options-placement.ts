/** Options of where models run (docs/placement.md). */
import { z } from 'zod';
import { COORDINATOR, type FlagMeta, flagMetas, WORKER } from './flag-meta.ts';
import { LABELS_FORM, type Labels, readLabelPairs } from './labels.ts';

const placement: Pick<FlagMeta, 'topic' | 'ours'> = { topic: 'Models', ours: true };

export const PLACEMENTS = ['all', 'on-demand'] as const;
/** `all`: each worker that takes a model holds it. `on-demand`: one that is chosen when somebody asks for it. */
export type PlacementMode = (typeof PLACEMENTS)[number];

export const MEMORY_FORM = '<device>=<bytes> with commas between them; devices are cpu, gpu0, gpu1 …, bytes e.g. 2GiB';

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  ki: 1024,
  mi: 1024 ** 2,
  gi: 1024 ** 3,
  ti: 1024 ** 4,
};
const BUDGET = /^(cpu|gpu\d{1,3})=(\d{1,15}(?:\.\d{1,6})?)([kmgt]?i?)b?$/i;

/** Bytes by device, the last of each; undefined for a text that is none. */
export function readMemoryBudget(text: string): Readonly<Record<string, number>> | undefined {
  const budget: Record<string, number> = {};
  for (const part of text.split(',')) {
    const [, device, number, unit = ''] = BUDGET.exec(part.trim()) ?? [];
    const bytes = Math.round(Number(number) * (UNITS[unit.toLowerCase()] ?? Number.NaN));
    if (device === undefined || !(bytes >= 1 && bytes <= Number.MAX_SAFE_INTEGER)) return undefined;
    budget[device.toLowerCase()] = bytes;
  }
  return budget;
}

export const placementOptions = {
  placement: z
    .enum(PLACEMENTS)
    .default('all')
    .register(flagMetas, {
      ...placement,
      roles: COORDINATOR,
      description:
        'all: each worker that takes a model holds it. on-demand: a model is ready without being held; a request for it waits while a worker loads it, and models that nobody asks for go for others. The same in all coordinators.',
    }),
  memoryBudget: z
    .array(z.string().refine((text) => readMemoryBudget(text) !== undefined))
    .default([])
    .register(flagMetas, {
      ...placement,
      roles: WORKER,
      form: '<device>=<bytes>,…',
      allowed: MEMORY_FORM,
      description:
        'How much of its memory models may take in this worker: `cpu=2GiB,gpu0=10GiB`. A load that cannot fit is refused; where models are placed on demand, idle ones go for others, the least recently used first. A device that is not named has no bound. Repeat it for several; the last of a device counts.',
    }),
  workerLabels: z
    .array(z.string().refine((text) => readLabelPairs(text) !== undefined))
    .default([])
    .register(flagMetas, {
      ...placement,
      roles: WORKER,
      form: '<key>=<value>,…',
      allowed: LABELS_FORM,
      description:
        'Labels that this worker carries. It takes no model whose `nereid.labels` has one that it does not carry. Repeat it for several; the last of a key counts.',
    }),
};

/** The labels of all texts, each of the form that the schema lets through; the last of a key counts. */
export function workerLabels(texts: readonly string[]): Labels {
  return Object.assign({}, ...texts.map((text) => readLabelPairs(text)));
}

/** The budget of all texts, each of the form that the schema lets through. */
export function memoryBudget(texts: readonly string[]): Readonly<Record<string, number>> {
  return Object.assign({}, ...texts.map((text) => readMemoryBudget(text)));
}
