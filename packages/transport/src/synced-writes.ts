import { REDIS_SYNC_MS_MAX, type RedisConnection } from './redis-connection.ts';

/** Writes that have to be on Redis' disk before they count (docs/protocol.md R31). */
export interface SyncedWrites {
  /**
   * Resolves with what `write` did once that is on disk, and what it read too: by this connection, which is told as lost
   * where Redis ended meanwhile. Rejects where either failed, which tells nothing of whether it was written: so it has
   * to be harmless to repeat.
   */
  run<T>(write: () => Promise<T>): Promise<T>;
}

interface Waiting {
  readonly begin: () => Promise<unknown>;
  readonly fulfil: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Written behind the writes that are waited for, so that there is something to wait for also where a repeated write finds
 * all as it wants it. ARGV: for how many milliseconds. Of work that was accepted there is room for it (maxmemory).
 */
const MARK = `#!lua flags=allow-oom
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])`;
const MARK_MS = 1_000;

/**
 * WAITAOF on the connection by which the writes go; nothing else should use it, since it stands still meanwhile. What
 * comes during one wait shares the next: where Redis syncs once a second, so do thousands of writes. Redis counts what a
 * connection has written, and a new one has written nothing; so what a broken connection had begun is told as failed.
 */
export function createSyncedWrites(connection: RedisConnection, markKey: string): SyncedWrites {
  let waiting: Waiting[] = [];
  let losses = 0;
  let isRunning = false;
  connection.watch((event) => {
    if (event === 'lost') losses++;
  });

  const settle = async (together: readonly Waiting[]) => {
    const before = losses;
    const begun = await Promise.allSettled(together.map(({ begin }) => begin()));
    let failure: unknown;
    try {
      const { client } = connection;
      const [, synced] = await Promise.all([
        client.eval(MARK, 1, markKey, MARK_MS),
        client.call('WAITAOF', '1', '0', String(REDIS_SYNC_MS_MAX)) as Promise<readonly unknown[]>,
      ]);
      if (losses !== before) failure = new Error('the connection was lost before the disk had it');
      else if (Number(synced[0]) < 1) failure = new Error(`not on disk after ${REDIS_SYNC_MS_MAX} ms`);
    } catch (error) {
      failure = error;
    }
    for (const [index, { fulfil, reject }] of together.entries()) {
      const result = begun[index];
      if (result?.status === 'rejected') reject(result.reason);
      else if (failure !== undefined) reject(failure);
      else fulfil();
    }
  };

  const runAll = async () => {
    isRunning = true;
    while (waiting.length > 0) {
      const together = waiting;
      waiting = [];
      await settle(together);
    }
    isRunning = false;
  };

  return {
    run<T>(write: () => Promise<T>) {
      return new Promise<T>((resolve, reject) => {
        let done: T;
        const begin = async () => {
          done = await write();
        };
        waiting.push({ begin, fulfil: () => resolve(done), reject });
        if (!isRunning) void runAll();
      });
    },
  };
}
