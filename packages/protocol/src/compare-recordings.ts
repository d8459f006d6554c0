/** Whether two recordings have the same answers, and where they first do not. */
import { compareStep, type StepDifference } from './compare-answers.ts';
import type { Tolerance } from './compare-elements.ts';
import type { RecordedStep } from './recorded.ts';

export interface ComparedRecordings {
  /** Steps that were compared, up to the first that differs. */
  readonly compared: number;
  /** Undefined where they are equal. */
  readonly firstDifference: StepDifference | undefined;
}

type Steps = AsyncIterable<RecordedStep>;

/**
 * Compares the steps that took effect, in their order. Where one has fewer, that is the difference. Rejects with what
 * the steps reject with; both are left in any case.
 */
export async function compareRecordings(
  recorded: Steps,
  replayed: Steps,
  tolerance: Tolerance,
): Promise<ComparedRecordings> {
  const [ones, others] = [applied(recorded), applied(replayed)];
  try {
    for (let compared = 0; ; compared++) {
      // One after the other: a step may be as large as a recording.
      const one = await ones.next();
      const other = await others.next();
      if (one.done === true && other.done === true) return { compared, firstDifference: undefined };
      if (one.done === true || other.done === true) {
        const step = (one.value ?? other.value)?.step ?? compared;
        const has = { recorded: one.done !== true, replayed: other.done !== true };
        return { compared, firstDifference: { step, kind: 'steps', ...has } };
      }
      const firstDifference = compareStep(one.value, other.value.answers, tolerance);
      if (firstDifference !== undefined) return { compared: compared + 1, firstDifference };
    }
  } finally {
    await Promise.all([ones.return(), others.return()]);
  }
}

async function* applied(steps: Steps): AsyncGenerator<RecordedStep, void, void> {
  for await (const step of steps) if (step.effect === 'applied') yield step;
}
