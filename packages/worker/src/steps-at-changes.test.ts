/** What becomes of sequences when their worker lapses or stops, and of those whose steps run and answer more than once. */
import type { ModelRecord } from '@nereid/config';
import { createLocalDirectory, type Directory, timing } from '@nereid/transport';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSteps, SEQUENCES, SUMS, stepAnswers } from './steps-harness.ts';
import { createHarness, EPOCH, eachWithHarness, type Harness } from './worker-harness.ts';

describe('a worker in a directory', () => {
  let harness: Harness;
  let directory: Directory<ModelRecord>;
  const lapsed = new Set<string>();

  beforeEach(async () => {
    const local = createLocalDirectory<ModelRecord>();
    lapsed.clear();
    directory = { ...local, registered: (id) => !lapsed.has(id) && local.registered(id) };
    await directory.register({ id: EPOCH.owner, role: 'coordinator', draining: false });
    harness = await createHarness({ directory, timing: timing(), newId: () => 'wk-second' });
    await harness.javascript('m', SUMS, SEQUENCES);
    await harness.load('m');
  });
  afterEach(async () => {
    await directory.leave(EPOCH.owner);
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  it('R10: drops all slots before it goes on under another id', async () => {
    const steps = createSteps(harness, 'm');
    await steps.results([{ x: 1, g: 1 }]);
    const running = steps.ask([{ x: 77, g: 2 }]);
    // Until it runs.
    await steps.sessions();
    lapsed.add('wk-test');
    const offered = harness.described('m', ({ worker }) => worker === 'wk-second');
    // It lapses by what it is sent.
    harness.owner.send('wk-test', { kind: 'describe', model: 'm', epoch: EPOCH, askedAt: 1 });
    expect((await offered).versions[0]).toMatchObject({ slots: [], ended: [] });
    const second = createSteps(harness, 'm', 'wk-second');
    expect(await second.results([{ x: 1, g: 3 }])).toEqual(['3 noslot']);
    expect(await second.results([{ x: 5, g: 4, session: 'gw-test:4' }])).toEqual(['4 ok']);
    // What ran meanwhile is over, and is of no sequence.
    await running;
    expect(await second.sessions()).toEqual({ slots: ['gw-test:4 in 0 after 1'], ended: [] });
    second.free('gw-test:4');
  });

  it('R38: goes on with the sequences that it has when it stops, begins none, and stops with the last', async () => {
    const steps = createSteps(harness, 'm');
    await steps.results([{ x: 1, g: 1 }]);
    await steps.results([{ x: 10, g: 2, session: 'gw-test:2', slot: 1 }]);
    const draining = harness.described('m', (message) => message.draining);
    let stopped = false;
    const stop = harness.worker.stop(60_000).then(() => {
      stopped = true;
    });
    expect((await draining).versions[0]?.slots).toHaveLength(2);
    expect(
      await steps.results([
        { x: 1, g: 3 },
        { x: 1, g: 4, session: 'gw-test:4', slot: 2 },
      ]),
    ).toEqual(['3 ok', '4 noslot']);
    steps.free('gw-test:2');
    expect(await steps.sessions()).toEqual({ slots: ['gw-test:1 in 0 after 2'], ended: ['gw-test:2 ended'] });
    expect(stopped).toBe(false);
    expect(await steps.results([{ x: 1, g: 5, more: { sequenceEnd: true } }])).toEqual(['5 ok']);
    await stop;
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: 10', '3: 2', '5: 3']);
  });

  it.each([
    ['its deadline', () => {}, 1],
    ['the last coordinator', () => directory.leave(EPOCH.owner), undefined],
  ])('R38: waits for sequences no longer than %s', async (_, happens, deadlineMs) => {
    const steps = createSteps(harness, 'm');
    await steps.results([{ x: 1, g: 1 }]);
    const last = harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    const stop = harness.worker.stop(deadlineMs);
    await happens();
    await stop;
    expect((await last).versions[0]).toMatchObject({ slots: [], ended: [{ session: 'gw-test:1', lost: true }] });
  });
});

/** Counts down from X, an answer for each run; with `decoupled` each run streams its count and the sum so far. */
const COUNTDOWN = (decoupled: boolean) => `
  const left = new Map();
  const Y = (...values) => ({ outputs: { Y: { datatype: 'INT32', shape: [1, values.length], data: Int32Array.from(values) } } });
  const one = (request) => {
    const now = (request.flags & 1 ? request.inputs.get('X').data[0] : left.get(request.correlationId)) - 1;
    left.set(request.correlationId, now);
    return now;
  };
  const whole = (request) => {
    const now = one(request);
    return now > 0 ? { outputs: {}, release: 'reschedule' } : Y(now);
  };
  async function* stream(request) {
    const now = one(request);
    yield Y(now);
    if (now > 0) yield { outputs: {}, release: 'reschedule' };
  }
  export const execute = (requests) => requests.map(${decoupled ? 'stream' : 'whole'});`;
const ITERATIVE = 'max_batch_size: 8 sequence_batching { iterative_sequence: true }';
const DECOUPLED = 'model_transaction_policy { decoupled: true }';

describe('a request of an iterative sequence', () => {
  let harness: Harness;
  eachWithHarness((made) => {
    harness = made;
  });
  const again = { x: 3, g: 1, more: { sequenceStart: false } };

  it('runs until the model has done with it, answered once', async () => {
    await harness.javascript('m', COUNTDOWN(false), ITERATIVE);
    await harness.load('m');
    const steps = createSteps(harness, 'm');
    expect(await steps.results([{ x: 3, g: 1 }])).toEqual(['1 again']);
    // Its owner did not hear of it.
    expect(await steps.results([{ x: 3, g: 1 }])).toEqual(['1 again']);
    expect(await steps.sessions()).toEqual({ slots: ['gw-test:1 in 0 after 1'], ended: [] });
    expect(await steps.results([again])).toEqual(['1 again']);
    expect(await steps.results([again])).toEqual(['1 ok']);
    expect(await steps.sessions()).toEqual({ slots: [], ended: ['gw-test:1 ended'] });
    expect(stepAnswers(harness)).toEqual(['1: 0']);
  });

  it('R27: is one execution whose chunks go on from run to run', async () => {
    await harness.javascript('m', COUNTDOWN(true), `${ITERATIVE} ${DECOUPLED}`);
    await harness.load('m');
    const steps = createSteps(harness, 'm');
    expect(await steps.results([{ x: 2, g: 1 }])).toEqual(['1 again']);
    await steps.sessions();
    const described = harness.received.findLast((message) => message.kind === 'described');
    const execution = 'wk-test/gw-test:1';
    expect(described).toMatchObject({ streams: [{ id: 'gw-test:1', execution }] });
    expect(await steps.results([again])).toEqual(['1 ok']);
    expect(stepAnswers(harness)).toEqual(['1: 1', '1+1: 0', '1+2: over']);
    const responses = harness.received.filter((message) => message.kind === 'response');
    expect(new Set(responses.map((message) => message.kind === 'response' && message.execution))).toEqual(
      new Set([execution]),
    );
  });
});

/** Answers each number from 0 up to X. */
const STREAM = `
  async function* stream({ inputs }) {
    for (let i = 0; i <= inputs.get('X').data[0]; i++) {
      yield { outputs: { Y: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(i) } } };
    }
  }
  export const execute = (requests) => requests.map(stream);`;

describe('R20: a step that streams', () => {
  it('is answered again with all its chunks', async () => {
    const harness = await createHarness();
    await harness.javascript('m', STREAM, `${SEQUENCES} ${DECOUPLED}`);
    await harness.load('m');
    const steps = createSteps(harness, 'm');
    await steps.results([{ x: 1, g: 1 }]);
    expect(await steps.results([{ x: 1, g: 1 }])).toEqual(['1 replayed']);
    const once = ['1: 0', '1+1: 1', '1+2: over'];
    expect(stepAnswers(harness)).toEqual([...once, ...once]);
    expect(await harness.close()).toMatchObject({ batches: 0, threads: 0 });
  });
});
