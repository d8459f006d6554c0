import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createOutcomes } from './job-outcomes.ts';

type Listener = (event: object) => void;

/** A queue of these jobs, and what tells of their ends. */
function fakeQueue(jobs: Record<string, object | undefined> = {}) {
  const listeners = new Map<string, Listener>();
  const asked: string[] = [];
  const outcomes = createOutcomes(
    {
      add: async () => {},
      getJob: async (id) => {
        asked.push(id);
        return jobs[id];
      },
    },
    {
      on: (event, listener) => listeners.set(event, listener as Listener),
      off: (event) => listeners.delete(event),
      waitUntilReady: async () => {},
    },
  );
  return { outcomes, asked, listeners, tell: (event: string, args: object) => listeners.get(event)?.(args) };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

test('a job ends with its event, also before anybody waits for it', async () => {
  const { outcomes, tell } = fakeQueue();
  const [good, bad] = [outcomes.of('a'), outcomes.of('b')];
  tell('completed', { jobId: 'other', returnvalue: 0 });
  tell('completed', { jobId: 'a', returnvalue: { y: 1 } });
  tell('failed', { jobId: 'b', failedReason: 'INVALID_ARG: wrong: shape' });
  expect(await good).toEqual({ y: 1 });
  await expect(bad).rejects.toMatchObject({ code: 'INVALID_ARG', message: 'wrong: shape' });
});

test('a reason that is none of ours is INTERNAL', async () => {
  const { outcomes, tell } = fakeQueue();
  const bad = outcomes.of('a');
  tell('failed', { jobId: 'a', failedReason: 'job stalled more than allowable limit' });
  await expect(bad).rejects.toMatchObject({ code: 'INTERNAL', message: 'job stalled more than allowable limit' });
});

test('a job whose event is lost is looked at', async () => {
  const jobs = { a: { finishedOn: 1, returnvalue: 5 }, b: { finishedOn: 1, failedReason: 'INTERNAL: x' }, c: {} };
  const { outcomes, asked, tell } = fakeQueue(jobs);
  const [good, bad, open] = [outcomes.of('a'), outcomes.of('b'), outcomes.of('c')];
  await vi.advanceTimersByTimeAsync(250);
  expect(await good).toBe(5);
  await expect(bad).rejects.toMatchObject({ code: 'INTERNAL', message: 'x' });
  await vi.advanceTimersByTimeAsync(500);
  expect(asked).toEqual(['a', 'b', 'c', 'c']);
  tell('completed', { jobId: 'c', returnvalue: 6 });
  expect(await open).toBe(6);
});

test('a job that was added and is not there twice was removed', async () => {
  const { outcomes, asked } = fakeQueue();
  const gone = outcomes.of('a');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBeGreaterThan(10);
  outcomes.added('a');
  await vi.advanceTimersByTimeAsync(10_000);
  await expect(gone).rejects.toMatchObject({ code: 'NOT_FOUND' });
});

test('closing ends what is waited for, and listens no more', async () => {
  const { outcomes, listeners } = fakeQueue();
  const open = outcomes.of('a');
  outcomes.close();
  await expect(open).rejects.toMatchObject({ reason: 'closed' });
  expect(listeners.size).toBe(0);
});

test('what was not added is forgotten', () => {
  const { outcomes } = fakeQueue();
  void outcomes.of('a');
  outcomes.forget('a');
});
