/** Options of where models run (docs/placement.md). */
import { z } from 'zod';
import { type FlagMeta, flagMetas, WORKER } from './flag-meta.ts';
import { LABELS_FORM, type Labels, readLabelPairs } from './labels.ts';

const placement: Pick<FlagMeta, 'topic' | 'ours'> = { topic: 'Models', ours: true };

export const placementOptions = {
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
