import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Batch, BatchResult } from '@nereid/backends';
import {
  decodeModelConfig,
  encodeModelConfig,
  LIMITS,
  type ModelSignature,
  parseModelConfig,
  type WarmupSample,
} from '@nereid/config';
import { bytesElements, type Datatype, type Tensor } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { warmUp } from './warm-up.ts';
import { createHarness, type Harness, int32, request } from './worker-harness.ts';

const never = () => false;

function signature(datatype: Datatype = 'INT32', more: Partial<ModelSignature> = {}): ModelSignature {
  const tensor = { datatype, dims: [-1], reshape: null, optional: false, ragged: false };
  const inputs = [{ ...tensor, name: 'T' }];
  return {
    name: 'm',
    maxBatchSize: 8,
    inputs,
    outputs: inputs,
    batchInputs: [],
    batchOutputs: [],
    decoupled: false,
    ...more,
  };
}

function sample(bytes: WarmupSample['inputs'][number]['bytes'], more: Partial<WarmupSample> = {}): WarmupSample {
  return {
    name: 's',
    batchSize: 1,
    count: 1,
    inputs: [{ name: 'T', datatype: 'INT32', shape: [1, 4], bytes }],
    ...more,
  };
}
const ZERO = { kind: 'zero' } as const;

/** The batches that an instance was given in its warm-up; it answers each with what it got. */
async function batches(samples: readonly WarmupSample[], of = signature(), directory = ''): Promise<Batch[]> {
  const seen: Batch[] = [];
  const execute = async (batch: Batch): Promise<BatchResult> => {
    seen.push(batch);
    return { kind: 'joined', outputs: batch.joined };
  };
  const instance = { needsRequests: false, execute, finalize: async () => {} };
  await warmUp({ signature: of, version: '1', instance }, samples, directory, never);
  return seen;
}

const values = (tensor: Tensor | undefined) => [...(tensor?.data ?? [])];

describe('warm-up', () => {
  it('runs each sample as often as it says, in order, with its requests merged', async () => {
    const seen = await batches([sample(ZERO, { batchSize: 3, count: 2 }), sample(ZERO)]);
    expect(seen.map(({ rows, joined }) => [rows, joined[0]?.shape])).toEqual([
      [
        [1, 1, 1],
        [3, 4],
      ],
      [
        [1, 1, 1],
        [3, 4],
      ],
      [[1], [1, 4]],
    ]);
  });

  it('zeroes what it says', async () => {
    const [batch] = await batches([sample(ZERO, { batchSize: 2 })]);
    expect(values(batch?.joined[0])).toEqual(new Array(32).fill(0));
  });

  it.each(['zero', 'random'] as const)('gives empty texts as %s data', async (kind) => {
    const inputs = [{ name: 'T', datatype: 'BYTES', shape: [1, 3], bytes: { kind } }] as const;
    const [batch] = await batches([sample(ZERO, { inputs, batchSize: 2 })], signature('BYTES'));
    expect(bytesElements(batch?.joined[0]?.data ?? new Uint8Array(1))).toEqual(new Array(6).fill(new Uint8Array()));
  });

  it('gives the same random data at each load', async () => {
    const random = sample({ kind: 'random' });
    const [[first], [second]] = [await batches([random]), await batches([random])];
    expect(new Set(values(first?.joined[0])).size).toBeGreaterThan(4);
    expect(values(first?.joined[0])).toEqual(values(second?.joined[0]));
  });

  it('gives bools that clients can send', async () => {
    const inputs = [{ name: 'T', datatype: 'BOOL', shape: [1, 64], bytes: { kind: 'random' } }] as const;
    const [batch] = await batches([sample(ZERO, { inputs })], signature('BOOL'));
    expect([...new Set(values(batch?.joined[0]))].sort()).toEqual([0, 1]);
  });

  it('reads files', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'nereid-warm-'));
    try {
      mkdirSync(join(folder, 'warmup'));
      writeFileSync(join(folder, 'warmup', 'f'), Buffer.from(Int32Array.of(1, 2, 3, 4).buffer));
      const [batch] = await batches([sample({ kind: 'file', file: 'f' }, { batchSize: 2 })], signature(), folder);
      expect([...new Int32Array(Uint8Array.from(batch?.joined[0]?.data ?? []).buffer)]).toEqual([
        1, 2, 3, 4, 1, 2, 3, 4,
      ]);
      const gone = batches([sample({ kind: 'file', file: 'g' })], signature(), folder);
      await expect(gone).rejects.toThrow("failed to run warmup sample 's': input 'T': ENOENT");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('ends early once the instance is stopped', async () => {
    let runs = 0;
    const execute = async (batch: Batch): Promise<BatchResult> => {
      runs++;
      return { kind: 'joined', outputs: batch.joined };
    };
    const model = {
      signature: signature(),
      version: '1',
      instance: { needsRequests: false, execute, finalize: async () => {} },
    };
    await warmUp(model, [sample(ZERO, { count: 1_000_000_000 }), sample(ZERO)], '', () => runs === 3);
    expect(runs).toBe(3);
  });
});

