import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { InferRequest, Outcome } from '@nereid/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import type { BackendInstance, InstanceLoad } from './backend.ts';
import { describeBackendContract, inferRequest, int32Tensor, runBatch } from './backend-contract.ts';
import { textLoad } from './fixture-load.ts';
import { javascriptBackend } from './javascript.ts';
import type { ModelCalls } from './model-calls.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

const ONE = `name: "m" backend: "javascript"
input { name: "X" data_type: TYPE_INT32 dims: -1 }
output { name: "Y" data_type: TYPE_INT32 dims: -1 }`;

async function model(source: string, config = ONE): Promise<InstanceLoad> {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-javascript-'));
  folders.push(folder);
  await mkdir(join(folder, '1'));
  await writeFile(join(folder, '1', 'model.mjs'), source);
  return textLoad(folder, config);
}

describeBackendContract({
  backend: javascriptBackend,
  simple: () =>
    model(
      `export const execute = (requests) => requests.map(({ inputs }) => {
        const a = inputs.get('INPUT0'), b = inputs.get('INPUT1');
        const with_ = (f) => ({ datatype: 'INT32', shape: a.shape, data: a.data.map((x, i) => f(x, b.data[i])) });
        return { outputs: { OUTPUT0: with_((x, y) => x + y), OUTPUT1: with_((x, y) => x - y) } };
      });`,
      `name: "simple" backend: "javascript" max_batch_size: 8
      input { name: "INPUT0" data_type: TYPE_INT32 dims: 16 } input { name: "INPUT1" data_type: TYPE_INT32 dims: 16 }
      output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 } output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 }`,
    ),
  bytes: () =>
    model(
      `export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get('INPUT') } }));`,
      `name: "texts" backend: "javascript" max_batch_size: 4
      input { name: "INPUT" data_type: TYPE_STRING dims: -1 } output { name: "OUTPUT" data_type: TYPE_STRING dims: -1 }`,
    ),
  failing: () =>
    model(
      `export async function execute([{ inputs }]) {
        if (inputs.get('INPUT').data.length !== 3) throw new Error('three, please');
        return [{ outputs: { OUTPUT: inputs.get('INPUT') } }];
      }`,
      `name: "failing" backend: "javascript"
      input { name: "INPUT" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 3 }`,
    ),
});

async function run(source: string, requests: InferRequest[] = [request()]): Promise<Outcome[]> {
  const instance = await javascriptBackend.load(await model(source));
  return runBatch(instance, requests);
}

const request = (more: Partial<InferRequest> = {}) => inferRequest([int32Tensor('X', [2], [1, 2])], more);

