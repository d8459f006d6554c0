import { afterAll, beforeAll, expect, test } from 'vitest';
import { medianGapMs, unexcused } from './figures.mjs';
import { type RoundsResult, runRounds } from './rounds.mjs';

// Few rounds beside other tests; `node test/faults/run.mjs` does more and holds the figures themselves.
const ROUNDS = 2;
const OWNER_GAP_MS_MAX = 3_000;
/** A machine that is busy with other tests is slower. */
const SLACK = 5;
const LIMIT_MS = 180_000;

let result: RoundsResult;

beforeAll(async () => {
  result = await runRounds({ rounds: ROUNDS });
}, LIMIT_MS);
afterAll(() => {
  console.log(`longest gaps: ${result.faults.map(({ role, gapMs }) => `${role} ${gapMs} ms`).join(', ')}`);
});

test('each request has its right answer, or a 503, or waited at the gateway that was killed', () => {
  expect(unexcused(result)).toEqual([]);
  expect(result.faults.map(({ role }) => role)).toEqual(
    Array(ROUNDS).fill(['worker', 'coordinator', 'gateway']).flat(),
  );
  for (const fault of result.faults) expect(fault.right, `${fault.role} killed`).toBeGreaterThan(0);
});

test('a 503 says when the request may be sent again', () => {
  for (const { retryAfter } of result.requests.filter(({ outcome }) => outcome === 'refused')) {
    expect(retryAfter).toMatch(/^\d+$/);
  }
});

test('each accepted job ends once, with one kept right result, whoever sent it', () => {
  expect(result.jobProblems).toEqual([]);
  for (const by of ['http', 'producer']) {
    expect(result.jobs.filter((job) => job.by === by).length, by).toBeGreaterThan(0);
  }
  expect(result.kept).toBeGreaterThanOrEqual(result.jobs.length);
  expect(result.producerCode).toBe(0);
});

test('after a coordinator’s death another owns its models soon', () => {
  expect(medianGapMs(result.faults, 'coordinator')).toBeLessThan(OWNER_GAP_MS_MAX * SLACK);
});

test('a worker that took a dead one’s place answers', () => {
  for (const { role, joinMs } of result.faults) if (role === 'worker') expect(joinMs).toEqual(expect.any(Number));
});

test('no process waits for anything once all is answered', () => {
  expect(result.held).toEqual([]);
});

test('nothing of the dead is left in Redis or in shared memory', () => {
  expect(result.left).toEqual([]);
  expect(result.leftAtEnd).toEqual([]);
});

test('the others stop in order', () => {
  for (const { code, output } of result.endings) expect(code, output).toBe(0);
});
