import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelConfigJson, modelSignature, parseModelConfig } from '@nereid/config';
import { createLog, systemClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Carrier, startCarrier } from './carrier.ts';
import { answerWith, fixtureCaller } from './fixture-caller.ts';
import type { BatchSettlement, InstanceBatch } from './instance-batch.ts';
import type { InstanceSetup } from './instance-messages.ts';
import { processLine } from './process-line.ts';
import { spawnProcess } from './spawn-process.ts';
import { spawnThread } from './spawn-thread.ts';
import { threadLine } from './thread-line.ts';
import { int32, int32Values, request } from './worker-harness.ts';

const log = createLog({ level: 'silent' });
const clock = systemClock();
const LINES = [
  ['thread', threadLine(spawnThread)],
  ['process', processLine(spawnProcess, { prefix: [] }, clock, log)],
] as const;
const CONFIG = `name: "m" backend: "javascript"
input { name: "X" data_type: TYPE_INT32 dims: -1 } output { name: "Y" data_type: TYPE_INT32 dims: -1 }`;
const CALLS_MAX = 3;
const LARGE = 1_000_000;

describe.each(LINES)('a model in a %s calls others', (_kind, open) => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'nereid-calls-'));
    await mkdir(join(directory, '1'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  /** The carrier of a model of that source, once it is loaded. */
  async function carried(source: string) {
    await writeFile(
      join(directory, '1', 'model.mjs'),
      `let context; export const initialize = (start) => { context = start.context; }; ${source}`,
    );
    const config = parseModelConfig(CONFIG, 'config.pbtxt');
    const setup: InstanceSetup = {
      config,
      signature: modelSignature(config),
      configJson: modelConfigJson(config),
      version: '1',
      modelDirectory: directory,
      versionDirectory: join(directory, '1'),
      instanceName: 'm_0',
      device: { kind: 'cpu', id: 0 },
      settings: {},
      warmup: [],
      callsMax: CALLS_MAX,
    };
    const fixture = fixtureCaller();
    let isOver = () => {};
    const over = new Promise<void>((resolve) => {
      isOver = resolve;
    });
    const carrier = await new Promise<Carrier>((resolve, reject) => {
      const started: Carrier = startCarrier({
        setup,
        open,
        clock,
        log,
        executionTimeoutMs: undefined,
        caller: fixture.caller,
        loaded: () => resolve(started),
        returned() {},
        ended(why) {
          reject(new Error(why.message));
          isOver();
        },
      });
    });
    return {
      ...fixture,
      carrier,
      /** Told to stop, it has ended. */
      async stopped() {
        carrier.stop();
        await over;
      },
      terminated() {
        carrier.terminate();
        return over;
      },
    };
  }

  function batchOf(settle: InstanceBatch['settle'], values: readonly number[] = [7]): InstanceBatch {
    const requests = [request([int32('X', [values.length], values)], { id: 'mine' })];
    return { batch: 1, requests, ids: ['gw-1:1'], receivedNs: 0, cancelled: undefined, settle };
  }

  const run = (carrier: Carrier, values?: readonly number[]) =>
    new Promise<BatchSettlement>((resolve) => carrier.post(batchOf(resolve, values)));
  const valuesOf = ({ outcomes: [outcome] }: BatchSettlement) =>
    outcome?.ok === true ? int32Values(outcome.outputs[0]) : outcome?.error.message;

  it('large tensors too, and its own stay its own', async () => {
    const { carrier, calls, came, stopped } = await carried(`
      export async function execute([{ inputs }]) {
        const X = inputs.get('X');
        const { outputs } = await context.infer('called', { inputs: { X } });
        const Y = outputs.Y.data;
        return [{ outputs: { Y: { datatype: 'INT32', shape: [3], data: Int32Array.of(X.data.length, Y.length, Y.at(-1)) } } }];
      }`);
    const values = Array.from({ length: LARGE }, (_, index) => index);
    const answered = run(carrier, values);
    await came(1);
    expect(int32Values(calls[0]?.request.inputs[0]).at(-1)).toBe(LARGE - 1);
    calls[0]?.answer(answerWith(values));
    expect(valuesOf(await answered)).toEqual([LARGE, LARGE, LARGE - 1]);
    await stopped();
  });

  it('as many at a time as an instance may have open', async () => {
    const { carrier, calls, came, stopped } = await carried(`
      export async function execute() {
        const all = Array.from({ length: ${CALLS_MAX + 1} }, () => context.infer('called', { inputs: {} }));
        const ends = await Promise.allSettled(all);
        const data = Int32Array.from(ends, ({ value, reason }) => value?.outputs.Y.data[0] ?? (reason.code === 'UNAVAILABLE' ? -1 : -2));
        return [{ outputs: { Y: { datatype: 'INT32', shape: [data.length], data } } }];
      }`);
    const answered = run(carrier);
    await came(CALLS_MAX);
    for (const [index, call] of calls.entries()) call.answer(answerWith([index]));
    expect(valuesOf(await answered)).toEqual([0, 1, 2, -1]);
    await stopped();
  });

  it('a cancelled request cancels its call, and the model goes on', async () => {
    const { carrier, calls, came, stopped } = await carried(`
      export async function execute([request]) {
        const { code } = await context.infer('called', { inputs: {} }, { request }).catch((error) => error);
        return [{ outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(code.length) } } }];
      }`);
    const answered = new Promise<BatchSettlement>((resolve) => {
      const batch = batchOf(resolve);
      carrier.post(batch);
      void came(1).then(() => {
        batch.cancelled = new Set([0]);
        carrier.cancel(batch, 0);
      });
    });
    expect(valuesOf(await answered)).toEqual(['CANCELLED'.length]);
    expect(calls[0]?.cancelled).toBe(true);
    await stopped();
  });

  it('a call that is left open is cancelled at the end, and none can be made in finalize', async () => {
    const file = join(directory, 'ends');
    const { carrier, calls, came, stopped } = await carried(`
      import { writeFileSync } from 'node:fs';
      let left;
      export function execute() {
        left = context.infer('called', { inputs: {} }).catch(({ code }) => code);
        return [{ outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(1) } } }];
      }
      export async function finalize() {
        const late = await context.infer('called', { inputs: {} }).catch(({ code }) => code);
        writeFileSync(${JSON.stringify(file)}, [await left, late].join());
      }`);
    expect(valuesOf(await run(carrier))).toEqual([1]);
    await came(1);
    expect(calls[0]?.cancelled).toBe(false);
    await stopped();
    expect(calls[0]?.cancelled).toBe(true);
    expect(await readFile(file, 'utf8')).toBe('CANCELLED,UNAVAILABLE');
  });

  it('its end cancels what it waits for', async () => {
    const { carrier, calls, came, terminated } = await carried(
      `export const execute = async () => [await context.infer('called', { inputs: {} })];`,
    );
    carrier.post(batchOf(() => {}));
    await came(1);
    await terminated();
    expect(calls[0]?.cancelled).toBe(true);
  });
});
