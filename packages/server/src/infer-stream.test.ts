/** Streams through a real JavaScript model on a real thread, within a process and across the frames of the Redis lane. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createServer, type Server, type ServerOptions } from './index.ts';

const IO = `
  input [{ name: "IN", data_type: TYPE_INT32, dims: [ -1 ] }]
  output [{ name: "OUT", data_type: TYPE_INT32, dims: [ -1 ] }]`;
const DECOUPLED = `backend: "javascript" model_transaction_policy { decoupled: true } ${IO}`;

/** One answer per value; parameters say what else happens. */
const REPEAT = `
  const answer = (value) => ({ outputs: { OUT: { datatype: 'INT32', shape: [1], data: Int32Array.of(value) } } });
  let left = 0;
  async function* answers({ inputs, parameters, signal }) {
    try {
      for (const value of inputs.get('IN').data) {
        if (value === parameters.fail_at) yield new Error('not this one');
        else if (value === parameters.throw_at) throw Object.assign(new Error('no more'), { code: 'UNAVAILABLE' });
        else yield answer(value);
        if (parameters.exit) process.exit(3);
      }
      for (let value = 0; parameters.endless; value++) yield answer(value);
      if (parameters.hang) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    } finally {
      left++;
    }
  }
  export function execute(requests) {
    return requests.map((request) => {
      if (request.parameters.left) return answer(left);
      if (request.parameters.whole) return answer(request.inputs.get('IN').data[0]);
      return answers(request);
    });
  }`;

const ENDLESS = { endless: true };
const LEFT = { left: true };

let repository: string;
const started: Server[] = [];

beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-stream-'));
  await writeModel('repeat', DECOUPLED, REPEAT);
});

afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
  await rm(repository, { recursive: true, force: true });
});

async function writeModel(name: string, config: string, code: string) {
  await mkdir(join(repository, name, '1'), { recursive: true });
  await writeFile(join(repository, name, 'config.pbtxt'), config);
  await writeFile(join(repository, name, '1', 'model.mjs'), code);
}

async function start(options: Partial<ServerOptions> = {}) {
  const server = await createServer({ modelRepositories: [repository], ...options });
  started.push(server);
  return server;
}

const input = (values: readonly number[], parameters = {}, model = 'repeat') => ({
  model,
  inputs: { IN: { datatype: 'INT32' as const, shape: [values.length], data: values } },
  parameters,
});

interface Read {
  readonly values: number[];
  readonly error: unknown;
}

type Outputs = Readonly<Record<string, { readonly data: unknown }>>;

function numbersOf({ OUT }: Outputs): Int32Array {
  if (!(OUT?.data instanceof Int32Array)) throw new Error('an answer without numbers');
  return OUT.data;
}

async function read(answers: AsyncIterable<{ readonly outputs: Outputs }>) {
  const got: { values: number[]; error: unknown } = { values: [], error: undefined };
  try {
    for await (const { outputs } of answers) got.values.push(...numbersOf(outputs));
  } catch (error) {
    got.error = error;
  }
  return got satisfies Read;
}

const nothingGoesOn = { waiting: 0, queued: 0, running: 0, batches: 0 };

/** The next answer of the model: its one instance is free, all streams before having ended. */
async function endedStreams(server: Server): Promise<number | undefined> {
  return (await read(server.inferStream(input([0], LEFT)))).values[0];
}

describe('the answers of a decoupled model', () => {
  test.each([
    ['none', [], []],
    ['one', [5], [5]],
    ['many, in their order', Array.from({ length: 300 }, (_, i) => i), Array.from({ length: 300 }, (_, i) => i)],
  ])('%s', async (_, values, wanted) => {
    const server = await start();
    expect(await read(server.inferStream(input(values)))).toEqual({ values: wanted, error: undefined });
    expect(await endedStreams(server)).toBe(1);
    expect(server.counts()).toMatchObject(nothingGoesOn);
  });

  test('one that is returned whole', async () => {
    const server = await start();
    expect(await read(server.inferStream(input([7], { whole: true })))).toEqual({ values: [7], error: undefined });
  });

  test('the first comes while the model still works on the next', async () => {
    const server = await start();
    const answers = server.inferStream(input([1], { hang: true }));
    expect((await answers.next()).value?.outputs.OUT.data).toEqual(Int32Array.of(1));
    expect(server.counts()).toMatchObject({ waiting: 1, running: 1, batches: 1 });
    await answers.return?.();
    expect(await endedStreams(server)).toBe(1);
  });

  test('another instance serves while one streams', async () => {
    await writeModel('repeat', `${DECOUPLED} instance_group { count: 2 kind: KIND_CPU }`, REPEAT);
    const server = await start();
    const long = server.inferStream(input([1], { hang: true }));
    await long.next();
    const short = [1, 2, 3, 4].map((value) => read(server.inferStream(input([value]))));
    expect((await Promise.all(short)).map(({ values }) => values)).toEqual([[1], [2], [3], [4]]);
    await long.return?.();
  });

  test('a throw in the middle ends that stream with its error, and no other', async () => {
    await writeModel(
      'repeat',
      `${DECOUPLED} max_batch_size: 8 dynamic_batching {}`,
      REPEAT.replaceAll('shape: [1]', 'shape: [1, 1]'),
    );
    const server = await start();
    const rows = (values: readonly number[], parameters: object) => {
      const { inputs, ...rest } = input(values, parameters);
      return server.inferStream({ ...rest, inputs: { IN: { ...inputs.IN, shape: [1, values.length] } } });
    };
    // While the first runs the others gather to one batch.
    const first = rows([0], { hang: true });
    await first.next();
    const both = [rows([1, 2, 3], { throw_at: 2n }), rows([4, 5, 6], {})];
    await first.return?.();
    expect(await Promise.all(both.map(read))).toEqual([
      { values: [1], error: expect.objectContaining({ code: 'UNAVAILABLE', message: 'no more' }) },
      { values: [4, 5, 6], error: undefined },
    ]);
  });

  test('an Error among the answers is thrown to the caller, who leaves', async () => {
    const server = await start();
    const got = await read(server.inferStream(input([1, 2, 3], { fail_at: 2n })));
    expect(got).toMatchObject({ values: [1], error: { code: 'INTERNAL', message: 'not this one' } });
  });

  test('a thread that ends in the middle ends the stream with an error', async () => {
    const server = await start();
    const got = await read(server.inferStream(input([1, 2], { exit: true })));
    expect(got.error).toMatchObject({ code: 'INTERNAL', message: /ended with exit code 3/ });
    expect((await read(server.inferStream(input([9])))).values).toEqual([9]);
  });
});

