import { createLevel, type QueueLevel } from './queue-place.ts';
import type { QueuePolicies } from './queue-policy.ts';
import type { QueuedRequest } from './schedule.ts';

/**
 * The priority levels in which requests wait, by number. A config may have up to 2^64 of them, so one is
 * made when a request comes for it.
 */
export interface QueueLevels<R extends QueuedRequest> {
  /** The highest in which somebody waits. */
  readonly first: QueueLevel<R> | undefined;
  /** The next one in which somebody waits. */
  after(level: QueueLevel<R>): QueueLevel<R> | undefined;
  get(number: number): QueueLevel<R>;
  /** To be called when the first request has come to a level, and when the last one has left it. */
  filled(level: QueueLevel<R>): void;
  emptied(level: QueueLevel<R>): void;
}

/** Levels that are kept though nobody waits in them. */
const LEVELS_IDLE_MAX = 64;

export function createQueueLevels<R extends QueuedRequest>(policies: QueuePolicies): QueueLevels<R> {
  const known = new Map<number, QueueLevel<R>>();
  /** Those in which somebody waits, ascending. */
  const busy: QueueLevel<R>[] = [];

  /** Where the level stands among the busy ones, or would stand. */
  const position = (number: number): number => {
    let low = 0;
    let high = busy.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const level = busy[middle];
      if (level !== undefined && level.number < number) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  return {
    get first() {
      return busy[0];
    },
    after(level) {
      return busy[position(level.number) + 1];
    },
    get(number) {
      const level = known.get(number);
      if (level !== undefined) return level;
      const made = createLevel<R>(number, policies.by_level.get(number) ?? policies.default);
      known.set(number, made);
      return made;
    },
    filled(level) {
      const index = position(level.number);
      if (index === busy.length) busy.push(level);
      else busy.splice(index, 0, level);
    },
    emptied(level) {
      const index = position(level.number);
      if (index === busy.length - 1) busy.pop();
      else busy.splice(index, 1);
      if (known.size - busy.length > LEVELS_IDLE_MAX) known.delete(level.number);
    },
  };
}
