import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { bf16ToFp32, createServer, fp16ToFp32, NereidError, type Server, type ServerOptions } from './index.ts';

const samples = fileURLToPath(new URL('../../../model_repository', import.meta.url));

const ECHO = {
  config: `backend: "javascript"
    input [{ name: "IN", data_type: TYPE_INT32, dims: [ -1 ] }]
    output [{ name: "OUT", data_type: TYPE_INT32, dims: [ -1 ] }]`,
  code: `export async function execute(requests) {
    return Promise.all(requests.map(async ({ inputs, parameters }) => {
      const { shape, data } = inputs.get('IN');
      if (parameters.throw) throw new Error('asked to');
      if (parameters.exit) process.exit(3);
      if (parameters.wait_ms) await new Promise((resolve) => setTimeout(resolve, parameters.wait_ms));
      return { outputs: { OUT: { datatype: 'INT32', shape, data } } };
    }));
  }`,
};

const IN = { datatype: 'INT32', shape: [1], data: [1] } as const;
const ONE = { model: 'echo', inputs: { IN } } as const;

let repository: string;
const started: Server[] = [];

beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-server-'));
  await writeModel('echo', ECHO);
});

afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
  await rm(repository, { recursive: true, force: true });
});

async function writeModel(name: string, { config, code }: typeof ECHO) {
  await mkdir(join(repository, name, '1'), { recursive: true });
  await writeFile(join(repository, name, 'config.pbtxt'), config);
  await writeFile(join(repository, name, '1', 'model.mjs'), code);
}

async function start(options: Partial<ServerOptions> = {}) {
  const server = await createServer({ modelRepositories: [repository], ...options });
  started.push(server);
  return server;
}

const echo = (server: Server, values: readonly number[], parameters = {}, signal?: AbortSignal) =>
  server.infer(
    { model: 'echo', inputs: { IN: { datatype: 'INT32', shape: [values.length], data: values } }, parameters },
    signal === undefined ? {} : { signal },
  );

const nothingGoesOn = { waiting: 0, queued: 0, running: 0, batches: 0, timers: 0 };

