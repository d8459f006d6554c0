import type { BlobRef } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createRedisBlobs } from './blob-redis.ts';
import { connectRedis, type RedisClient } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';

const BLOB: BlobRef = { place: 'redis', id: 'b', bytes: 1 };

/** On a connection that cannot be had, as where Redis has as many as it takes. */
function blobsWithoutConnection() {
  const clock = virtualClock();
  const connection = connectRedis('redis://nowhere', { name: 'test:blobs' }).connect('blobs');
  const never = { ...connection, isReady: false, ready: () => new Promise<void>(() => {}) };
  return { clock, blobs: createRedisBlobs(never, redisKeys('nereid'), clock) };
}

test('a read does not wait for ever for its connection: all that comes later waits behind it', async () => {
  const { clock, blobs } = blobsWithoutConnection();
  const read = blobs.read(BLOB, false);
  clock.advanceUs(5_000_000);
  expect(await read).toBeUndefined();
  expect(clock.liveTimers).toBe(0);
});

test('nor does a write', async () => {
  const { clock, blobs } = blobsWithoutConnection();
  const stored = blobs.write('b', Uint8Array.of(1), 1_000);
  clock.advanceUs(5_000_000);
  expect(await stored).toBe('lost');
});

test('who has written nothing deletes what others wrote all the same', async () => {
  const clock = virtualClock();
  const connection = connectRedis('redis://nowhere', { name: 'test:blobs' }).connect('blobs');
  const deleted: string[] = [];
  const client = { del: async (key: string) => deleted.push(key) } as unknown as RedisClient;
  let dial = () => {};
  const dialled = new Promise<void>((resolve) => {
    dial = resolve;
  });
  const blobs = createRedisBlobs(
    { ...connection, client, isReady: false, ready: () => dialled },
    redisKeys('nereid'),
    clock,
  );
  blobs.remove([]);
  expect(clock.liveTimers).toBe(0);
  blobs.remove(['b']);
  dial();
  await expect.poll(() => deleted).toEqual([redisKeys('nereid').blob('b')]);
  expect(clock.liveTimers).toBe(0);
});
