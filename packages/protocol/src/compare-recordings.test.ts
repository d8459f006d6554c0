import { expect, test } from 'vitest';
import { compareRecordings } from './compare-recordings.ts';
import type { RecordedStep, StepEffect } from './recorded.ts';
import { tensorFromValues } from './tensor-values.ts';

/** A value for each step; a text for the effect of one that took none. */
async function* steps(left: () => void, ...values: (number | StepEffect)[]): AsyncGenerator<RecordedStep> {
  try {
    for (const [step, value] of values.entries()) {
      const effect = typeof value === 'number' ? 'applied' : value;
      const outputs = typeof value === 'number' ? [tensorFromValues('OUT', 'FP32', [1], [value])] : [];
      yield { step, effect, answers: [{ ok: true, parameters: {}, outputs }] } as unknown as RecordedStep;
    }
  } finally {
    left();
  }
}

test.each<[string, (number | StepEffect)[], (number | StepEffect)[], number, object | undefined]>([
  ['equal', [1, 2], [1, 2], 2, undefined],
  ['within the tolerance', [1, 2], [1, 2.05], 2, undefined],
  ['different', [1, 2, 3], [1, 4, 5], 2, { step: 1, kind: 'value', recorded: 2, replayed: 4 }],
  ['equal but for steps that took no effect', [1, 2, 'lost'], [1, 'cancelled', 2], 2, undefined],
  ['shorter', [1], [1, 2, 3], 1, { step: 1, kind: 'steps', recorded: false, replayed: true }],
  ['longer', [1, 2, 3], [1], 1, { step: 1, kind: 'steps', recorded: true, replayed: false }],
  ['empty', [], ['lost'], 0, undefined],
])('recordings that are %s', async (_what, one, other, compared, difference) => {
  let left = 0;
  const leave = () => left++;
  const found = await compareRecordings(steps(leave, ...one), steps(leave, ...other), { atol: 0.1, rtol: 0 });
  expect(found.compared).toBe(compared);
  if (difference === undefined) expect(found.firstDifference).toBeUndefined();
  else expect(found.firstDifference).toMatchObject(difference);
  expect(left).toBe(2);
});

test('what one of them throws is thrown, and the other is left', async () => {
  let left = 0;
  async function* broken(): AsyncGenerator<RecordedStep> {
    yield* [];
    throw new Error('cut');
  }
  await expect(
    compareRecordings(
      steps(() => left++, 1, 2),
      broken(),
      'exact',
    ),
  ).rejects.toThrow('cut');
  expect(left).toBe(1);
});
