/** One process by itself whose messages go through its private Redis. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectRedis } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createServer } from './create-server.ts';

const SAMPLES = new URL('../../../model_repository', import.meta.url).pathname;

test("the lane 'redis' without a Redis uses the private one, for messages and jobs", async () => {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'nereid-lane-'));
  const privateRedis = { dataDirectory, searchPath: process.env.PATH ?? '' };
  const server = await createServer({ modelRepositories: [SAMPLES], lane: 'redis', privateRedis });
  try {
    const data = Array.from({ length: 16 }, (_, index) => index);
    const vector = { datatype: 'INT32', shape: [1, 16], data } as const;
    const { outputs } = await server.infer({ model: 'simple', inputs: { INPUT0: vector, INPUT1: vector } });
    expect(outputs.OUTPUT0?.data).toEqual(Int32Array.from(data, (value) => 2 * value));
    const redis = connectRedis(server.urls.redis ?? '', { name: 'test' }).connect('test');
    await redis.ready();
    expect(await redis.client.keys('nereid:mb:*:open')).toHaveLength(3);
    expect(await redis.client.info('commandstats')).toContain('cmdstat_blmpop');
    redis.close();
  } finally {
    await server.stop();
    await rm(dataDirectory, { recursive: true });
  }
});

test("without a Redis program the lane 'redis' says how to get one", async () => {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'nereid-lane-'));
  try {
    const server = createServer({
      modelRepositories: [SAMPLES],
      lane: 'redis',
      privateRedis: { dataDirectory, searchPath: '' },
    });
    await expect(server).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'redis_unusable' });
  } finally {
    await rm(dataDirectory, { recursive: true });
  }
});
