import { systemClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { redisKeys } from './redis-keys.ts';
import { useRedisLane } from './redis-transport-fixture.ts';
import { createRedisUploads } from './redis-uploads.ts';
import { UPLOADS_BYTES_MAX, uploadsContract } from './uploads-contract.ts';

const lane = useRedisLane();
let prefixes = 0;

function make() {
  const connector = lane.connector('test:uploads');
  const limits = { uploads_bytes_max: UPLOADS_BYTES_MAX };
  return createRedisUploads({ connector, prefix: `u${++prefixes}`, clock: systemClock(), limits });
}

const ttlMs = async (name: string) =>
  Number(await lane.admin.client.call('PTTL', redisKeys(`u${prefixes}`).upload('all', name)));

uploadsContract('Redis', make);

test('runs out soon where nothing refers to it, and late while something does', async () => {
  const uploads = make();
  const name = await uploads.put(new Uint8Array(1));
  expect(await ttlMs(name)).toBeLessThanOrEqual(600_000);
  await uploads.keep([name]);
  expect(await ttlMs(name)).toBeGreaterThan(86_000_000);
  // Put anew, it is not there for less long.
  await uploads.put(new Uint8Array(1));
  expect(await ttlMs(name)).toBeGreaterThan(86_000_000);
  await uploads.release([name]);
  expect(await ttlMs(name)).toBeLessThanOrEqual(60_000);
});

test('what has run out leaves its room to others', async () => {
  const uploads = make();
  const name = await uploads.put(new Uint8Array(UPLOADS_BYTES_MAX));
  const keys = redisKeys(`u${prefixes}`);
  await lane.admin.client.call('DEL', keys.upload('all', name));
  await lane.admin.client.call('ZADD', keys.uploads('all'), '1', name);
  await uploads.put(new Uint8Array(UPLOADS_BYTES_MAX).fill(1));
  expect(await lane.admin.client.call('HLEN', keys.uploadBytes('all'))).toBe(1);
});