describe('infer', () => {
  test('answers with values, for ONNX and JavaScript models', async () => {
    await cp(join(samples, 'simple'), join(repository, 'simple'), { recursive: true });
    const server = await start();
    const row = Int32Array.from({ length: 16 }, (_, index) => index);
    const ones = new Int32Array(16).fill(1);
    const result = await server.infer({
      model: 'simple',
      id: 'mine',
      inputs: {
        INPUT0: { datatype: 'INT32', shape: [1, 16], data: row },
        INPUT1: { datatype: 'INT32', shape: [1, 16], data: ones },
      },
      outputs: ['OUTPUT1'],
    });
    expect(result).toMatchObject({ model: 'simple', version: '1', id: 'mine', parameters: {} });
    expect(Object.keys(result.outputs)).toEqual(['OUTPUT1']);
    expect(result.outputs.OUTPUT1).toEqual({
      datatype: 'INT32',
      shape: [1, 16],
      data: row.map((value) => value - 1),
    });
    expect((await echo(server, [7, 8])).outputs.OUT?.data).toEqual(Int32Array.of(7, 8));
    expect(server.counts()).toEqual(nothingGoesOn);
  });

  test.each([
    ['unknown model', { model: 'nope', inputs: {} }, 'NOT_FOUND', "Request for unknown model: 'nope' is not found"],
    ['missing input', { model: 'echo', inputs: {} }, 'INVALID_ARG', 'expected 1 inputs but got 0 inputs'],
    [
      'values that do not fit the shape',
      { model: 'echo', inputs: { IN: { datatype: 'INT32', shape: [3], data: [1] } } },
      'INVALID_ARG',
      'IN',
    ],
    ['no inputs at all', { model: 'echo' } as never, 'INVALID_ARG', 'inputs must be an object'],
    ['nothing', undefined as never, 'INVALID_ARG', 'input must be an object'],
    ['inputs in a list', { ...ONE, inputs: [IN] } as never, 'INVALID_ARG', 'inputs must be an object'],
    ['no tensor', { ...ONE, inputs: { IN: null } } as never, 'INVALID_ARG', 'inputs.IN must be an object'],
    ['no data', { ...ONE, inputs: { IN: { ...IN, data: undefined } } } as never, 'INVALID_ARG', "tensor 'IN'"],
    ['a number as version', { ...ONE, version: 1 } as never, 'INVALID_ARG', 'version must be a string, got number'],
    ['a number as model', { ...ONE, model: 1 } as never, 'INVALID_ARG', 'model must be a string'],
    ['an object as id', { ...ONE, id: {} } as never, 'INVALID_ARG', 'id must be a string'],
    ['a text as outputs', { ...ONE, outputs: 'OUT' } as never, 'INVALID_ARG', 'outputs must be an array'],
    ['a number as output', { ...ONE, outputs: [1] } as never, 'INVALID_ARG', 'outputs[0] must be a string'],
    ['a function as parameter', { ...ONE, parameters: { f: String } } as never, 'INVALID_ARG', 'parameters.f must be'],
    ['no sequence', { ...ONE, sequence: 5 } as never, 'INVALID_ARG', 'sequence must be an object'],
    ['no id', { ...ONE, sequence: { id: 1.5 } } as never, 'INVALID_ARG', 'sequence.id must be a whole number'],
    ['an id that is too large', { ...ONE, sequence: { id: 2n ** 64n } }, 'INVALID_ARG', 'sequence.id must be'],
    ['no flag', { ...ONE, sequence: { id: 1, start: 1 } } as never, 'INVALID_ARG', 'sequence.start must be a boolean'],
    ['no step', { ...ONE, sequence: { id: 1, step: -1 } }, 'INVALID_ARG', 'sequence.step must be a whole number'],
    [
      'a step without an id',
      { ...ONE, sequence: { id: 0, step: 0 } },
      'INVALID_ARG',
      "needs a non-zero or non-empty 'sequence_id'",
    ],
    ['no priority', { ...ONE, priority: -1 }, 'INVALID_ARG', 'priority must be a whole number from 0 to 2^64 - 1'],
    ['half a microsecond', { ...ONE, timeoutUs: 0.5 }, 'INVALID_ARG', 'timeoutUs must be a whole number from 0'],
    ['a list of parameters', { ...ONE, parameters: [1] } as never, 'INVALID_ARG', 'parameters must be an object'],
  ] as const)('%s throws the error that HTTP would answer', async (_, input, code, text) => {
    const server = await start();
    const failure = await server.infer(input).catch((thrown: unknown) => thrown);
    expect(failure).toBeInstanceOf(NereidError);
    expect(failure).toMatchObject({ code, message: expect.stringContaining(text) });
    expect(server.counts()).toEqual(nothingGoesOn);
  });

  test.each([
    ['FP16', fp16ToFp32],
    ['BF16', bf16ToFp32],
  ] as const)('%s goes in as floats and comes out as bits that have a conversion', async (datatype, toFp32) => {
    const config = ECHO.config.replaceAll('TYPE_INT32', `TYPE_${datatype}`);
    await writeModel('half', { config, code: ECHO.code.replace("'INT32'", `'${datatype}'`) });
    const server = await start();
    const values = Float32Array.of(0.5, -2, 1.25);
    const { outputs } = await server.infer({
      model: 'half',
      inputs: { IN: { datatype, shape: [values.length], data: values } },
    });
    const bits = outputs.OUT?.data;
    expect(bits).toBeInstanceOf(Uint16Array);
    expect(toFp32(bits as Uint16Array)).toEqual(values);
  });

  test('a model that throws fails its request; the next one is answered', async () => {
    const server = await start();
    await expect(echo(server, [1], { throw: true })).rejects.toMatchObject({ code: 'INTERNAL', message: /asked to/ });
    expect((await echo(server, [2])).outputs.OUT?.data).toEqual(Int32Array.of(2));
    expect(server.counts()).toEqual(nothingGoesOn);
  });

  test('a model that ends its thread fails only what the thread held, and is back', async () => {
    const server = await start();
    await expect(echo(server, [1], { exit: true })).rejects.toMatchObject({ code: 'POISONED' });
    expect((await echo(server, [2])).outputs.OUT?.data).toEqual(Int32Array.of(2));
    expect(server.ready()).toBe(true);
  });

  test('an aborted signal cancels a queued request', async () => {
    const server = await start();
    const running = [1, 2].map((value) => echo(server, [value], { wait_ms: 300n }));
    const controller = new AbortController();
    const waiting = echo(server, [3], {}, controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    await Promise.all(running);
    expect(server.counts()).toEqual(nothingGoesOn);
  });
});

test('a signal that is none is refused, and one may serve any number of requests', async () => {
  const server = await start();
  await expect(server.infer(ONE, { signal: {} as never })).rejects.toMatchObject({ code: 'INVALID_ARG' });
  const warnings: string[] = [];
  const warned = (warning: Error) => void warnings.push(warning.name);
  process.on('warning', warned);
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 20 }, (_, value) => echo(server, [value], {}, signal)));
  process.off('warning', warned);
  expect(warnings).toEqual([]);
  expect(server.counts()).toEqual(nothingGoesOn);
});

