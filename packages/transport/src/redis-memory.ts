import { Cluster, type Redis } from 'ioredis';
import { infoFields, isRefusal, type RedisClient } from './redis-connection.ts';

/** In bytes. */
export interface RedisMemory {
  readonly used: number;
  readonly max: number;
}

/** What may be left out is, where Redis is fuller than this. */
const FULL_SHARE = 0.9;

/** True where no recording should begin: the rest is for jobs. */
export async function isNearlyFull(client: RedisClient): Promise<boolean> {
  const memory = await redisMemory(client);
  return memory !== undefined && memory.used > memory.max * FULL_SHARE;
}

/** Of the server that is fullest, in bytes; undefined where none has a limit, or INFO is hidden. */
export async function redisMemory(client: RedisClient): Promise<RedisMemory | undefined> {
  const servers: readonly Redis[] = client instanceof Cluster ? client.nodes('master') : [client];
  let fullest: RedisMemory | undefined;
  for (const text of await Promise.all(servers.map(memoryInfo))) {
    const fields = infoFields(text);
    const used = Number(fields.get('used_memory'));
    const max = Number(fields.get('maxmemory'));
    if (!(used > 0 && max > 0)) continue;
    if (fullest === undefined || used / max > fullest.used / fullest.max) fullest = { used, max };
  }
  return fullest;
}

async function memoryInfo(server: Redis): Promise<string> {
  try {
    return await server.info('memory');
  } catch (error) {
    // A user may not ask.
    if (isRefusal(error)) return '';
    throw error;
  }
}
