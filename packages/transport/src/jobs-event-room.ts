import type { RedisClient } from './redis-connection.ts';

/** Marks are so far apart, and so many are kept: what stays in a queue's events is at most one more. */
const BYTES_PER_MARK = 16_777_216;
const MARKS_KEPT = 4;

/**
 * Bounds what the answers of streams hold in the events of a queue, of which BullMQ keeps some 10,000 whatever their
 * size. The returned function is told what was added, and lets the oldest events go where that was too much.
 */
export function createEventRoom(client: Pick<RedisClient, 'time' | 'xtrim'>, key: string): (bytes: number) => void {
  /** Times of Redis, in milliseconds, as events' ids begin with. */
  const marks: number[] = [];
  let grown = 0;

  const mark = async () => {
    const [seconds, microseconds] = await client.time();
    marks.push(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000));
    if (marks.length <= MARKS_KEPT) return;
    await client.xtrim(key, 'MINID', `${marks.shift()}-0`);
  };

  return (bytes) => {
    grown += bytes;
    if (grown < BYTES_PER_MARK) return;
    grown = 0;
    // The next mark does it as well.
    mark().catch(() => {});
  };
}
