import type { LevelStatistics, QueueStatistics } from '@nereid/protocol';
import { closeStatistics } from './close-counts.ts';
import type { ModelStatistics } from './model-statistics.ts';
import type { VersionQueue } from './version-queue.ts';

/** A config may have very many levels; so many of those in which somebody waits are told. */
const LEVELS_TOLD_MAX = 256;

/** What a version's queue holds at `nowUs`, and the batches that it has formed. */
export function queueStatistics(
  queue: Pick<VersionQueue, 'waiting' | 'running' | 'pending' | 'oldestArrivedUs' | 'levels'>,
  { closes }: Pick<ModelStatistics, 'closes'>,
  nowUs: number,
): QueueStatistics {
  const { waiting, running, pending, oldestArrivedUs } = queue;
  return {
    waiting,
    running,
    pending,
    oldestUs: oldestArrivedUs === undefined ? 0 : Math.max(0, Math.trunc(nowUs - oldestArrivedUs)),
    levels: toldLevels(queue.levels),
    closes: closeStatistics(closes),
  };
}

function toldLevels(levels: VersionQueue['levels']): readonly LevelStatistics[] {
  const told: LevelStatistics[] = [];
  for (const level of levels) {
    if (told.length === LEVELS_TOLD_MAX) break;
    told.push(level);
  }
  return told;
}