describe('javascript: what a model sees', () => {
  it('gets id, flags, correlation id, timeout, parameters, inputs and a signal', async () => {
    const source = `export const execute = (requests) => requests.map((r) => new Error(JSON.stringify({
      id: r.id, flags: r.flags, timeout: r.timeoutUs, correlation: typeof r.correlationId, parameters: Object.entries(r.parameters).map(([k, v]) => [k, typeof v]),
      input: [...r.inputs].map(([n, t]) => [n, t.datatype, t.shape, t.data.constructor.name]), aborted: r.signal.aborted })));`;
    const [outcome] = await run(source, [
      request({
        id: 'r1',
        sequenceStart: true,
        sequenceEnd: true,
        correlationId: 7n,
        timeoutUs: 5000n,
        parameters: { small: 5n, large: 2n ** 60n, text: 'a', real: 0.5 },
      }),
    ]);
    expect(JSON.parse(outcome?.ok === false ? outcome.error.message : '{}')).toEqual({
      id: 'r1',
      flags: 3,
      timeout: 5000,
      correlation: 'bigint',
      parameters: [
        ['small', 'number'],
        ['large', 'bigint'],
        ['text', 'string'],
        ['real', 'number'],
      ],
      input: [['X', 'INT32', [2], 'Int32Array']],
      aborted: false,
    });
  });

  it('is initialised with its config, name, device and version', async () => {
    const lines: string[] = [];
    const load = await model(`export function initialize({ modelConfig, instanceName, device, version, context }) {
      context.log.info([modelConfig.name, modelConfig.input[0].data_type, instanceName, device.kind, version].join(' '));
    } export const execute = () => [];`);
    await javascriptBackend.load({ ...load, log: { ...load.log, info: (text) => lines.push(text) } });
    expect(lines).toEqual(['m TYPE_INT32 m_0 cpu 1']);
  });

  it('is read anew at each load and finalised', async () => {
    const load = await model(`export const execute = () => [new Error('old')];`);
    const run = async () => {
      const instance: BackendInstance = await javascriptBackend.load(load);
      const [outcome] = await runBatch(instance, [request()]);
      await instance.finalize();
      return outcome?.ok === false ? outcome.error.message : '';
    };
    expect(await run()).toBe('old');
    await writeFile(
      join(load.versionDirectory, 'model.mjs'),
      `export const execute = () => [new Error('new')]; export function finalize() { throw new Error('finalised'); }`,
    );
    await expect(run()).rejects.toThrow('finalised');
  });

  it("gets the config's batch inputs beside the requests, of all of them", async () => {
    const load = await model(
      `export const execute = (requests, batchInputs) => requests.map(() => new Error(JSON.stringify([...batchInputs]
        .map(([name, { datatype, shape, data }]) => [name, datatype, shape, [...data]]))));`,
      `${ONE} max_batch_size: 4
      batch_input { target_name: [ "N", "M" ] data_type: TYPE_FP32 source_input: "X" }`,
    );
    const instance = await javascriptBackend.load(load);
    const rows = (count: number) => inferRequest([int32Tensor('X', [count, 2], new Array(2 * count).fill(0))]);
    const outcomes = await runBatch(instance, [rows(1), rows(2)]);
    const seen = outcomes.map((outcome) => (outcome.ok ? '' : JSON.parse(outcome.error.message)));
    const both = ['N', 'M'].map((name) => [name, 'FP32', [2], [2, 4]]);
    expect(seen).toEqual([both, both]);
  });

  it('gets the shapes that the config reshapes to, and gives those', async () => {
    const load = await model(
      `export const execute = (requests) => requests.map(({ inputs }) => {
        const X = inputs.get('X'), S = inputs.get('S');
        return { outputs: { Y: X, T: S }, parameters: { seen: JSON.stringify([X.shape, S.shape]) } };
      });`,
      `name: "m" backend: "javascript" max_batch_size: 4
      input { name: "X" data_type: TYPE_INT32 dims: [ 2, -1 ] reshape { shape: [ 1, 2, -1 ] } }
      input { name: "S" data_type: TYPE_INT32 dims: 1 reshape { } }
      output { name: "Y" data_type: TYPE_INT32 dims: [ -1, 2 ] reshape { shape: [ 1, -1, 2 ] } }
      output { name: "T" data_type: TYPE_INT32 dims: [ 1, 1 ] reshape { } }`,
    );
    const [outcome] = await runBatch(await javascriptBackend.load(load), [
      inferRequest([int32Tensor('X', [1, 2, 2], [1, 2, 3, 4]), int32Tensor('S', [1, 1], [9])]),
    ]);
    if (outcome?.ok !== true) throw new Error(outcome?.error.message);
    const { parameters, outputs } = outcome.response;
    expect(parameters).toEqual({ seen: '[[1,1,2,2],[1]]' });
    expect(outputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['Y', [1, 2, 2]],
      ['T', [1, 1, 1]],
    ]);
  });

  it('is told that context.metrics comes later', async () => {
    const load = await model(
      `export async function initialize({ context }) { context.metrics; } export const execute = () => [];`,
    );
    await expect(javascriptBackend.load(load)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('context.metrics'),
    });
  });
});

