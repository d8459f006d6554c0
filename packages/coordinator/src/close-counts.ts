import type { CloseStatistics } from '@nereid/protocol';
import type { CloseReason } from '@nereid/scheduler';

/** Batches that ran, by why they were closed and then by their rows. */
export type CloseCounts = Map<CloseReason, Map<number, number>>;

/** All there are, in the order in which they are told; a record, so that none can be left out. */
const REASONS: Readonly<Record<CloseReason, true>> = {
  single: true,
  full: true,
  preferred: true,
  delay: true,
  shape: true,
  free: true,
  deadline: true,
  alone: true,
  strategy: true,
  drain: true,
  spare: true,
};
export const CLOSE_REASONS = Object.keys(REASONS) as readonly CloseReason[];

/** Counts so many batches of so many rows, of which there are no more sizes than the model's largest batch has rows. */
export function countClose(closes: CloseCounts, reason: CloseReason, rows: number, batches = 1): void {
  let sizes = closes.get(reason);
  if (sizes === undefined) {
    sizes = new Map();
    closes.set(reason, sizes);
  }
  sizes.set(rows, (sizes.get(rows) ?? 0) + batches);
}

/** As gateways are told it: reasons that there were, sizes ascending. */
export function closeStatistics(closes: CloseCounts): readonly CloseStatistics[] {
  return CLOSE_REASONS.flatMap((reason) => {
    const sizes = closes.get(reason);
    if (sizes === undefined) return [];
    const ascending = [...sizes].sort(([a], [b]) => a - b);
    return [{ reason, sizes: ascending.map(([rows, count]) => ({ rows, count })) }];
  });
}
