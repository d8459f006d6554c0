import { createLog, type VirtualClock, virtualClock } from '@nereid/runtime';
import type { Job, Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { createJobTaker } from './jobs-taker.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A taker of these jobs, whose worker is up; `wait` is its wait for more, for ever by default. */
function takeFrom(clock: VirtualClock, parts: { readonly jobs: Job[]; readonly wait?: () => Promise<void> }) {
  const { jobs, wait = () => new Promise<void>(() => {}) } = parts;
  const worker = {
    on() {},
    async waitUntilReady() {},
    getNextJob: async (_token: string, options?: { readonly block?: boolean }) =>
      options === undefined ? wait() : jobs.shift(),
    async close() {},
  } as unknown as Worker;
  const taken: [string, unknown][] = [];
  const taker = createJobTaker({
    clock,
    log: createLog({ level: 'silent' }),
    worker: () => worker,
    ready: async () => {},
    holdWrites: () => {},
    queue: 'infer.m',
    lockMs: 1_000,
    checkStalled: () => () => {},
    options: {
      by: 'co-1',
      token: () => 't',
      room: () => 1,
      taken: ({ id, data }) => taken.push([id, data]) > 0,
      lost: () => {},
    },
  });
  return { taker, taken };
}

test('closed while its worker starts, a taker leaves neither worker nor timer', async () => {
  const clock = virtualClock();
  const calls: string[] = [];
  let up = () => {};
  const worker = {
    on() {},
    waitUntilReady: () =>
      new Promise<void>((resolve) => {
        up = resolve;
      }),
    async close() {
      calls.push('close');
    },
  } as unknown as Worker;
  const taker = createJobTaker({
    clock,
    log: createLog({ level: 'silent' }),
    worker: () => worker,
    ready: async () => {},
    holdWrites: () => {},
    queue: 'infer.m',
    lockMs: 1_000,
    checkStalled: () => () => {},
    options: { by: 'co-1', token: () => 't', room: () => 1, taken: () => true, lost: () => {} },
  });
  await turn();
  const closed = taker.close();
  await turn();
  up();
  await closed;
  expect(calls.at(-1)).toBe('close');
  expect(clock.liveTimers).toBe(0);
});

test('a result that no text can hold fails its job: it would be tried for ever', async () => {
  const clock = virtualClock();
  const failed: Error[] = [];
  const job = {
    id: 'j1',
    opts: {},
    async moveToCompleted() {
      throw new RangeError('Invalid string length');
    },
    async moveToFailed(error: Error) {
      failed.push(error);
    },
  } as unknown as Job;
  const { taker, taken } = takeFrom(clock, { jobs: [job] });
  await turn();
  expect(taken).toEqual([['j1', undefined]]);
  void taker.complete('j1', {});
  await turn();
  expect(failed.map(({ name, message }) => [name, message])).toEqual([
    ['UnrecoverableError', expect.stringContaining('too long')],
  ]);
  expect(taker.held).toBe(0);
});

test('an idle taker has no timer, and waits without looking first', async () => {
  const clock = virtualClock();
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  const worker = {
    on() {},
    async waitUntilReady() {},
    getNextJob: async (_token: string, options?: { readonly block?: boolean }) => {
      asked.push(options === undefined ? 'wait' : 'look');
      if (options === undefined) await new Promise<void>((resolve) => answers.push(resolve));
      return undefined;
    },
    async close() {
      for (const answer of answers) answer();
    },
  } as unknown as Worker;
  const taker = createJobTaker({
    clock,
    log: createLog({ level: 'silent' }),
    worker: () => worker,
    ready: async () => {},
    holdWrites: () => {},
    queue: 'infer.m',
    lockMs: 1_000,
    checkStalled: () => () => {},
    options: { by: 'co-1', token: () => 't', room: () => 1, taken: () => true, lost: () => {} },
  });
  for (let round = 0; round < 3; round++) {
    await turn();
    expect(clock.liveTimers).toBe(0);
    clock.advanceUs(5e6);
    answers[round]?.();
  }
  await turn();
  expect(asked).toEqual(['look', 'wait', 'wait', 'wait', 'wait']);
  await taker.close();
});

test('the marker that a taken job leaves holds nobody up, and a wait that keeps ending at once is slowed down', async () => {
  const clock = virtualClock();
  let waits = 0;
  takeFrom(clock, { jobs: [], wait: async () => void waits++ });
  await turn();
  await turn();
  expect(waits).toBe(2);
  clock.advanceUs(20_000);
  await turn();
  expect(waits).toBe(3);
});
