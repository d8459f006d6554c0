import { type AnsweredBatch, outcomeOf } from './batch-answers.ts';
import type { BatchSettlement } from './instance-batch.ts';
import type { EntryEnd } from './recorder.ts';

const CANCELLED: EntryEnd = { effect: 'cancelled', outcome: undefined, ends: true };
const LOST: EntryEnd = { effect: 'lost', outcome: undefined, ends: true };

/** How the request at that position of a settled batch ended, for its recording; 'again' where it is to run once more, undefined where it never ran. */
export function entryEnd(
  batch: AnsweredBatch,
  settlement: BatchSettlement,
  cancelled: ReadonlySet<number> | undefined,
  position: number,
): EntryEnd | 'again' | undefined {
  const { entries, streams, steps } = batch;
  const entry = entries[position];
  const settled = settlement.outcomes[position];
  if (entry === undefined || settlement.lost === 'unseen') return undefined;
  if (settlement.lost === 'lost') return LOST;
  if (steps === undefined && !settlement.executed) return undefined;
  if (cancelled?.has(position) === true) return CANCELLED;
  if (settlement.died?.has(position) === true) return LOST;
  if (settled?.ok === true && settled.again === true) return 'again';
  const ends = steps === undefined || steps.ends(position);
  const outcome = outcomeOf(batch, entry, settled);
  const isSent = streams?.ended(position) === true;
  const isEnd = streams !== undefined && outcome.ok && outcome.response.outputs.length === 0;
  return { effect: 'applied', outcome: isSent || isEnd ? undefined : outcome, ends };
}
