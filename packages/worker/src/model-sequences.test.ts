import type { ModelSignature } from '@nereid/config';
import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { createModelSequences } from './model-sequences.ts';
import type { Step, StepEnd } from './session-slots.ts';

const LIMITS = { sequence_answers_max: 16, sequence_answers_waited_max: 64, sequence_answer_bytes_max: 1_000 };
const SIGNATURE = { sequence: { iterative: false }, decoupled: false } as unknown as ModelSignature;
const WITHOUT = { ...SIGNATURE, sequence: undefined } as ModelSignature;
const APPLIED: StepEnd = { type: 'applied', ends: false, answer: undefined };

function sequences() {
  const told: string[] = [];
  const sequences = createModelSequences('m', virtualClock(), LIMITS, (fate) => {
    told.push(['a:1', 'a:2'].map((session) => fate(session) ?? 'unknown').join(' '));
  });
  sequences.hold('1', SIGNATURE);
  const run = (g: number, session: string, slot: number, end: StepEnd = APPLIED) => {
    const order = { bind: { epoch: 1, n: g }, g, low: 1, prev: 0, number: -1 };
    const start = session === `a:${g}`;
    const step: Step = { id: `a:${g}`, sender: 'a', session, correlationId: 5n, start, instance: 0, slot, order };
    sequences.of('1')?.slots.take(step, { whole: true, admits: true }, 0);
    sequences.of('1')?.slots.over(step, end, 0);
    sequences.review();
  };
  run(1, 'a:1', 0);
  run(2, 'a:2', 1);
  return { sequences, told, run };
}

test('a batch that ends no session is no reason to look through all of them', () => {
  const { told, run } = sequences();
  run(3, 'a:1', 0);
  expect(told).toEqual([]);
});

test.each<[string, (parts: ReturnType<typeof sequences>) => void, string]>([
  ['its last step', ({ run }) => run(3, 'a:1', 0, { ...APPLIED, ends: true } as StepEnd), 'ended live'],
  ['a step that its carrier died of', ({ run }) => run(3, 'a:1', 0, { type: 'lost' }), 'lost live'],
  ['another that has its slot', ({ run }) => run(4, 'a:4', 0), 'ended live'],
  ['its owner', ({ sequences: all }) => all.free('a:1'), 'ended live'],
  ['its instance', ({ sequences: all }) => all.lost('1'), 'lost lost'],
  ['a worker that goes on under another id', ({ sequences: all }) => all.drop(), 'unknown unknown'],
])('what is over by %s is told of, once', (_, ends, fates) => {
  const parts = sequences();
  ends(parts);
  parts.sequences.review();
  expect(parts.told).toEqual([fates]);
});

test('so is a version that keeps no sequences any more', () => {
  const { sequences: all, told } = sequences();
  all.hold('1', WITHOUT);
  all.review();
  all.review();
  expect(told).toEqual(['unknown unknown']);
});
