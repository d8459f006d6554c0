import { describe, expect, test } from 'vitest';
import { type KeptJob, problemOfUnknown, twice, verdictOf } from './job-verdicts.mjs';
import { LOAD_MODEL } from './load-model.mjs';
import type { EndedJob, EndedSequence, EndedStep } from './rounds.mjs';
import { sequenceProblems, stepMayFail, stepProblems } from './sequence-verdicts.mjs';

// What the fault runs call wrong: they must not pass what is.

const PID = 7;
const tensor = (name: string, value: number) => ({ name, datatype: 'INT32', shape: [1, 1], data: [value] });
const kept = (id: string, value: number, result = 2 * value + 1, pid = PID): [string, KeptJob] => [
  id,
  {
    id,
    data: { inputs: [tensor('VALUE', value)] },
    returnvalue: { outputs: [tensor('VALUE', result), tensor('PID', pid)] },
  },
];
const accepted = (more: Partial<EndedJob> = {}): EndedJob => ({
  by: 'http',
  kind: 'HTTP, json',
  model: LOAD_MODEL,
  id: 'a',
  value: 5,
  sentMs: 0,
  endedMs: 10,
  outcome: 'right',
  pid: PID,
  ...more,
});
const once = new Map([['a', 1]]);
const none = new Map();

describe('an accepted job', () => {
  test.each([
    [
      'with its right result, told once',
      accepted(),
      { completed: new Map([kept('a', 5)]), failed: none, ends: once },
      'completed',
    ],
    ['that is nowhere', accepted(), { completed: none, failed: none, ends: once }, 'missing'],
    [
      'that was told to be over twice',
      accepted(),
      { completed: new Map([kept('a', 5)]), failed: none, ends: new Map([['a', 2]]) },
      'doubled',
    ],
    [
      'of which no end was told',
      accepted(),
      { completed: new Map([kept('a', 5)]), failed: none, ends: none },
      'doubled',
    ],
    [
      'that keeps another result',
      accepted(),
      { completed: new Map([kept('a', 5, 12)]), failed: none, ends: once },
      'wrong',
    ],
    [
      'whose producer read another run',
      accepted({ pid: 8 }),
      { completed: new Map([kept('a', 5)]), failed: none, ends: once },
      'wrong',
    ],
    [
      'whose producer had no result',
      accepted({ outcome: 'lost' }),
      { completed: new Map([kept('a', 5)]), failed: none, ends: once },
      'wrong',
    ],
    [
      'that failed without a code',
      accepted(),
      { completed: none, failed: new Map([['a', { failedReason: 'no' }]]), ends: once },
      'wrong',
    ],
    [
      'that failed',
      accepted(),
      { completed: none, failed: new Map([['a', { failedReason: 'INTERNAL: no' }]]), ends: once },
      'failed',
    ],
  ] as const)('%s', (_, job, ended, end) => {
    const verdict = verdictOf(job, ended, () => false);
    expect(verdict.end).toBe(end);
    expect(verdict.problem === undefined).toBe(end === 'completed');
  });

  test('that may have failed is counted as lost, with nothing wrong', () => {
    const ended = { completed: none, failed: new Map([['a', { failedReason: 'INVALID_ARG: gone' }]]), ends: once };
    expect(verdictOf(accepted(), ended, () => true)).toEqual({ end: 'lost' });
  });

  test('over HTTP is there once, though it was sent twice', () => {
    const completed = new Map([kept('a', 5), kept('b', 5), kept('c', 6)]);
    expect(twice(LOAD_MODEL, [accepted()], { completed }).map(({ text }) => text)).toEqual([
      'value 5 is in 2 jobs (HTTP, json)',
    ]);
    expect(twice(LOAD_MODEL, [accepted({ by: 'producer' }), accepted({ id: 'c', value: 6 })], { completed })).toEqual(
      [],
    );
  });

  test('that nobody was told of is right too, and ended once', () => {
    const [, right] = kept('b', 5);
    const [, wrong] = kept('b', 5, 12);
    expect(problemOfUnknown(LOAD_MODEL, right, 1)).toBeUndefined();
    expect(problemOfUnknown(LOAD_MODEL, right, 2)).toMatch(/2 times/);
    expect(problemOfUnknown(LOAD_MODEL, wrong, 1)).toMatch(/wrong result/);
  });
});

describe('sequences', () => {
  const LOST = "INVALID_ARG: inference request for sequence s to model 'summed' must specify the START flag";
  const died = { kind: 'kill', role: 'worker', atMs: 50, deadPid: PID } as const;
  const step = (index: number, more: Partial<EndedStep> = {}): EndedStep => ({
    ...accepted({ id: `s-${index}`, endedMs: 60 }),
    sequence: 's',
    index,
    ...more,
  });
  const isLost = (
    reason: string,
    faults: readonly (typeof died)[],
    first: Partial<EndedStep> = {},
    { begunMs = 0, lapsed = [] as number[] } = {},
  ) => {
    const lost = step(1, { outcome: 'wrong', pid: undefined });
    return stepMayFail([{ begunMs, steps: [step(0, first), lost] }], faults, lapsed)(lost, reason);
  };

  test.each([
    ['its worker died', isLost(LOST, [died]), true],
    ['a worker died before it was heard of', isLost(LOST, [died], { pid: undefined }), true],
    ['its worker was cut off', isLost(LOST, [], {}, { lapsed: [PID] }), true],
    ['another worker was cut off', isLost(LOST, [], {}, { lapsed: [8] }), false],
    ['nobody died', isLost(LOST, []), false],
    ['another worker died', isLost(LOST, [{ ...died, deadPid: 8 as typeof PID }]), false],
    ['it began later', isLost(LOST, [died], {}, { begunMs: 55 }), false],
    ['it died after its end', isLost(LOST, [{ ...died, atMs: 70 as typeof died.atMs }]), false],
    ['it says something else', isLost('INTERNAL: no', [died]), false],
  ])('a step may fail where %s', (_, may, expected) => {
    expect(may).toBe(expected);
  });

  test('no step is right behind one that is not', () => {
    const right = [step(0), step(1)];
    expect(stepProblems([{ begunMs: 0, steps: right }])).toEqual([]);
    expect(stepProblems([{ begunMs: 0, steps: [step(0), step(1, { outcome: 'wrong' })] }])).toEqual([]);
    expect(stepProblems([{ begunMs: 0, steps: [step(0, { outcome: 'wrong' }), step(1)] }])).toEqual([
      'step 1 of sequence s is right though step 0 is not',
    ]);
  });

  test('of requests end right, or lost with their worker', () => {
    const sequence = { id: 's', begunMs: 0, endedMs: 60, steps: 2, pid: PID };
    const ended = (outcome: EndedSequence['outcome']) => [{ ...sequence, outcome }];
    expect(sequenceProblems(ended('right'), [], [])).toEqual([]);
    expect(sequenceProblems(ended('lost'), [died], [])).toEqual([]);
    expect(sequenceProblems(ended('lost'), [], [PID])).toEqual([]);
    for (const [outcome, faults] of [
      ['lost', []],
      ['wrong', [died]],
      ['broken', [died]],
      ['refused', []],
    ] as const) {
      expect(sequenceProblems(ended(outcome), faults, [])).toHaveLength(1);
    }
  });
});
