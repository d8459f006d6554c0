/** Runs of a batch on a clock of their own: where Redis is away, has no room, or lacks what lines name. */
import { LIMITS, modelSignature } from '@nereid/config';
import type { InferRequest, JobBlobs, Outcome } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import type { BulkChunk, BulkEnd, BulkRecord, BulkState, LineResult, RedisMemory } from '@nereid/transport';
import { describe, expect, test } from 'vitest';
import { startBulkRun } from './bulk-run.ts';
import { fakeModel, settle } from './fake-cluster.ts';
import type { OwnedModel } from './owned-model.ts';

const RECORD: BulkRecord = {
  id: 'm~1',
  model: 'm',
  version: '',
  state: 'waiting',
  lines: 6,
  completed: 0,
  failed: 0,
  createdMs: 0,
  startedMs: undefined,
  finishedMs: undefined,
  deadlineMs: 0,
  ttlS: 60,
  attempts: 1,
  error: undefined,
};
const GONE = new Error('Redis is away');
const HALF: RedisMemory = { used: 50, max: 100 };
const FULL: RedisMemory = { used: 91, max: 100 };

const input = (more: object) => ({ inputs: [{ name: 'A', datatype: 'FP32', shape: [4], ...more }] });
const line = (value: number) => JSON.stringify({ custom_id: `n${value}`, body: input({ data: [value, 0, 0, 0] }) });
const blobLine = (ref: string) => JSON.stringify({ custom_id: ref, body: input({ blob: { ref, byte_size: 16 } }) });

interface World {
  memory: RedisMemory | Error;
  blobs: JobBlobs | Error;
  settles: 'written' | Error;
  readonly lines: (readonly string[])[];
  readonly results: Map<number, LineResult>;
  readonly cleared: number[];
  /** Requests that have no answer yet. */
  readonly asked: { readonly request: InferRequest; readonly answer: () => void }[];
  ended: { readonly how: string; readonly message: string } | undefined;
}

function play(lines: readonly (readonly string[])[]) {
  const clock = virtualClock();
  const world: World = {
    memory: HALF,
    blobs: new Map(),
    settles: 'written',
    lines: [...lines],
    results: new Map(),
    cleared: [],
    asked: [],
    ended: undefined,
  };
  const given = <T>(value: T | Error): T => {
    if (value instanceof Error) throw value;
    return value;
  };
  const total = lines.flat().length;
  const state = (): BulkState => (world.results.size === total ? 'completed' : 'running');
  const store = {
    async chunk(_id: string, number: number): Promise<BulkChunk | undefined> {
      const texts = world.lines[number];
      const from = lines.slice(0, number).flat().length;
      return texts && { from, lines: texts, done: texts.map((_, index) => world.results.has(from + index)) };
    },
    async settle(_id: string, results: readonly LineResult[]) {
      given(world.settles);
      for (const result of results) if (!world.results.has(result.line)) world.results.set(result.line, result);
      return state();
    },
    async end(_id: string, how: BulkEnd, error?: { message: string }) {
      world.ended = { how, message: error?.message ?? '' };
      return how;
    },
    clear: async (_id: string, number: number) => void world.cleared.push(number),
    memory: async () => given(world.memory),
  };
  const source = fakeModel('m');
  const model = { name: 'm', source, signature: modelSignature(source.config) } as OwnedModel;
  const run = startBulkRun({
    clock,
    log: createLog({ level: 'silent' }),
    store,
    model,
    record: RECORD,
    payloads: { read: async () => given(world.blobs) },
    caller: {
      infer: (request, options = {}) =>
        new Promise<Outcome>((resolve) => {
          const outputs = request.inputs.map((tensor) => ({ ...tensor, name: 'B' }));
          const response = { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs };
          const answer = () => resolve({ ok: true, response });
          const { signal } = options;
          if (signal === undefined) throw new Error('a line cannot be cancelled');
          signal.addEventListener('abort', () =>
            resolve({ ok: false, error: { code: 'CANCELLED', message: 'cancelled' } }),
          );
          world.asked.push({ request, answer });
        }),
      async *inferStream() {},
    },
    window: () => 2,
  });
  const pass = async (ms: number) => {
    await settle();
    clock.advanceUs(ms * 1000);
    for (let turn = 0; turn < 4; turn++) await settle();
  };
  /** Answers what is asked, until nothing is any more. */
  const answerAll = async () => {
    for (let request = world.asked.shift(); request !== undefined; request = world.asked.shift()) {
      request.answer();
      await pass(25);
    }
  };
  return { world, run, pass, answerAll, texts: () => [...world.results.values()].map(({ text }) => JSON.parse(text)) };
}

