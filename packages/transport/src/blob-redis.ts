/** Blobs as keys in Redis, for processes of different hosts (docs/protocol.md R29). */
import type { BlobRef } from '@nereid/protocol';
import { answeredWithin, type Clock } from '@nereid/runtime';
import { isRefusal, type RedisClient, type RedisConnection } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';

/**
 * How long a read or a write waits for the connection. What comes later for the same process waits behind it, and this
 * connection alone may not be had, e.g. where Redis has as many clients as it takes.
 */
const CONNECT_MS_MAX = 2_000;

/** `full`: Redis is out of memory. `lost`: the connection broke, or cannot be had; it may be there or not. */
export type Stored = 'stored' | 'full' | 'lost';

export interface RedisBlobs {
  write(id: string, data: Uint8Array, ttlMs: number): Promise<Stored>;
  /** Undefined where it is gone, or Redis is away; `take` deletes it. */
  read(ref: BlobRef, take: boolean): Promise<Uint8Array | undefined>;
  /** The ids of those that are still there; all of them where Redis is away. */
  present(ids: readonly string[]): Promise<readonly string[]>;
  /** Their time to live begins anew. */
  renew(ids: readonly string[], ttlMs: number): void;
  remove(ids: readonly string[]): void;
  close(): void;
}

/** On a connection of its own, which is dialled at the first use: large values hold up what is behind them. */
export function createRedisBlobs(connection: RedisConnection, keys: RedisKeys, clock: Clock): RedisBlobs {
  /** Rejects once closed, or where it takes too long. */
  const connected = async () => {
    if (!connection.isReady) await answeredWithin(connection.ready(), CONNECT_MS_MAX, clock);
  };

  /**
   * For what needs no answer: a blob that stays runs out by itself. Who only passes names on has no connection yet when
   * it renews or deletes its first one.
   */
  const tell = (ids: readonly string[], command: (client: RedisClient, key: string) => Promise<unknown>) => {
    const send = () => {
      for (const id of ids) command(connection.client, keys.blob(id)).catch(() => {});
    };
    if (connection.isReady) send();
    else if (ids.length > 0) connected().then(send, () => {});
  };

  return {
    async write(id, data, ttlMs) {
      const value = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      try {
        await connected();
        await connection.client.set(keys.blob(id), value, 'PX', ttlMs);
        return 'stored';
      } catch (error) {
        return isRefusal(error) ? 'full' : 'lost';
      }
    },
    async read({ id, bytes }, take) {
      try {
        await connected();
        const key = keys.blob(id);
        const found = await (take ? connection.client.getdelBuffer(key) : connection.client.getBuffer(key));
        return found?.byteLength === bytes ? new Uint8Array(found.buffer, found.byteOffset, bytes) : undefined;
      } catch {
        return undefined;
      }
    },
    async present(ids) {
      try {
        const found = await Promise.all(ids.map((id) => connection.client.exists(keys.blob(id))));
        return ids.filter((_, position) => found[position] !== 0);
      } catch {
        return ids;
      }
    },
    renew: (ids, ttlMs) => tell(ids, (client, key) => client.pexpire(key, ttlMs)),
    remove: (ids) => tell(ids, (client, key) => client.del(key)),
    close: () => connection.close(),
  };
}