describe.each(['thread', 'process'])('an instance with a warm-up, in a %s,', (carrier) => {
  let harness: Harness;
  beforeEach(async () => {
    harness = await createHarness();
  });
  afterEach(async () => {
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  const warmup = (more = '', dims = 1) =>
    `parameters { key: "nereid.carrier" value { string_value: "${carrier}" } }
     model_warmup { name: "first" batch_size: 1 ${more}
       inputs { key: "X" value { data_type: TYPE_INT32 dims: ${dims} zero_data: true } } }`;
  const ECHO =
    'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { Y: inputs.get("X") } }));';
  const FAILS = `export const execute = (requests) => requests.map(() => new Error('too cold'));`;
  const STREAM = (end: string) => `export const execute = (requests) => requests.map(async function* ({ inputs }) {
    for (let i = 0; i < 200; i++) yield { outputs: { Y: inputs.get('X') } };
    ${end}
  });`;
  const DECOUPLED = 'model_transaction_policy { decoupled: true }';

  it('has run it before it is ready, and nobody hears of it', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'nereid-warm-')), 'seen');
    await harness.javascript(
      'm',
      `import { appendFileSync } from 'node:fs';
       export const execute = (requests) => requests.map(({ id, inputs }) => {
         appendFileSync(${JSON.stringify(file)}, \`[\${id}]\${inputs.get('X').data} \`);
         return { outputs: { Y: inputs.get('X') } };
       });`,
      `${warmup('count: 2', 2)} instance_group [{ count: 2 kind: KIND_CPU }, { kind: KIND_CPU passive: true }]`,
    );
    const { versions } = await harness.load('m');
    expect(versions[0]?.state).toBe('READY');
    expect(readFileSync(file, 'utf8')).toBe('[]0,0 []0,0 []0,0 []0,0 ');
    expect(harness.received.filter(({ kind }) => kind !== 'described')).toEqual([]);
    expect((await harness.execute('m', [request([int32('X', [1], [5])])])).outcomes[0]?.ok).toBe(true);
    rmSync(dirname(file), { recursive: true });
  });

  it('runs it again where another thread or process takes the place of one that ended', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'nereid-warm-')), 'seen');
    await harness.javascript(
      'm',
      `import { appendFileSync } from 'node:fs';
       export const execute = ([{ inputs }]) => {
         appendFileSync(${JSON.stringify(file)}, String(inputs.get('X').data));
         if (inputs.get('X').data[0] === 7) process.exit(1);
         return [{ outputs: { Y: inputs.get('X') } }];
       };`,
      warmup(),
    );
    await harness.load('m');
    // It runs a second time by itself, so two threads end.
    await harness.execute('m', [request([int32('X', [1], [7])])]);
    await harness.execute('m', [request([int32('X', [1], [8])])]);
    expect(readFileSync(file, 'utf8')).toBe('070708');
    rmSync(dirname(file), { recursive: true });
  });

  it.each([
    ['a request', FAILS, '', 'too cold'],
    ['the execution', `export const execute = () => { throw new Error('thrown'); };`, '', 'thrown'],
    ['a stream', STREAM(`throw new Error('in the middle');`), DECOUPLED, 'in the middle'],
    [
      'an answer of a stream',
      STREAM('').replace('yield', `yield i === 9 ? new Error('the ninth') :`),
      DECOUPLED,
      'the ninth',
    ],
  ])('is not loaded where %s fails', async (_, source, config, why) => {
    await harness.javascript('m', source, `${warmup()} ${config}`);
    const { versions } = await harness.load('m');
    expect(versions[0]).toMatchObject({
      state: 'UNAVAILABLE',
      reason: `Invalid argument: failed to run warmup sample 'first': ${why}`,
    });
  });

  it('has read a decoupled model’s answers to the end, more than may be under way', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'nereid-warm-')), 'end');
    const end = `(await import('node:fs')).writeFileSync(${JSON.stringify(file)}, '');`;
    await harness.javascript('m', STREAM(end), `${warmup()} ${DECOUPLED}`);
    expect((await harness.load('m')).versions[0]?.state).toBe('READY');
    expect(existsSync(file)).toBe(true);
    rmSync(dirname(file), { recursive: true });
  });

  it('is finalized where it fails', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'nereid-warm-')), 'end');
    const finalize = `import { writeFileSync } from 'node:fs'; export const finalize = () => writeFileSync(${JSON.stringify(file)}, '');`;
    await harness.javascript('m', `${finalize} ${FAILS}`, warmup());
    await harness.load('m');
    await harness.worker.stop();
    expect(existsSync(file)).toBe(true);
    rmSync(dirname(file), { recursive: true });
  });

  it('is given up like one that loads too long', async () => {
    await harness.close();
    harness = await createHarness({
      limits: { ...LIMITS, instance_start_timeout_ms: 300 },
    });
    const source = ECHO.replace(
      '(requests) =>',
      'async (requests) => await new Promise(() => setInterval(() => {}, 1000)) ??',
    );
    await harness.javascript('m', source, warmup());
    const { versions } = await harness.load('m');
    expect(versions[0]?.reason).toContain('its model did not load within 300 ms');
    for (const thread of harness.threads) await thread.terminate();
    for (const child of harness.processes) child.kill('SIGKILL');
  });
});