describe('a run', () => {
  test('has no more lines on their way than it may, and gives the lines of a chunk back once all have a result', async () => {
    const { world, run, pass, answerAll } = play([
      [line(0), line(1), line(2)],
      [line(3), line(4), line(5)],
    ]);
    await pass(0);
    expect([run.running, world.asked.length]).toEqual([2, 2]);
    world.asked.pop()?.answer();
    await pass(25);
    expect([...world.results.keys()]).toEqual([1]);
    await answerAll();
    await run.ended;
    expect([...world.results.keys()].sort()).toEqual([0, 1, 2, 3, 4, 5]);
    expect(world.cleared).toEqual([0, 1]);
  });

  test('does not clear a chunk of which a line has no result yet', async () => {
    const { world, run, pass } = play([[line(0), line(1)], [line(2)]]);
    await pass(0);
    world.asked.pop()?.answer();
    await pass(25);
    world.asked.pop()?.answer();
    await pass(25);
    expect([...world.results.keys()]).toEqual([1, 2]);
    expect(world.cleared).toEqual([1]);
    run.stop();
    await run.ended;
  });

  test('reads what lines name once Redis answers, and tells of what is not there', async () => {
    const { world, run, pass, answerAll, texts } = play([[blobLine('there'), blobLine('gone')]]);
    world.blobs = GONE;
    await pass(0);
    expect(world.asked).toHaveLength(0);
    world.blobs = new Map([['there', new Uint8Array(Float32Array.of(7, 0, 0, 0).buffer)]]);
    await pass(500);
    await answerAll();
    await pass(25);
    await run.ended;
    expect(texts()).toMatchObject([
      { custom_id: 'gone', error: { status_code: 404, code: 'NOT_FOUND', field: 'inputs[0].blob.ref' } },
      { custom_id: 'there', response: { body: { outputs: [{ name: 'B', data: [7, 0, 0, 0] }] } } },
    ]);
  });

  test('writes its results until Redis has them', async () => {
    const { world, run, pass } = play([[line(0)]]);
    world.settles = GONE;
    await pass(0);
    world.asked.pop()?.answer();
    await pass(1_500);
    expect(world.results.size).toBe(0);
    world.settles = 'written';
    await pass(500);
    await run.ended;
    expect([...world.results.keys()]).toEqual([0]);
  });
});

describe('where Redis has no room for results', () => {
  const full = async () => {
    const played = play([[line(0), line(1), line(2), line(3)]]);
    await played.pass(0);
    played.world.memory = FULL;
    await played.pass(600);
    await played.answerAll();
    expect(played.world.results.size).toBe(2);
    return played;
  };

  test('no line is begun until there is some again', async () => {
    const { world, run, pass, answerAll } = await full();
    await pass(LIMITS.bulk_full_wait_ms - 2_000);
    expect([run.running, world.ended]).toEqual([0, undefined]);
    world.memory = HALF;
    await pass(600);
    await answerAll();
    await run.ended;
    expect([world.results.size, world.ended]).toEqual([4, undefined]);
  });

  test('it fails in the end, with the results that it has', async () => {
    const { world, run, pass } = await full();
    await pass(LIMITS.bulk_full_wait_ms + 1_000);
    await run.ended;
    expect(world.ended).toEqual({ how: 'failed', message: expect.stringContaining('uses 91 % of its maxmemory') });
    expect(world.results.size).toBe(2);
  });

  test('it can be stopped meanwhile', async () => {
    const { world, run } = await full();
    run.stop();
    await run.ended;
    expect(world.ended).toBeUndefined();
  });

  test('nobody looks where Redis does not tell', async () => {
    const { world, run, pass, answerAll } = play([[line(0)], [line(1)]]);
    world.memory = GONE;
    await pass(0);
    await answerAll();
    await run.ended;
    expect(world.results.size).toBe(2);
  });
});