test.each<readonly [string, object]>([
  ['modelRepositories', { modelRepositories: '/models' }],
  ['modelRepositories', { modelRepositories: [1] }],
  ['modelControlMode', { modelControlMode: 'polling' }],
  ['repositoryPollSecs', { modelControlMode: 'poll', repositoryPollSecs: -1 }],
  ['loadModels', { loadModels: 'echo' }],
  ['modelLoadThreads', { modelLoadThreads: 0 }],
  ['modelLoadRetries', { modelLoadRetries: -1 }],
  ['modelLoadThreads', { modelLoadThreads: Number.NaN }],
  ['exitOnError', { exitOnError: 'false' }],
  ['redis', { redis: {} }],
  ['lane', { lane: 'local' }],
  ['lane', { lane: 'redis' }],
  ['timeScale', { timeScale: 0 }],
  ['timeScale', { timeScale: Number.NaN }],
  ['workerModels', { workerModels: 'echo' }],
  ['rateLimit', { rateLimit: 'on' }],
  ['rateLimitResources', { rateLimitResources: [{ count: 1 }] }],
  ['rateLimitResources.count', { rateLimitResources: [{ name: 'R' }] }],
  ['rateLimitResources.device', { rateLimitResources: [{ name: 'R', count: 1, device: -1 }] }],
  ['hostPolicy', { hostPolicy: 'cpu,cpu-cores=0' }],
  ['hostPolicy', { hostPolicy: ['cpu,cpu-cores=x'] }],
  ['cudaVisibleDevices', { cudaVisibleDevices: 0 }],
  ['http.port', { http: { port: '8000' } }],
  ['metrics.port', { metrics: { port: 65_536 } }],
  ['http', { http: {} }],
  ['http.maxInputBytes', { http: { port: 0, maxInputBytes: Number.NaN } }],
  ['http.corsOrigins', { http: { port: 0, corsOrigins: '*' } }],
  ['maxBytesInFlight', { maxBytesInFlight: 0 }],
  ['allowClientShm', { allowClientShm: 'no' }],
])('a %s that cannot be used is refused: %o', async (field, options) => {
  await expect(start(options)).rejects.toMatchObject({
    name: 'NereidError',
    code: 'INVALID_ARG',
    field,
    message: expect.stringContaining(`${field} must be `),
  });
});

