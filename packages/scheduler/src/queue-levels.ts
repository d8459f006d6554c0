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
/** Levels that stand in one array: what has to move where one comes or goes. */
const CHUNK_LEVELS_MAX = 512;

export function createQueueLevels<R extends QueuedRequest>(policies: QueuePolicies): QueueLevels<R> {
  return policies.levels === 0 ? createOneLevel(policies) : createManyLevels(policies);
}

/** Most queues: each request passes here, so nothing is looked up. */
function createOneLevel<R extends QueuedRequest>({ default_level, default: policy }: QueuePolicies): QueueLevels<R> {
  const level = createLevel<R>(default_level, policy);
  return {
    get first() {
      return level.length > 0 ? level : undefined;
    },
    after: () => undefined,
    get: () => level,
    filled: () => undefined,
    emptied: () => undefined,
  };
}

function createManyLevels<R extends QueuedRequest>(policies: QueuePolicies): QueueLevels<R> {
  const known = new Map<number, QueueLevel<R>>();
  /** Those in which somebody waits, ascending, in chunks; only the last one left may be empty. */
  const chunks: QueueLevel<R>[][] = [[]];
  let busy = 0;

  /** The chunk that the level stands in, or would stand in. */
  const chunkOf = (number: number): number =>
    chunks.length < 2 ? 0 : Math.max(0, countUpTo(chunks, (chunk) => (chunk[0]?.number ?? 0) <= number) - 1);

  return {
    get first() {
      return chunks[0]?.[0];
    },
    after({ number }) {
      const index = chunkOf(number);
      const chunk = chunks[index] ?? [];
      return chunk[countUpTo(chunk, (level) => level.number <= number)] ?? chunks[index + 1]?.[0];
    },
    get(number) {
      const level = known.get(number);
      if (level !== undefined) return level;
      const made = createLevel<R>(number, policies.by_level.get(number) ?? policies.default);
      known.set(number, made);
      return made;
    },
    filled(level) {
      busy++;
      const index = chunkOf(level.number);
      const chunk = chunks[index] ?? [];
      const at = countUpTo(chunk, ({ number }) => number < level.number);
      if (at === chunk.length) chunk.push(level);
      else chunk.splice(at, 0, level);
      if (chunk.length > CHUNK_LEVELS_MAX) chunks.splice(index + 1, 0, chunk.splice(CHUNK_LEVELS_MAX / 2));
    },
    emptied(level) {
      busy--;
      const index = chunkOf(level.number);
      const chunk = chunks[index] ?? [];
      if (chunk.length > 1) chunk.splice(chunk.indexOf(level), 1);
      else if (chunks.length > 1) chunks.splice(index, 1);
      else chunk.pop();
      if (known.size - busy > LEVELS_IDLE_MAX) known.delete(level.number);
    },
  };
}

/** How many there are up to the last of which it holds; beyond that one it holds of none. */
function countUpTo<T>(sorted: readonly T[], holds: (entry: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const entry = sorted[middle];
    if (entry !== undefined && holds(entry)) low = middle + 1;
    else high = middle;
  }
  return low;
}