describe('an instance with a warm-up', () => {
  let harness: Harness;
  beforeEach(async () => {
    harness = await createHarness();
  });
  afterEach(async () => {
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  /** Loads a fixture with one more line of configuration. */
  async function loadWith(name: string, config: string): Promise<{ state: string; reason: string } | undefined> {
    harness.fixture(name);
    const given = decodeModelConfig((await harness.control(name)).config);
    given.modelWarmup = parseModelConfig(config, 'config.pbtxt').modelWarmup;
    return (await harness.load(name, { config: encodeModelConfig(given) })).versions[0];
  }
  const value = (name: string, type: string, dims: number) =>
    `inputs { key: "${name}" value { data_type: TYPE_${type} dims: ${dims} random_data: true } }`;

  it.each([
    ['simple', value('INPUT0', 'INT32', 16) + value('INPUT1', 'INT32', 16)],
    ['identity_batched_bytes', value('INPUT', 'STRING', 3)],
    ['ragged', value('VALUES', 'FP32', 3)],
    ['sequence_text', value('TEXT', 'STRING', 1)],
    // A control and a state in a sample are the server's to make.
    ['sequence_text', value('TEXT', 'STRING', 1) + value('START', 'BOOL', 1) + value('LAST_IN', 'STRING', 1)],
    ['sequence_grower', value('VALUE', 'FP32', 1)],
  ])('of onnxruntime: %s', async (name, inputs) => {
    const version = await loadWith(name, `model_warmup { name: "s" batch_size: 4 count: 2 ${inputs} }`);
    expect(version).toMatchObject({ state: 'READY', reason: '' });
  });

  it('of onnxruntime is not loaded where the sample fails', async () => {
    const version = await loadWith(
      'fail_execute',
      `model_warmup { name: "s" batch_size: 1 ${value('INPUT', 'INT32', 2)} }`,
    );
    expect(version?.state).toBe('UNAVAILABLE');
    expect(version?.reason).toMatch(/^Invalid argument: failed to run warmup sample 's': ./);
  });
});