describe('who does not read to the end', () => {
  test('leaving the iteration ends the generator, and frees the instance', async () => {
    const server = await start();
    for await (const { outputs } of server.inferStream(input([1], ENDLESS))) {
      if (outputs.OUT?.data[0] === 20) break;
    }
    expect(await endedStreams(server)).toBe(1);
    expect(server.counts()).toMatchObject(nothingGoesOn);
  });

  test('so does an aborted signal', async () => {
    const server = await start();
    const leave = new AbortController();
    const answers = server.inferStream(input([1], ENDLESS), { signal: leave.signal });
    await answers.next();
    leave.abort();
    expect((await read(answers)).error).toMatchObject({ code: 'CANCELLED' });
    expect(await endedStreams(server)).toBe(1);
  });

  test('one that never reads is cancelled at the bound, with what came before it', async () => {
    const server = await start();
    const answers = server.inferStream(input([1], ENDLESS));
    // The instance is free for this only once the endless stream has ended.
    expect(await endedStreams(server)).toBe(1);
    const got = await read(answers);
    expect(got.error).toMatchObject({ code: 'UNAVAILABLE', reason: 'stream_unread' });
    expect(got.values).toHaveLength(16_384);
  });
});

describe('one answer where one is waited for', () => {
  test('infer refuses a decoupled model', async () => {
    const server = await start();
    await expect(server.infer(input([1]))).rejects.toMatchObject({ code: 'UNSUPPORTED', message: /is decoupled/ });
  });

  test('and HTTP in the words of Triton', async () => {
    const server = await start({ http: { port: 0, address: '127.0.0.1' } });
    const body = JSON.stringify({ inputs: [{ name: 'IN', datatype: 'INT32', shape: [1], data: [1] }] });
    const answer = await fetch(`${server.urls.http}/v2/models/repeat/infer`, { method: 'POST', body });
    expect([answer.status, await answer.json()]).toEqual([
      501,
      { error: "HTTP end point doesn't support models with decoupled transaction policy" },
    ]);
  });

  test.each([
    [[5], { values: [5], error: undefined }],
    [[], { values: [], error: expect.objectContaining({ message: expect.stringContaining('complete final before') }) }],
    [[1, 2], { values: [], error: expect.objectContaining({ message: expect.stringContaining('more than one') }) }],
  ])('a model that is not decoupled may answer by a stream of one: %j', async (values, wanted) => {
    await writeModel('plain', `backend: "javascript" ${IO}`, REPEAT);
    const server = await start();
    const request = input(values, {}, 'plain');
    expect(await read(server.inferStream(request))).toEqual(wanted);
    const once = server.infer(request).then(
      ({ outputs }) => ({ values: [...numbersOf(outputs)], error: undefined }),
      (error: unknown) => ({ values: [], error }),
    );
    expect(await once).toEqual(wanted);
  });

  test('a request that is wrong gets its error', async () => {
    const server = await start();
    expect((await read(server.inferStream(input([1], {}, 'nope')))).error).toMatchObject({ code: 'NOT_FOUND' });
    expect(() => server.inferStream({ model: 'repeat' } as never)).toThrow(/inputs must be an object/);
  });
});

describe('across the frames of Redis', () => {
  let redis: RedisServerFixture;
  beforeAll(async () => {
    redis = await startRedisServer();
  });
  afterAll(() => redis.stop());

  const startApart = () => start({ redis: { url: redis.url }, lane: 'redis', timeScale: 5 });

  test('all answers come, in their order, with the model busy until the last', async () => {
    const server = await startApart();
    const values = Array.from({ length: 1_000 }, (_, i) => i);
    const [one, other] = [server.inferStream(input(values)), server.inferStream(input(values))];
    expect(await Promise.all([one, other].map(read))).toEqual([
      { values, error: undefined },
      { values, error: undefined },
    ]);
    expect(await endedStreams(server)).toBe(2);
  });

  test('who leaves ends the generator, who never reads is cancelled', async () => {
    const server = await startApart();
    for await (const { outputs } of server.inferStream(input([1], ENDLESS))) {
      if (outputs.OUT?.data[0] === 20) break;
    }
    expect(await endedStreams(server)).toBe(1);
    const answers = server.inferStream(input([1], ENDLESS));
    expect(await endedStreams(server)).toBe(2);
    expect((await read(answers)).error).toMatchObject({ code: 'UNAVAILABLE', reason: 'stream_unread' });
  });
});
