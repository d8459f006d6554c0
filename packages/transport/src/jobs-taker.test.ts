import { createLog, type VirtualClock, virtualClock } from '@nereid/runtime';
import type { Job, Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { createJobTaker } from './jobs-taker.ts';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface WorkerParts {
  readonly ready?: () => Promise<void>;
  /** How many jobs it wants; 1 by default. */
  readonly room?: number;
  /** A look at what is there; none by default. */
  readonly look?: () => Job | undefined;
  /** A wait for more; for ever by default. */
  readonly wait?: () => Promise<void>;
  readonly close?: () => void | Promise<void>;
}

/** A taker from such a worker. */
function takeFrom(clock: VirtualClock, parts: WorkerParts) {
  const { ready, room = 1, look, wait = () => new Promise<void>(() => {}), close } = parts;
  const worker = {
    on() {},
    toKey: (type: string) => type,
    backend: { client: Promise.resolve({ lrange: async () => [] }) },
    waitUntilReady: async () => ready?.(),
    getNextJob: async (_token: string, options?: { readonly block?: boolean }) =>
      options === undefined ? wait() : look?.(),
    close: async () => close?.(),
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
    alone: false,
    checkStalled: () => () => {},
    eventsGrew: () => {},
    options: {
      by: 'co-1',
      token: () => 't',
      room: () => room,
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
  const started = new Promise<void>((resolve) => {
    up = resolve;
  });
  const { taker } = takeFrom(clock, { ready: () => started, close: () => void calls.push('close') });
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
  const jobs = [job];
  const { taker, taken } = takeFrom(clock, { look: () => jobs.shift() });
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
  const { taker } = takeFrom(clock, {
    look: () => {
      asked.push('look');
      return undefined;
    },
    wait() {
      asked.push('wait');
      return new Promise<void>((resolve) => answers.push(resolve));
    },
    close() {
      for (const answer of answers) answer();
    },
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
  takeFrom(clock, { wait: async () => void waits++ });
  await turn();
  await turn();
  expect(waits).toBe(2);
  clock.advanceUs(20_000);
  await turn();
  expect(waits).toBe(3);
});

test('jobs that come while another look fails are held', async () => {
  const clock = virtualClock();
  let looks = 0;
  const { taker, taken } = takeFrom(clock, {
    look() {
      looks++;
      if (looks === 2) throw new Error('no connection');
      const job = { id: `j${looks}`, opts: {}, async moveToWait() {} };
      return looks > 3 ? undefined : (job as unknown as Job);
    },
    room: 4,
  });
  for (let turns = 0; turns < 10; turns++) await turn();
  expect(taken.map(([id]) => id)).toEqual(['j1', 'j3']);
  void taker.close();
});

test('a job that ends while its taker is closed takes no other along', async () => {
  const clock = virtualClock();
  let looks = 0;
  let complete = () => {};
  let closeWorker = () => {};
  const job = { id: 'j1', opts: {}, moveToCompleted: () => new Promise<void>((resolve) => (complete = resolve)) };
  const { taker } = takeFrom(clock, {
    look: () => (++looks === 1 ? (job as unknown as Job) : undefined),
    close: () => new Promise<void>((resolve) => (closeWorker = resolve)),
  });
  await turn();
  const ended = taker.complete('j1', {});
  await turn();
  const before = looks;
  void taker.close();
  complete();
  await ended;
  await turn();
  expect(looks).toBe(before);
  closeWorker();
});