describe('javascript: what a model calls', () => {
  const calling = (execute: string) =>
    `let context; export const initialize = (start) => { context = start.context; };
    export const execute = async (requests) => ${execute};`;

  it('what a call throws fails the batch with its code; anything else as INTERNAL', async () => {
    const lost = `{ throw await context.infer('gone', { inputs: {} }).catch((error) => error); }`;
    expect(await failure(calling(lost))).toMatchObject({
      code: 'NOT_FOUND',
      message: "in a call of model 'gone', nobody serves 'gone'",
    });
    const wrong = await failure(calling(`{ await context.infer('m', { inputs: 5 }); }`));
    expect(wrong).toMatchObject({ code: 'INVALID_ARG', field: undefined });
    const own = `{ throw Object.assign(new Error('own'), { code: 'NOT_FOUND' }); }`;
    expect(await failure(calling(own))).toMatchObject({ code: 'INTERNAL', message: 'own' });
  });

  it('a call is made for the requests that it names, by their places', async () => {
    const load = await model(
      calling(`{
        for (const request of [undefined, requests[1], requests, []]) {
          await context.infer('m', { inputs: {} }, { request }).catch(() => {});
        }
        return requests.map(() => new Error('done'));
      }`),
    );
    const seen: unknown[] = [];
    const calls: ModelCalls = {
      open(made, places) {
        seen.push([made.id, places?.map(({ position }) => position)]);
        return load.calls.open(made, places);
      },
    };
    const instance = await javascriptBackend.load({ ...load, calls });
    const placed = ['first', 'second'].map((id, position) => ({
      request: request({ id }),
      place: { sequence: 1, position },
      signal: new AbortController().signal,
    }));
    await instance.execute({ requests: placed, rows: [1, 1], joined: [], wantedOutputs: [] });
    expect(seen).toEqual([
      ['', undefined],
      ['second', [1]],
      ['', [0, 1]],
      ['', []],
    ]);
  });
});

/** What `execute` of that model throws. */
async function failure(source: string): Promise<unknown> {
  const instance = await javascriptBackend.load(await model(source));
  return runBatch(instance, [request()]).then(
    () => 'nothing thrown',
    (thrown: unknown) => thrown,
  );
}

