import { createLog, virtualClock } from '@nereid/runtime';
import type { Job } from 'bullmq';
import { describe, expect, test } from 'vitest';
import type { JobEvents } from './jobs-events.ts';
import { createJobListeners } from './jobs-listeners.ts';
import { storedJob } from './jobs-stored.ts';
import { createJobWait } from './jobs-waits.ts';

const JOBS = Array.from({ length: 50 }, (_, index) => `J${index}`);
/** Longer than the time after which a waiter looks itself. */
const WAIT_MS = 20_000;
const STEP_MS = 1_000;

/** Waits on events that never come: `listens` counts those who listen to them. */
function deafWaits() {
  const clock = virtualClock();
  const jobs = new Map(JOBS.map((id) => [id, { id, timestamp: 1, data: {}, opts: {}, attemptsMade: 0 } as Job]));
  let listens = 0;
  let connections = 0;
  const events = {
    listen: () => {
      listens++;
      return () => {
        listens--;
      };
    },
    close: async () => {},
  } as unknown as JobEvents;
  const listen = async () => {
    connections++;
    return events;
  };
  const listeners = createJobListeners({ log: createLog({ level: 'silent' }), listen });
  const wait = createJobWait({
    clock,
    listeners,
    ask: (question) => question(),
    read: async (_model, id) => jobs.get(id),
    find: async (model, id, job) =>
      job && storedJob(model, id, job.finishedOn === undefined ? 'waiting' : 'completed', job),
  });
  /** Lets so much time pass, with all that it brings about. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await new Promise((resolve) => setImmediate(resolve));
      clock.advanceUs(STEP_MS * 1000);
    }
    await new Promise((resolve) => setImmediate(resolve));
  };
  const held = () => ({ listens, waiters: listeners.size, timers: clock.liveTimers });
  const dialled = () => connections;
  return { clock, jobs, wait, pass, held, dialled };
}

const NOTHING = { listens: 0, waiters: 0, timers: 0 };

describe('50 waiters whose events are lost (BC-128)', () => {
  test.each([
    [
      'hear of the end by a look of their own',
      (job: Job) => ({ ...job, finishedOn: 2, returnvalue: 1 }) as Job,
      'completed',
    ],
    ['hear that a job that is not kept is gone', () => undefined, undefined],
    ['are told how it is at their deadline', (job: Job) => job, 'waiting'],
  ])('%s, and leave nothing', async (_, end, state) => {
    const { jobs, wait, pass, held } = deafWaits();
    expect(held()).toEqual(NOTHING);
    const outcomes = Promise.all(JOBS.map((id) => wait('m', id, WAIT_MS, true)));
    await pass(STEP_MS);
    expect(held()).toEqual({ listens: JOBS.length, waiters: JOBS.length, timers: JOBS.length });
    for (const [id, job] of jobs) {
      const ended = end(job);
      if (ended === undefined) jobs.delete(id);
      else jobs.set(id, ended);
    }
    await pass(WAIT_MS + STEP_MS);
    expect((await outcomes).map((job) => job?.state)).toEqual(Array(JOBS.length).fill(state));
    expect(held()).toEqual(NOTHING);
  });
});

test.each([
  ['is not there', 'none', undefined],
  ['is over', 'J0', 'completed'],
])('a job that %s is told at once, and costs no connection', async (_, id, state) => {
  const { jobs, wait, held, dialled } = deafWaits();
  jobs.set('J0', { ...jobs.get('J0'), finishedOn: 2, returnvalue: 1 } as Job);
  expect((await wait('m', id, WAIT_MS, false))?.state).toBe(state);
  expect({ ...held(), dialled: dialled() }).toEqual({ ...NOTHING, dialled: 0 });
});
