import {
  type ErrorInfo,
  isAnswerFor,
  noVersions,
  QUEUE_FULL,
  STOPPING,
  senderOf,
  sequenceLost,
  sequenceNeedsStart,
  stepGap,
} from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { countedIdentity, createJobSteps, stepVerdict } from './job-steps.ts';

describe('the identity of a step that is a job', () => {
  test.each([
    ['1', 1],
    ['4200', 4_200],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ])('of the number %s is that of its queue, whoever takes it', (id, g) => {
    expect(countedIdentity('m:x', id)).toEqual({ id: `jobs/m:x:${id}`, g, low: 1 });
    expect(senderOf(`jobs/m:x:${id}`)).toBe('jobs/m:x');
    expect(isAnswerFor(`jobs/m:x:${id}`, 'co-1')).toBe(true);
  });

  test.each(['0', '01', '-1', '9007199254740992', 'a', '1a', '', '01ARYZ6S41TSV4RRFFQ69G5FAV'])(
    'there is none of %j, which counts nothing',
    (id) => {
      expect(countedIdentity('m', id)).toBeUndefined();
    },
  );
});

describe('R35: a job that was taken before', () => {
  test.each<[string, string, number, number, boolean]>([
    ['is certain where it is the first time', 'x', 1, -1, false],
    ['is certain where BullMQ has counted it', '7', 2, -1, false],
    ['is certain where it is numbered', 'x', 2, 0, false],
    ['is uncertain otherwise', 'x', 2, -1, true],
  ])('%s', (_, id, starts, index, expected) => {
    expect(createJobSteps().taken('m', { id, starts }, index)).toBe(expected);
  });

  test('is certain once where it went back without having run', () => {
    const steps = createJobSteps();
    steps.waits('m', 'x', 0);
    expect(steps.taken('other', { id: 'x', starts: 2 }, -1)).toBe(true);
    expect(steps.taken('m', { id: 'x', starts: 2 }, -1)).toBe(false);
    expect(steps.taken('m', { id: 'x', starts: 3 }, -1)).toBe(true);
  });

  test('has waited since it went back first, until it is over', () => {
    const steps = createJobSteps();
    expect(steps.waitedUs('m', 'x', 5)).toBe(0);
    steps.waits('m', 'x', 5);
    steps.waits('m', 'x', 8);
    expect(steps.waitedUs('m', 'x', 10)).toBe(5);
    steps.over('m', 'x');
    expect(steps.waitedUs('m', 'x', 10)).toBe(0);
  });

  test('is forgotten once there are very many others', () => {
    const steps = createJobSteps();
    for (let job = 0; job <= 4_096; job++) steps.waits('m', `x${job}`, 1);
    expect([steps.waitedUs('m', 'x0', 2), steps.waitedUs('m', 'x1', 2)]).toEqual([0, 1]);
  });
});

const NEEDS_START = sequenceNeedsStart('m', 5n);
const FAILED: ErrorInfo = { code: 'INTERNAL', message: 'model failed' };

test.each<[string, ErrorInfo, Partial<Parameters<typeof stepVerdict>[1]>, string]>([
  ["a model's error is its answer", FAILED, {}, 'final'],
  ['a lost sequence', sequenceLost('m', 5n), { index: 3 }, 'final'],
  ['a full queue, whose step is over with its sequence', QUEUE_FULL, {}, 'final'],
  ['a model that nobody serves now', noVersions('m'), {}, 'later'],
  ['a coordinator that stops', STOPPING, {}, 'later'],
  ['a number whose turn has not come', stepGap('m', 5n, 2), { index: 3 }, 'later'],
  ['the same once it has waited for too long', stepGap('m', 5n, 2), { index: 3, waitedUs: 30_000_000 }, 'final'],
  ['the same once its deadline is over', stepGap('m', 5n, 2), { index: 3, late: true }, 'final'],
  ['a number before the START has come', NEEDS_START, { index: 1 }, 'later'],
  ['a step without a number before the START', NEEDS_START, {}, 'final'],
  ['the number 0 without START', NEEDS_START, { index: 0 }, 'final'],
])('R35: what a failed step means for its job: %s', (_, error, more, verdict) => {
  const step = { model: 'm', correlationId: 5n, index: -1, waitedUs: 0, late: false };
  expect(stepVerdict(error, { ...step, ...more })).toBe(verdict);
});
