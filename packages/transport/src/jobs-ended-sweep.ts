/**
 * Jobs that are over go when their time is over. BullMQ removes old ones only when another job of their queue ends, so
 * those of a queue that comes to rest would stay for ever; and a Redis that is too full for new jobs would stay so.
 */
import { type Clock, type Log, pause } from '@nereid/runtime';
import type { Queue } from 'bullmq';
import { optionsOf } from './jobs-stored.ts';
import type { RedisClient } from './redis-connection.ts';

export interface EndedSweepParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly client: () => Pick<RedisClient, 'zrange' | 'hmget'>;
  /** Those that are looked at. */
  readonly queues: () => readonly Queue[];
  readonly signal: AbortSignal;
}

/** Of jobs that BullMQ keeps in a set of its own, and the option that says for how long. */
const SETS = [
  ['completed', 'removeOnComplete'],
  ['failed', 'removeOnFail'],
] as const;
export const SWEEP_EVERY_MS = 60_000;
/** Younger ones are left to BullMQ, which has them in hand while jobs end. */
const AGE_MS_MIN = 3_600_000;
/** Of a set in one round; the next goes on behind them. */
const LOOKED_AT_MAX = 1_024;
const CHUNK = 64;

/** Every minute until the signal aborts. */
export async function sweepEnded(parts: EndedSweepParts): Promise<void> {
  const { clock, log, queues, signal } = parts;
  const round = createEndedRound(parts);
  for (;;) {
    await pause(clock, SWEEP_EVERY_MS, signal);
    if (signal.aborted) return;
    for (const queue of queues()) {
      await round(queue).catch((error) => log.debug({ err: error, queue: queue.name }, 'ended jobs not swept'));
      if (signal.aborted) return;
    }
  }
}

/** One look at a queue; resolves with how many jobs were removed. A job whose options name no age stays. */
export function createEndedRound({ clock, client }: Pick<EndedSweepParts, 'clock' | 'client'>) {
  /** How far each set was looked at, by its key. */
  const places = new Map<string, number>();

  const removeDue = async (queue: Queue, ids: readonly string[], option: (typeof SETS)[number][1]): Promise<number> => {
    const removed = await Promise.all(
      ids.map(async (id) => {
        // No more of it: it may be large, and no JSON.
        const [opts = null, finishedOn = null] = await client().hmget(queue.toKey(id), 'opts', 'finishedOn');
        const ageS = ageOf(opts, option);
        // It may have been run anew.
        if (ageS === undefined || finishedOn === null) return false;
        if (Number(finishedOn) + ageS * 1000 > clock.wallMs()) return false;
        return (await queue.remove(id, { removeChildren: false })) === 1;
      }),
    );
    return removed.filter(Boolean).length;
  };

  return async (queue: Queue): Promise<number> => {
    let all = 0;
    for (const [set, option] of SETS) {
      const key = queue.toKey(set);
      const from = places.get(key) ?? 0;
      const rows = (await client().zrange(key, String(from), String(from + LOOKED_AT_MAX - 1), 'WITHSCORES')).map(
        String,
      );
      const oldMs = clock.wallMs() - AGE_MS_MIN;
      const ids = rows.filter((_, index) => index % 2 === 0 && Number(rows[index + 1]) <= oldMs);
      let removed = 0;
      for (let at = 0; at < ids.length; at += CHUNK)
        removed += await removeDue(queue, ids.slice(at, at + CHUNK), option);
      places.set(key, ids.length < LOOKED_AT_MAX ? 0 : from + ids.length - removed);
      all += removed;
    }
    return all;
  };
}

/** For how many seconds a job is to be kept; undefined where its options do not say. */
function ageOf(json: string | null, option: (typeof SETS)[number][1]): number | undefined {
  const keep: unknown = optionsOf(json)[option];
  const age = typeof keep === 'object' && keep !== null ? (keep as { readonly age?: unknown }).age : undefined;
  return typeof age === 'number' ? age : undefined;
}
