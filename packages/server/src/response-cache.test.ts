/** Answers that are kept, by the in-process API. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { createServer, type Server, type ServerOptions } from './index.ts';

const CONFIG = `backend: "javascript"
  input [{ name: "IN", data_type: TYPE_INT32, dims: [ 1 ] }]
  output [{ name: "OUT", data_type: TYPE_INT32, dims: [ 1 ] }]
  response_cache { enable: true }`;
/** Answers with how many requests it has had, from `first`. */
const counting = (first: number) => `
  let count = ${first};
  const OUT = () => ({ datatype: 'INT32', shape: [1], data: Int32Array.of(count++) });
  export const execute = (requests) => requests.map(() => ({ outputs: { OUT: OUT() } }));`;
const LOCAL = { kind: 'local', bytes_max: 1_000_000, ttl_s: 0 } as const;

let repository: string;
let redis: RedisServerFixture;
const started: Server[] = [];

beforeAll(async () => {
  redis = await startRedisServer();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-cache-'));
  await mkdir(join(repository, 'counts', '1'), { recursive: true });
  await writeFile(join(repository, 'counts', 'config.pbtxt'), CONFIG);
  await writeCode(counting(1));
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
  await rm(repository, { recursive: true, force: true });
});

const writeCode = (code: string) => writeFile(join(repository, 'counts', '1', 'model.mjs'), code);

async function start(options: Partial<ServerOptions> = {}): Promise<Server> {
  const server = await createServer({ modelRepositories: [repository], cache: LOCAL, ...options });
  started.push(server);
  return server;
}

const input = { model: 'counts', inputs: { IN: { datatype: 'INT32' as const, shape: [1], data: [7] } } };

async function ask(server: Server): Promise<number> {
  const { outputs } = await server.infer(input);
  return Number(outputs.OUT?.data[0]);
}

async function hits(server: Server): Promise<readonly number[]> {
  const [told] = await server.statistics('counts');
  const { cacheHit, cacheMiss } = told?.inference ?? {};
  return [cacheHit?.count ?? -1, cacheMiss?.count ?? -1];
}

test('a hit is in the statistics that are asked for next', async () => {
  const server = await start();
  expect(await hits(server)).toEqual([0, 0]);
  expect([await ask(server), await ask(server)]).toEqual([1, 1]);
  expect(await hits(server)).toEqual([1, 1]);
});

test('without a cache a model that wants one runs each time', async () => {
  const server = await createServer({ modelRepositories: [repository] });
  started.push(server);
  expect([await ask(server), await ask(server)]).toEqual([1, 2]);
  expect(await hits(server)).toEqual([0, 0]);
});

test('files that were changed begin anew with their load; as they were, their answers are given again', async () => {
  const server = await start({ modelControlMode: 'explicit', loadModels: ['counts'] });
  expect([await ask(server), await ask(server)]).toEqual([1, 1]);
  await writeCode(counting(100));
  await server.loadModel('counts');
  expect([await ask(server), await ask(server)]).toEqual([100, 100]);
  await writeCode(counting(1));
  await server.loadModel('counts');
  expect(await ask(server)).toBe(1);
});

test('a stream of a model with one answer is a hit too', async () => {
  const server = await start();
  const answers: unknown[] = [];
  for (let call = 0; call < 2; call++) {
    for await (const { outputs } of server.inferStream(input)) answers.push(outputs.OUT?.data[0]);
  }
  expect(answers).toEqual([1, 1]);
  expect(await hits(server)).toEqual([1, 1]);
});

test('a server by itself keeps answers in a Redis of their own, which the next server finds', async () => {
  const cache = { kind: 'redis', redis: { url: redis.url }, ttl_s: 60, answer_ms: 5_000 } as const;
  const first = await start({ cache });
  // Not waited for at the start: what comes before it is there is not kept.
  let count = 0;
  await vi.waitFor(async () => {
    count = await ask(first);
    expect(await ask(first)).toBe(count);
  });
  await first.stop();
  const second = await start({ cache });
  await vi.waitFor(async () => {
    expect(await ask(second)).toBe(count);
    expect((await hits(second))[0]).toBeGreaterThan(0);
  });
});

test.each([
  [{ kind: 'disk' }, /^cache must be an object of kind/],
  [{ kind: 'local', bytes_max: -1, ttl_s: 0 }, /^cache.bytes_max must be a whole number from 1/],
  [{ kind: 'redis', ttl_s: 0, answer_ms: 1 }, /^cache.ttl_s must be/],
  [{ kind: 'redis', ttl_s: 1, answer_ms: 1 }, /^cache needs the URL of a Redis/],
  [
    { kind: 'redis', ttl_s: 1, answer_ms: 1, redis: { url: 'rediss://h', tls: { ca: '/none.pem' } } },
    /^--cache-config: cannot read \/none.pem/,
  ],
])('%j is refused', async (cache, text) => {
  await expect(start({ cache: cache as unknown as NonNullable<ServerOptions['cache']> })).rejects.toThrow(text);
});
