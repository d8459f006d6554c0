import { Cluster } from 'ioredis';
import type { RedisClient } from './redis-connection.ts';

/**
 * Commands of one turn of the event loop in one write. Called before a command is issued, it holds the
 * connection's writes back until this turn's callbacks are done. Does nothing for a Cluster, which has
 * several connections.
 */
export function createTurnWrites(client: RedisClient): () => void {
  let held: RedisStream | undefined;
  if (client instanceof Cluster) return () => {};
  return () => {
    const { stream } = client;
    if (held !== undefined || client.status !== 'ready' || !stream.writable) return;
    stream.cork();
    held = stream;
    setImmediate(() => {
      stream.uncork();
      held = undefined;
    });
  };
}

type RedisStream = Exclude<RedisClient, Cluster>['stream'];
