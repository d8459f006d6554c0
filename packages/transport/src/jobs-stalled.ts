import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Worker } from 'bullmq';
import type { RedisClient } from './redis-connection.ts';

/** Queues due so soon are looked at along: after a few rounds all have the same turn, and one timer's wake serves all. */
export const ALONG_PARTS = 2;

export interface StalledCheckParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly client: Pick<RedisClient, 'exists'>;
  /** One command may name keys of several queues, unlike in a Cluster. */
  readonly together: boolean;
  readonly everyMs: number;
}

/** What it needs of a BullMQ worker. */
export interface StalledQueue {
  readonly toKey: Worker['toKey'];
  readonly backend: Pick<Worker['backend'], 'moveStalledJobsToWait'>;
}

/**
 * Looks for jobs whose lock has run out, of all queues that this process takes from: each at once and then every
 * `everyMs`, as BullMQ does for each queue by itself. A queue without a running job has none, so while nothing runs
 * a round is one EXISTS.
 */
export interface StalledCheck {
  /** Returns how to stop. */
  add(queue: StalledQueue): () => void;
}

export function createStalledCheck(parts: StalledCheckParts): StalledCheck {
  const { clock, log, client, everyMs } = parts;
  /** When each was looked at last, microseconds. */
  const queues = new Map<StalledQueue, number>();
  let timer: Timer | undefined;

  const anyRuns = async (some: readonly StalledQueue[]): Promise<boolean> =>
    (await client.exists(...some.map((queue) => queue.toKey('active')))) > 0;

  const look = async (queue: StalledQueue) => {
    if (await anyRuns([queue])) await queue.backend.moveStalledJobsToWait();
  };

  const lookAt = async (due: readonly StalledQueue[]) => {
    try {
      if (parts.together && due.length > 1 && !(await anyRuns(due))) return;
      await Promise.all(due.filter((queue) => queues.has(queue)).map(look));
    } catch (error) {
      log.debug({ err: error }, 'stalled jobs not looked for, trying again');
    }
  };

  const round = () => {
    timer = undefined;
    const nowUs = clock.nowUs();
    const due: StalledQueue[] = [];
    for (const [queue, lastUs] of queues) if (nowUs - lastUs >= (everyMs * 1000) / ALONG_PARTS) due.push(queue);
    for (const queue of due) queues.set(queue, nowUs);
    void lookAt(due);
    schedule();
  };

  const schedule = () => {
    timer?.cancel();
    timer = undefined;
    if (queues.size === 0) return;
    timer = clock.at(Math.min(...queues.values()) + everyMs * 1000, round);
  };

  return {
    add(queue) {
      queues.set(queue, clock.nowUs());
      void lookAt([queue]);
      schedule();
      return () => {
        if (queues.delete(queue)) schedule();
      };
    },
  };
}