describe('life', () => {
  test('stop finishes what was accepted and refuses what comes after', async () => {
    const server = await start();
    const accepted = [1, 2, 3].map((value) => echo(server, [value], { wait_ms: 100n }));
    const stopped = server.stop();
    await expect(echo(server, [4])).rejects.toMatchObject({ code: 'UNAVAILABLE', message: /Server is stopping/ });
    expect(server.ready()).toBe(false);
    const answers = await Promise.all(accepted);
    expect(answers.map(({ outputs }) => [...(outputs.OUT?.data ?? [])])).toEqual([[1], [2], [3]]);
    await stopped;
    await server.stop();
    expect(server.counts()).toEqual(nothingGoesOn);
    expect(server.live()).toBe(false);
  });

  test.each([
    ['never answers', '() => new Promise(() => {})'],
    ['never returns', '() => { for (;;); }'],
  ])('stop does not wait past its deadline for a model that %s', async (_, execute) => {
    await writeModel('stuck', { ...ECHO, code: `export const execute = ${execute};` });
    const server = await start();
    const stuck = server.infer({ ...ONE, model: 'stuck' }).catch((failure: unknown) => failure);
    await echo(server, [1]);
    await server.stop({ deadlineMs: 1 });
    expect(await stuck).toMatchObject({ code: 'UNAVAILABLE' });
    expect(server.counts()).toEqual(nothingGoesOn);
  });

  test('explicit control loads and unloads by name', async () => {
    const server = await start({ modelControlMode: 'explicit' });
    expect(server.models()).toEqual([]);
    await expect(echo(server, [1])).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(server.loadModel('nope')).rejects.toMatchObject({ message: /failed to load 'nope'/ });
    expect((await server.loadModel('echo')).versions).toEqual([{ version: '1', state: 'READY', reason: '' }]);
    expect((await echo(server, [5])).outputs.OUT?.data).toEqual(Int32Array.of(5));
    await server.unloadModel('echo');
    await server.unloadModel('never there');
    await expect(echo(server, [1])).rejects.toMatchObject({ code: 'NOT_FOUND', message: /has no available versions/ });
  });

  test('a model that does not load ends the start, or is told of where it may', async () => {
    await writeModel('broken', { ...ECHO, code: 'this is no module' });
    await expect(start()).rejects.toMatchObject({ message: expect.stringContaining("failed to load model 'broken'") });
    const server = await start({ exitOnError: false });
    expect(server.loadFailures).toMatchObject([{ model: 'broken' }]);
    expect(server.ready()).toBe(false);
    expect(server.models().map(({ name, versions }) => [name, versions[0]?.state])).toEqual([
      ['broken', 'UNAVAILABLE'],
      ['echo', 'READY'],
    ]);
    expect((await echo(server, [6])).outputs.OUT?.data).toEqual(Int32Array.of(6));
  });

  test('two servers in one process do not meet', async () => {
    const [one, other] = [await start(), await start({ modelControlMode: 'explicit' })];
    expect((await echo(one, [1])).outputs.OUT?.data).toEqual(Int32Array.of(1));
    await expect(echo(other, [1])).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('listeners take free ports and are gone after the stop', async () => {
    const server = await start({ http: { port: 0, address: '127.0.0.1' }, metrics: { port: 0, address: '127.0.0.1' } });
    const { http = '', metrics = '' } = server.urls;
    expect((await fetch(`${http}/v2/health/ready`)).status).toBe(200);
    const shown = await (await fetch(`${metrics}/metrics`)).text();
    for (const line of [
      'nv_inference_count{model="echo",version="1"} 0',
      'nereid_held{role="gateway",kind="requests"} 0',
      'nereid_held{role="gateway",kind="bytes"} 0',
      'nereid_held{role="coordinator",kind="queued"} 0',
      'nereid_held{role="worker",kind="batches"} 0',
      'nereid_refused_messages_total{role="worker"} 0',
    ]) {
      expect(shown.split('\n')).toContain(line);
    }
    await server.stop();
    await expect(fetch(`${http}/v2/health/live`)).rejects.toThrow();
    await expect(fetch(`${metrics}/metrics`)).rejects.toThrow();
  });

  test('a port in use ends the start with what to do, and leaves nothing running', async () => {
    const first = await start({ http: { port: 0, address: '127.0.0.1' } });
    const port = Number(new URL(first.urls.http ?? '').port);
    await expect(start({ http: { port, address: '127.0.0.1' } })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining(String(port)),
    });
  });
});