describe('javascript: what a model returns', () => {
  const y = `{ datatype: 'INT32', shape: [1], data: Int32Array.of(5) }`;

  it('parameters with integers as integers', async () => {
    const [outcome] = await run(
      `export const execute = () => [{ outputs: { Y: ${y} }, parameters: { n: 3, x: 0.5, s: 'a', b: true } }];`,
    );
    expect(outcome).toMatchObject({
      ok: true,
      response: { modelName: 'm', modelVersion: '1', parameters: { n: 3n, x: 0.5, s: 'a', b: true } },
    });
  });

  it('an Error beside responses fails only its request', async () => {
    const outcomes = await run(
      `export const execute = () => [{ outputs: { Y: ${y} } }, Object.assign(new Error('busy'), { code: 'UNAVAILABLE' }), new Error('plain'), Object.assign(new Error('odd'), { code: 'ENOENT' })];`,
      [request(), request(), request(), request()],
    );
    expect(outcomes.map((outcome) => (outcome.ok ? 'ok' : `${outcome.error.code} ${outcome.error.message}`))).toEqual([
      'ok',
      'UNAVAILABLE busy',
      'INTERNAL plain',
      'INTERNAL odd',
    ]);
  });

  it.each([
    ['a wrong output', `{ outputs: { Z: ${y} } }`, "model 'm', output 'Z': the model configuration has no such output"],
    ['a wrong datatype', `{ outputs: { Y: { ...${y}, datatype: 'FP32' } } }`, "output 'Y': datatype is FP32"],
    [
      'a wrong array',
      `{ outputs: { Y: { ...${y}, data: Float32Array.of(5) } } }`,
      'must be a Int32Array, got Float32Array',
    ],
    ['a wrong shape', `{ outputs: { Y: { ...${y}, shape: [2] } } }`, 'shape \\[2\\] has 2 elements, data 1'],
    ['no shape', `{ outputs: { Y: { ...${y}, shape: '1' } } }`, 'shape must be an array'],
    ['a missing output', `{ outputs: {} }`, "model 'm', output 'Y': the request wants it and the model did not"],
    ['no outputs', `{}`, "'outputs' is undefined"],
    ['nothing', `undefined`, 'returned undefined in place of a response'],
    ['a wrong parameter', `{ outputs: { Y: ${y} }, parameters: { p: {} } }`, "parameter 'p'"],
    ['an integer too long', `{ outputs: { Y: ${y} }, parameters: { p: 2n ** 64n } }`, "parameter 'p'"],
    ['a getter that throws', `{ get outputs() { throw new RangeError('late'); } }`, '^late$'],
    ['an Error whose message is no text', `Object.assign(new Error('x'), { message: () => 'odd' })`, 'odd'],
    ['an Error that throws', `new Proxy(new Error('x'), { get() { throw new Error('odd'); } })`, 'odd|cannot be read'],
    [
      'an array whose buffer is gone',
      `(() => { const data = Int32Array.of(5); structuredClone(data.buffer, { transfer: [data.buffer] });
        return { outputs: { Y: { ...${y}, shape: [0], data } } }; })()`,
      '.',
    ],
  ])('%s is INTERNAL and says where', async (_, returned, message) => {
    const [outcome, other] = await run(`export const execute = () => [${returned}, { outputs: { Y: ${y} } }];`, [
      request(),
      request(),
    ]);
    expect(outcome).toMatchObject({ ok: false, error: { code: 'INTERNAL', message: expect.stringMatching(message) } });
    expect(other?.ok).toBe(true);
  });

  it('a shape that is none of its reshape is INTERNAL and says so', async () => {
    const load = await model(
      `export const execute = () => [{ outputs: { Y: { datatype: 'INT32', shape: [1, 5], data: new Int32Array(5) } } }];`,
      `name: "m" backend: "javascript" max_batch_size: 4
      input { name: "X" data_type: TYPE_INT32 dims: -1 }
      output { name: "Y" data_type: TYPE_INT32 dims: [ 2, 2 ] reshape { shape: 4 } }`,
    );
    const [outcome] = await runBatch(await javascriptBackend.load(load), [request()]);
    expect(outcome).toMatchObject({
      error: { code: 'INTERNAL', message: "output 'Y' has shape [1,5], which is none of its reshape [4]" },
    });
  });

  it.each([
    [[], "model 'm', output 'Z'"],
    [['Z'], "model 'm', output 'Z'"],
    [['Y'], undefined],
  ])('one of two outputs is enough for a request of %j: not so says %s', async (requestedOutputs, message) => {
    const load = await model(
      `export const execute = () => [{ outputs: { Y: ${y} } }];`,
      `${ONE} output { name: "Z" data_type: TYPE_INT32 dims: -1 }`,
    );
    const [outcome] = await runBatch(await javascriptBackend.load(load), [request({ requestedOutputs })]);
    expect(outcome?.ok).toBe(message === undefined);
    if (outcome?.ok === false) expect(outcome.error.message).toContain(message);
  });

  it.each([
    [
      'a state of a model without states',
      `{ outputs: { Y: ${y} }, state: { S: ${y} } }`,
      "state 'S' is not a valid state name.",
    ],
    [
      'a release that there is not',
      `{ outputs: {}, release: 'later' }`,
      "'release' 'later'; it is 'all' or 'reschedule'",
    ],
    [
      'a release of a request that would run again',
      `{ release: 'reschedule' }`,
      'TRITONSERVER_REQUEST_RELEASE_RESCHEDULE',
    ],
  ])('%s is an error', async (_, returned, message) => {
    const [outcome] = await run(`export const execute = () => [${returned}];`);
    expect(outcome).toMatchObject({ ok: false, error: { message: expect.stringContaining(message) } });
  });

  it("takes release: 'all' as none", async () => {
    const [outcome] = await run(`export const execute = () => [{ outputs: { Y: ${y} }, release: 'all' }];`);
    expect(outcome).toMatchObject({ ok: true });
  });

  it.each([
    ['too few', '[]', '0 responses for 1 requests'],
    ['no array', '{}', 'no array of responses for 1 requests'],
  ])('%s fails the batch', async (_, returned, message) => {
    await expect(run(`export const execute = () => (${returned});`)).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining(message),
    });
  });

  it.each([
    [`new TypeError('boom')`, 'boom'],
    ['null', 'null'],
    [`Symbol('boom')`, 'Symbol(boom)'],
    [`Object.assign(new Error('x'), { message: Symbol('boom') })`, 'Symbol(boom)'],
    [`{ toString() { throw new Error('boom'); } }`, 'an error that cannot be read'],
  ])('throw %s fails the batch with its text', async (thrown, message) => {
    const source = `export async function execute() { throw ${thrown}; }`;
    await expect(run(source)).rejects.toMatchObject({ code: 'INTERNAL', message });
  });
});

describe('javascript: loading', () => {
  it.each([
    ['no execute', 'export const other = 1;', 'INVALID_ARG', "must export a function 'execute'"],
    ['a syntax error', 'export const execute = (;', 'INTERNAL', 'cannot import model.mjs'],
    [
      'an initialize that throws',
      `export function initialize() { throw new Error('no weights'); } export const execute = () => [];`,
      'INTERNAL',
      'initialize failed: no weights',
    ],
  ])('%s is said', async (_, source, code, message) => {
    await expect(javascriptBackend.load(await model(source))).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });
});
