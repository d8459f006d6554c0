import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { treeSeconds } from '../bench/proc-cpu.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import type { Answer } from './requests.ts';
import {
  addAccumulator,
  addIdEcho,
  liveSequences,
  type StepFlags,
  type Strategy,
  step as stepOf,
} from './sequence-models.ts';
import { EXACT_TIMES, limitMs, limitRatio } from './time-limits.ts';

// Bug cases about sequences; each name begins with the case's id.

const SLOTS = 2;
/** Of the models whose sequences are left alone, and how long these are. */
const IDLE_MS = EXACT_TIMES ? 1_500 : 100;
const LEFT_ALONE_MS = EXACT_TIMES ? 2_600 : 0;
/** Of the others: longer than any test. */
const NEVER_MS = 600_000;
const ENDS_AFTER_MS = EXACT_TIMES ? 500 : 0;
const RUNS_WITHIN_MS = 200;
const ABANDONED = 20;
/** After which the server is to be idle, and how long it is looked at. */
const QUIET_AFTER_MS = EXACT_TIMES ? 10_000 : 0;
const LOOK_MS = EXACT_TIMES ? 10_000 : 1_000;
const IDLE_CPU_MAX = 0.05;
const TIMEOUT_MS = 60_000;
const LONGEST_ID = 128;

const NEEDS_ID = /must specify a non-zero or non-empty correlation ID/;

