import type { QueueStatistics } from '@nereid/protocol';
import { closeStatistics } from './close-counts.ts';
import type { ModelStatistics } from './model-statistics.ts';
import type { VersionQueue } from './version-queue.ts';

/** What a version's queue holds at `nowUs`, and the batches that it has formed. */
export function queueStatistics(
  queue: Pick<VersionQueue, 'waiting' | 'running' | 'pending' | 'oldestArrivedUs'>,
  { closes }: Pick<ModelStatistics, 'closes'>,
  nowUs: number,
): QueueStatistics {
  const { waiting, running, pending, oldestArrivedUs } = queue;
  return {
    waiting,
    running,
    pending,
    oldestUs: oldestArrivedUs === undefined ? 0 : Math.max(0, Math.trunc(nowUs - oldestArrivedUs)),
    levels: [],
    closes: closeStatistics(closes),
  };
}
