import { describe, expect, it } from 'vitest';
import {
  bytes,
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  int64,
  request,
  responseOf,
} from './worker-harness.ts';

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const ECHO = `export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { Y: inputs.get('X') } }));`;
const x = (...values: number[]) => request([int32('X', [values.length], values)]);
const sums = (value: number, rows: number, id = '') => {
  const shape = [rows, 16];
  const count = rows * 16;
  return request(
    [int32('INPUT0', shape, new Array(count).fill(value)), int32('INPUT1', shape, new Array(count).fill(100))],
    { id },
  );
};

describe('batches', () => {
  it('come back rightly: id, version, names and order of the outputs', async () => {
    harness.fixture('simple');
    await harness.load('simple');
    const { outcomes, done } = await harness.execute('simple', [
      { ...sums(1, 1, 'mine'), requestedOutputs: ['OUTPUT1', 'OUTPUT0'] },
    ]);
    const response = responseOf(outcomes[0]);
    expect(response).toMatchObject({ modelName: 'simple', modelVersion: '1', id: 'mine' });
    // In the order of the config, whatever the request's.
    expect(response.outputs.map(({ name, shape }) => [name, [...shape]])).toEqual([
      ['OUTPUT0', [1, 16]],
      ['OUTPUT1', [1, 16]],
    ]);
    expect(int32Values(response.outputs[0])).toEqual(new Array(16).fill(101));
    expect(executedOf(done)).toEqual([true, 'ok']);
    for (const phase of ['waitNs', 'inputNs', 'inferNs', 'outputNs'] as const)
      expect(done.timing[phase]).toBeGreaterThan(0);
  });

  it('are joined along rows and split again, each with the outputs it asked for', async () => {
    harness.fixture('simple');
    await harness.load('simple');
    const { outcomes } = await harness.execute('simple', [
      sums(1, 1),
      { ...sums(2, 3), requestedOutputs: ['OUTPUT0'] },
      sums(3, 2),
    ]);
    expect(
      outcomes.map((outcome) =>
        responseOf(outcome).outputs.map(({ name, shape, ...tensor }) => [
          name,
          shape[0],
          int32Values({ name, shape, ...tensor }).at(-1),
        ]),
      ),
    ).toEqual([
      [
        ['OUTPUT0', 1, 101],
        ['OUTPUT1', 1, -99],
      ],
      [['OUTPUT0', 3, 102]],
      [
        ['OUTPUT0', 2, 103],
        ['OUTPUT1', 2, -97],
      ],
    ]);
  });

  it('with a request that fails are split, so that only this one fails', async () => {
    harness.fixture('lookup');
    await harness.load('lookup');
    const at = (index: bigint) => request([int64('INDEX', [1, 1], [index])]);
    const { outcomes, done } = await harness.execute('lookup', [at(1n), at(77n), at(3n)]);
    expect(outcomes.map(({ ok }) => ok)).toEqual([true, false, true]);
    expect(Buffer.from(responseOf(outcomes[2]).outputs[0]?.data ?? []).readFloatLE(0)).toBe(3.5);
    expect(errorOf(outcomes[1])).toMatchObject({
      code: 'INTERNAL',
      message: expect.stringMatching(/^onnx runtime error/),
    });
    expect(executedOf(done)).toEqual([true, 'ok', 'error', 'ok']);
  });

  it('of texts are split rightly, and one that ONNX cannot take fails alone', async () => {
    harness.fixture('identity_batched_bytes');
    await harness.load('identity_batched_bytes');
    const text = (...elements: string[]) =>
      request([
        bytes(
          'INPUT',
          [1, elements.length],
          elements.map((element) => Buffer.from(element, 'latin1')),
        ),
      ]);
    const batch = [text('a', ''), text('caf\u00e9', 'b'), text('', 'long text')];
    const { outcomes } = await harness.execute('identity_batched_bytes', batch);
    expect(errorOf(outcomes[1])).toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining("input 'INPUT' is not UTF-8"),
    });
    for (const i of [0, 2]) expect(responseOf(outcomes[i]).outputs[0]?.data).toEqual(batch[i]?.inputs[0]?.data);
  });

  it('of a JavaScript model have an outcome per request', async () => {
    await harness.javascript(
      'some',
      `export const execute = (requests) => requests.map((r) => r.id === 'bad'
        ? Object.assign(new Error('not this one'), { code: 'NOT_FOUND' })
        : { outputs: { Y: r.inputs.get('X') }, parameters: { id: r.id } });`,
      'max_batch_size: 8',
    );
    await harness.load('some');
    const row = (id: string, value: number) => request([int32('X', [1, 1], [value])], { id });
    const { outcomes } = await harness.execute('some', [row('a', 5), row('bad', 6), row('c', 7)]);
    expect(responseOf(outcomes[0])).toMatchObject({ id: 'a', parameters: { id: 'a' } });
    expect(errorOf(outcomes[1])).toEqual({ code: 'NOT_FOUND', message: 'not this one' });
    expect(int32Values(responseOf(outcomes[2]).outputs[0])).toEqual([7]);
  });

  it('carry large tensors and tensors without elements', async () => {
    await harness.javascript('echo', ECHO);
    await harness.load('echo');
    const values = Array.from({ length: 100_000 }, (_, i) => i);
    const large = await harness.execute('echo', [x(...values)]);
    expect(int32Values(responseOf(large.outcomes[0]).outputs[0])).toEqual(values);
    const empty = await harness.execute('echo', [x()]);
    expect(responseOf(empty.outcomes[0]).outputs[0]).toMatchObject({ shape: [0], data: new Uint8Array() });
  });

  it('leave what a model keeps for itself alone', async () => {
    await harness.javascript(
      'constant',
      `const Y = { datatype: 'INT32', shape: [40000], data: new Int32Array(40000).fill(3) }; export const execute = () => [{ outputs: { Y } }];`,
    );
    await harness.load('constant');
    for (let i = 0; i < 3; i++) {
      const { outcomes } = await harness.execute('constant', [x(1)]);
      expect(int32Values(responseOf(outcomes[0]).outputs[0])[39_999]).toBe(3);
    }
  });

  it('fail together when a JavaScript model throws, and the next one runs', async () => {
    await harness.javascript(
      'throws',
      `export async function execute([{ inputs }]) { if (inputs.get('X').data[0] < 0) throw new Error('negative'); return [{ outputs: { Y: inputs.get('X') } }]; }`,
    );
    await harness.load('throws');
    const failed = await harness.execute('throws', [x(-1)]);
    expect(errorOf(failed.outcomes[0])).toEqual({ code: 'INTERNAL', message: 'negative' });
    expect(executedOf(failed.done)).toEqual([true, 'error']);
    expect((await harness.execute('throws', [x(1)])).outcomes[0]?.ok).toBe(true);
    expect(harness.threads).toHaveLength(1);
  });

  it('run on four instances at once, 200 on each', async () => {
    harness.fixture('add_sub');
    const four = await harness.control('add_sub');
    const config = four.config.replace('"count":1', '"count":4');
    expect(config).not.toBe(four.config);
    await harness.load('add_sub', { config });
    const run = async (instance: number) => {
      for (let i = 0; i < 200; i++) {
        const tensor = {
          name: 'INPUT0',
          datatype: 'FP32' as const,
          shape: [4],
          data: new Uint8Array(Float32Array.of(i, instance, 1, 2).buffer),
        };
        const { outcomes } = await harness.execute(
          'add_sub',
          [request([tensor, { ...tensor, name: 'INPUT1' }])],
          instance,
        );
        const sum = Buffer.from(responseOf(outcomes[0]).outputs[0]?.data ?? []);
        if (sum.readFloatLE(0) !== 2 * i || sum.readFloatLE(4) !== 2 * instance)
          throw new Error(`wrong sum in run ${i} of ${instance}`);
      }
    };
    await Promise.all([0, 1, 2, 3].map(run));
  });

  it('are not executed twice at the same time', async () => {
    await harness.javascript(
      'slow',
      `export async function execute([{ inputs }]) { await new Promise((go) => setTimeout(go, 50)); return [{ outputs: { Y: inputs.get('X') } }]; }`,
    );
    await harness.load('slow');
    const entries = [{ id: 'gw-test:same', replyTo: 'gw-test', request: x(1), session: null, slot: -1 }];
    const execute = (batch: number) => ({
      kind: 'execute' as const,
      model: 'slow',
      epoch: { number: 1, owner: 'co-test' },
      version: '1',
      batch,
      instance: 0,
      entries,
    });
    const [first, second] = [1, 2].map((batch) => harness.next('done', (done) => done.batch === batch));
    for (const batch of [1, 2]) harness.owner.send('wk-test', execute(batch));
    expect((await second)?.entries).toEqual([{ id: 'gw-test:same', result: 'duplicate', error: null }]);
    expect((await second)?.executed).toBe(false);
    expect((await first)?.entries[0]?.result).toBe('ok');
  });
});

describe('a worker keeps its own thread free', () => {
  it('while a model computes', async () => {
    harness.fixture('spin');
    await harness.load('spin');
    let ticks = 0;
    let over = false;
    const running = harness.execute('spin', [request([int64('LOOPS', [1], [200n])])]).then((result) => {
      over = true;
      return result;
    });
    while (!over) {
      await new Promise((resolve) => setImmediate(resolve));
      ticks++;
    }
    expect((await running).outcomes[0]?.ok).toBe(true);
    expect(ticks).toBeGreaterThan(10);
  });

  it('and stops only after the run', async () => {
    harness.fixture('spin');
    await harness.load('spin');
    const running = harness.execute('spin', [request([int64('LOOPS', [1], [200n])])]);
    await new Promise((resolve) => setImmediate(resolve));
    const stopped = harness.worker.stop();
    expect((await running).outcomes[0]?.ok).toBe(true);
    await stopped;
    expect(harness.worker.counters()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0 });
  });
});
