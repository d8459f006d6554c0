/** Where a waiting job stands among those of its queue. */
import type { Queue } from 'bullmq';
import type { RedisClient } from './redis-connection.ts';

/** Jobs without a priority that are looked at: Redis looks through them one by one. */
const LOOKED_AT_MAX = 10_000;

/** How many jobs are taken before it; undefined where it does not wait, or waits behind very many without a priority. */
export async function jobPlace(
  client: Pick<RedisClient, 'lpos' | 'llen' | 'zrank'>,
  queue: Queue,
  id: string,
): Promise<number | undefined> {
  const wait = queue.toKey('wait');
  // Those without a priority go first: the last of the list, then the others by priority and age.
  const [fromHead, length, rank] = await Promise.all([
    client.lpos(wait, id, 'RANK', -1, 'MAXLEN', LOOKED_AT_MAX),
    client.llen(wait),
    client.zrank(queue.toKey('prioritized'), id),
  ]);
  if (fromHead !== null) return length - 1 - Number(fromHead);
  return rank === null ? undefined : length + Number(rank);
}