describe.each(MODES)('in mode %s', (mode) => {
  const folder = createModelFolder();
  const strategies: readonly Strategy[] = ['direct', 'oldest'];
  for (const strategy of strategies) {
    addAccumulator(folder, strategy, { strategy, slots: SLOTS, idleMs: NEVER_MS });
    addAccumulator(folder, `${strategy}_idle`, { strategy, slots: SLOTS, idleMs: IDLE_MS });
    addAccumulator(folder, `${strategy}_many`, { strategy, slots: ABANDONED, idleMs: IDLE_MS });
  }
  addIdEcho(folder, 'id_echo');
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const step = (model: string, values: readonly number[], flags: StepFlags = {}) =>
    stepOf(served.http, model, values, flags);
  const dataOf = ({ status, outputs, error }: Answer) => (status === 200 ? outputs.get('OUTPUT')?.data : error);
  const one = async (model: string, value: number, flags: StepFlags) => dataOf(await step(model, [value], flags));
  const needsStart = (model: string, id: number) =>
    `inference request for sequence ${id} to model '${model}' must specify the START flag on the first request of the sequence`;
  const noneLives = (model: string) =>
    eventually('no sequence lives', async () => (await liveSequences(served.http, model)).length === 0);
  /** All slots at once, so that none is held. */
  const allSlotsServe = async (model: string, firstId: number) => {
    const ids = Array.from({ length: SLOTS }, (_, index) => firstId + index);
    expect(await Promise.all(ids.map((id) => one(model, id, { id, start: true })))).toEqual(ids.map((id) => [id]));
    expect(await Promise.all(ids.map((id) => one(model, 1, { id, end: true })))).toEqual(ids.map((id) => [id + 1]));
  };

  describe.each(strategies)('%s', (model) => {
    test('BC-067: a new id without START is refused by its name, and holds no slot', async () => {
      const { status, error } = await step(model, [1], { id: 101 });
      expect([status, error]).toEqual([400, needsStart(model, 101)]);
      await allSlotsServe(model, 110);
    });

    test('BC-068: a request without an id, or of the id 0, is refused', async () => {
      for (const flags of [{}, { id: 0, start: true }]) {
        const { status, error } = await step(model, [1], flags);
        expect([status, error]).toEqual([400, expect.stringMatching(NEEDS_ID)]);
      }
    });

    test('BC-070: a sequence that was idle for too long has ended, and its slot serves another', async () => {
      const idle = `${model}_idle`;
      for (const id of [102, 103]) expect(await one(idle, 1, { id, start: true })).toEqual([1]);
      await delay(LEFT_ALONE_MS);
      await noneLives(idle);
      const { status, error } = await step(idle, [2], { id: 102 });
      expect([status, error]).toEqual([400, needsStart(idle, 102)]);
      for (const id of [120, 121]) expect(await one(idle, id, { id, start: true, end: true })).toEqual([id]);
    });

    test('BC-071: a third sequence waits for one of two slots', async () => {
      for (const id of [131, 132]) expect(await one(model, id, { id, start: true })).toEqual([id]);
      let isAnswered = false;
      const third = one(model, 5, { id: 133, start: true }).then((data) => {
        isAnswered = true;
        return { data, atMs: performance.now() };
      });
      await eventually('it is in the backlog', async () =>
        (await liveSequences(served.http, model)).some(({ sequence_id: id, backlog }) => id === 133 && backlog === 0),
      );
      await delay(ENDS_AFTER_MS);
      expect(isAnswered).toBe(false);
      expect(await one(model, 1, { id: 131, end: true })).toEqual([132]);
      const endedMs = performance.now();
      const { data, atMs } = await third;
      expect(data).toEqual([5]);
      expect(atMs - endedMs).toBeLessThan(limitMs(RUNS_WITHIN_MS));
      expect(await one(model, 6, { id: 133, end: true })).toEqual([11]);
      expect(await one(model, 1, { id: 132, end: true })).toEqual([133]);
    });

    test('BC-073: START on a live id begins afresh in the same slot', async () => {
      expect(await one(model, 1, { id: 104, start: true })).toEqual([1]);
      expect(await one(model, 10, { id: 104, start: true })).toEqual([10]);
      // Of two slots the other is free.
      expect(await one(model, 7, { id: 105, start: true, end: true })).toEqual([7]);
      expect(await one(model, 1, { id: 104, end: true })).toEqual([11]);
      await allSlotsServe(model, 140);
    });

    test('BC-074: a string as id, to a model that does not see it', async () => {
      const id = randomUUID();
      expect(await one(model, 1, { id, start: true })).toEqual([1]);
      expect(await one(model, 2, { id, end: true })).toEqual([3]);
    });

    test('BC-077: two rows in a step are refused', async () => {
      const { status, error } = await step(model, [1, 2], { id: 106, start: true });
      const refusal = `inference request to model '${model}' must specify batch-size 1 due to requirements of sequence batcher`;
      expect([status, error]).toEqual([400, refusal]);
      await allSlotsServe(model, 150);
    });
  });

  test.each([
    ['a UUID', randomUUID()],
    ['one character', 'x'],
    ['as long as may be', 'y'.repeat(LONGEST_ID)],
    ['not ASCII', 'grüße'],
  ])('BC-074: a string as id, to a model that sees it: %s', async (_, id) => {
    expect(await one('id_echo', 1, { id, start: true })).toEqual([id]);
    expect(await one('id_echo', 1, { id, end: true })).toEqual([id]);
  });

  test(
    `BC-076: ${ABANDONED} abandoned sequences leave an idle server`,
    async () => {
      const models = strategies.map((strategy) => `${strategy}_many`);
      const ids = Array.from({ length: ABANDONED }, (_, index) => 200 + index);
      for (const model of models) {
        const sums = await Promise.all(ids.map((id) => one(model, id, { id, start: true })));
        expect(sums).toEqual(ids.map((id) => [id]));
      }
      for (const model of models) await noneLives(model);
      await delay(QUIET_AFTER_MS);
      const pids = Object.fromEntries(served.processes.map(({ process }, index) => [index, process.pid ?? 0]));
      const used = () => Object.values(treeSeconds(pids));
      const lines = () => served.processes.flatMap(({ output }) => output().split('\n')).length;
      const before = { used: used(), lines: lines() };
      await delay(LOOK_MS);
      for (const [index, seconds] of used().entries()) {
        const share = (seconds - (before.used[index] ?? 0)) / (LOOK_MS / 1000);
        expect(share, served.processes[index]?.role).toBeLessThan(limitRatio(IDLE_CPU_MAX));
      }
      expect(lines()).toBe(before.lines);
      for (const model of models) {
        const refusals = await Promise.all(ids.map((id) => one(model, 1, { id })));
        expect(refusals).toEqual(ids.map((id) => needsStart(model, id)));
        expect(await one(model, 5, { id: 300, start: true, end: true })).toEqual([5]);
      }
    },
    TIMEOUT_MS,
  );
});
