/** Statistics of real models on real threads, by the in-process API. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { createServer, type Server, type ServerOptions } from './index.ts';

const IO = `backend: "javascript" max_batch_size: 8
  input [{ name: "IN", data_type: TYPE_INT32, dims: [ 1 ] }]
  output [{ name: "OUT", data_type: TYPE_INT32, dims: [ 1 ] }]`;
const ECHO = `
  export const execute = (requests) => requests.map(({ inputs, parameters }) => {
    if (parameters.fail) throw new Error('asked to');
    return { outputs: { OUT: inputs.get('IN') } };
  });`;
/** One answer per row. */
const REPEAT = `
  async function* answers({ inputs }) {
    for (const value of inputs.get('IN').data) {
      yield { outputs: { OUT: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(value) } } };
    }
  }
  export const execute = (requests) => requests.map(answers);`;

const LIMIT_MS = 10_000;

let repository: string;
let redis: RedisServerFixture;
const started: Server[] = [];

beforeAll(async () => {
  redis = await startRedisServer();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-statistics-'));
  await writeModel('echo', IO, ECHO);
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
  await rm(repository, { recursive: true, force: true });
});

async function writeModel(name: string, config: string, code: string, version = '1') {
  await mkdir(join(repository, name, version), { recursive: true });
  await writeFile(join(repository, name, 'config.pbtxt'), config);
  await writeFile(join(repository, name, version, 'model.mjs'), code);
}

async function start(options: Partial<ServerOptions> = {}) {
  const server = await createServer({ modelRepositories: [repository], ...options });
  started.push(server);
  return server;
}

const input = (rows: number, model = 'echo', parameters = {}) => ({
  model,
  inputs: { IN: { datatype: 'INT32' as const, shape: [rows, 1], data: Array.from({ length: rows }, () => 7) } },
  parameters,
});

describe.each<[string, () => Partial<ServerOptions>]>([
  ['by reference', () => ({})],
  ['as frames through Redis', () => ({ redis: { url: redis.url }, lane: 'redis' })],
])('with messages that go %s', (_lane, options) => {
  test('requests, rows, executions and failures are counted, and the times of each phase', async () => {
    const server = await start(options());
    const beganMs = Date.now();
    await server.infer(input(3));
    await server.infer(input(5));
    await expect(server.infer(input(1, 'echo', { fail: true }))).rejects.toThrow('asked to');
    // With roles apart an owner hears of an execution after the answer is there.
    await vi.waitFor(async () => expect((await server.statistics('echo'))[0]?.executionCount).toBe(3), LIMIT_MS);
    const [told, ...others] = await server.statistics('echo');
    expect(others).toEqual([]);
    expect(told).toMatchObject({
      name: 'echo',
      version: '1',
      inferenceCount: 8,
      executionCount: 3,
      inference: { success: { count: 2 }, fail: { count: 1 }, queue: { count: 2 }, cacheHit: { count: 0, ns: 0 } },
      responses: [],
    });
    expect(told?.batches.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count])).toEqual([
      [1, 1],
      [3, 1],
      [5, 1],
    ]);
    expect(told?.lastInferenceMs).toBeGreaterThanOrEqual(beganMs);
    expect(told?.lastInferenceMs).toBeLessThanOrEqual(Date.now());
    const { success, fail, queue, computeInput, computeInfer, computeOutput } = told?.inference ?? {};
    expect(computeInfer?.ns).toBeGreaterThan(0);
    expect(fail?.ns).toBeGreaterThan(0);
    const parts = [queue, computeInput, computeInfer, computeOutput].reduce((sum, part) => sum + (part?.ns ?? 0), 0);
    expect(success?.ns).toBeGreaterThanOrEqual(parts);
  });

  test('answers of a stream are told of by their position', async () => {
    await writeModel('repeat', `${IO} model_transaction_policy { decoupled: true }`, REPEAT);
    const server = await start(options());
    for (const rows of [1, 3]) for await (const _ of server.inferStream(input(rows, 'repeat')));
    await vi.waitFor(async () => expect((await server.statistics('repeat'))[0]?.executionCount).toBe(2), LIMIT_MS);
    const [told] = await server.statistics('repeat');
    expect(told?.responses.map(({ success, emptyResponse }) => [success.count, emptyResponse.count])).toEqual([
      [2, 0],
      [1, 1],
      [1, 0],
      [0, 1],
    ]);
    for (const { success, computeInfer, computeOutput, emptyResponse } of told?.responses ?? []) {
      expect(computeInfer.ns + computeOutput.ns).toBe(success.ns + emptyResponse.ns);
    }
  });
});

test('all models are told by name, their versions ascending; what is not there is refused', async () => {
  await writeModel('alpha', `${IO} version_policy { all { } }`, ECHO, '2');
  await writeModel('alpha', `${IO} version_policy { all { } }`, ECHO, '10');
  const server = await start({ modelControlMode: 'explicit', loadModels: ['*'] });
  const names = async () => (await server.statistics()).map(({ name, version }) => `${name} ${version}`);
  expect(await names()).toEqual(['alpha 2', 'alpha 10', 'echo 1']);
  await server.unloadModel('echo');
  expect(await names()).toEqual(['alpha 2', 'alpha 10']);
  await expect(server.statistics('echo')).rejects.toMatchObject({
    code: 'INVALID_ARG',
    message: "requested model 'echo' is not available",
  });
  await expect(server.statistics('alpha', '3')).rejects.toThrow(
    "requested model version is not available for model 'alpha'",
  );
  await expect(server.statistics(7 as never)).rejects.toThrow('name must be a string, got number');
});

test('a load counts from 0', async () => {
  const server = await start({ modelControlMode: 'explicit', loadModels: ['echo'] });
  await server.infer(input(1));
  expect((await server.statistics('echo'))[0]?.inferenceCount).toBe(1);
  await server.unloadModel('echo');
  await server.loadModel('echo');
  expect((await server.statistics('echo'))[0]?.inferenceCount).toBe(0);
  expect(server.counts().timers).toBe(0);
});
