import { afterAll, beforeAll, expect, test } from 'vitest';
import { medianGapMs, unexcused } from './figures.mjs';
import { type RoundsResult, runRounds } from './rounds.mjs';
import { findPython } from './start-producer.mjs';

// Few rounds beside other tests; `node test/faults/run.mjs` and `node test/faults/jobs-run.mjs` do more and hold the
// figures themselves. Redis syncs each write: only so a kill of it may lose nothing.
const PLAN = [
  ['kill', 'redis-restart'],
  ['kill', 'redis-kill'],
] as const;
const OWNER_GAP_MS_MAX = 3_000;
/** A machine that is busy with other tests is slower. */
const SLACK = 5;
const LIMIT_MS = 300_000;

const python = findPython();
let result: RoundsResult;

beforeAll(async () => {
  result = await runRounds({ plan: PLAN, fsync: 'always', mixed: true, light: true, python });
}, LIMIT_MS);
afterAll(() => {
  // Where the run itself failed there is none.
  if (result === undefined) return;
  console.log(`longest gaps: ${result.faults.map(({ role, gapMs }) => `${role} ${gapMs} ms`).join(', ')}`);
});

test('each request has its right answer, or a 503, or waited at the gateway that was killed', () => {
  expect(unexcused(result)).toEqual([]);
  expect(result.faults.map(({ kind, role }) => `${kind} ${role}`)).toEqual(
    ['restart', 'kill'].flatMap((kind) => [
      ...['worker', 'coordinator', 'gateway'].map((role) => `kill ${role}`),
      `${kind} redis`,
    ]),
  );
  for (const fault of result.faults) expect(fault.right, `${fault.kind} of ${fault.role}`).toBeGreaterThan(0);
});

test('a 503 says when the request may be sent again', () => {
  for (const { retryAfter } of result.requests.filter(({ outcome }) => outcome === 'refused')) {
    expect(retryAfter).toMatch(/^\d+$/);
  }
});

test('each accepted job ends once, with one kept right result or as a step of a lost sequence, whoever sent it', () => {
  expect(result.jobProblems).toEqual([]);
  expect(Object.keys(result.jobCounts).toSorted()).toEqual([
    'HTTP, binary',
    'HTTP, json',
    'HTTP, large',
    'HTTP, largeJson',
    'Node producer',
    ...(python === undefined ? [] : ['Python producer']),
    'steps, HTTP',
    'steps, producer',
  ]);
  for (const [kind, { completed, lost, accepted }] of Object.entries(result.jobCounts)) {
    expect(completed, kind).toBeGreaterThan(0);
    expect(completed + lost, kind).toBe(accepted);
  }
  expect(result.excusedJobs).toEqual([]);
  for (const code of result.producerCodes) expect(code).toBe(0);
});

test.skipIf(python === undefined)(
  'a producer in Python takes part (with the package bullmq for Python 3.10 or later, which npm test installs)',
  () => {
    expect(result.jobCounts['Python producer']?.completed).toBeGreaterThan(0);
  },
);

test('each sequence of requests is right, or lost with its worker', () => {
  expect(result.sequenceProblems).toEqual([]);
  expect(result.sequences.filter(({ outcome }) => outcome === 'right').length).toBeGreaterThan(0);
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
