/** Whether a step that ran again gave what was recorded of it, and where it first did not. */

import { type ElementsDifference, elementsDifference, type ShownValue, type Tolerance } from './compare-elements.ts';
import type { Datatype } from './datatype.ts';
import type { ErrorInfo } from './error.ts';
import type { Outcome } from './infer.ts';
import type { RecordedAnswer, RecordedStep, RecordedTensor } from './recorded.ts';
import { sha256 } from './sha256.ts';

/**
 * What differs. `answers`: their number. `error`: one of the two is an error, or both are and differ in code or text.
 * `missing`, `extra`: an output that only the recording has, or only the replay. `datatype`, `shape`, `value`: of an
 * output. `digest`: the SHA-256 of an output's data, of which one of the two has no more. `steps`: only one has the step.
 */
export type DifferenceKind =
  | 'answers'
  | 'error'
  | 'missing'
  | 'extra'
  | 'datatype'
  | 'shape'
  | 'value'
  | 'digest'
  | 'steps';

/** A difference as JSON can hold it. */
export interface StepDifference extends Partial<Omit<ElementsDifference, 'recorded' | 'replayed'>> {
  readonly step: number;
  readonly kind: DifferenceKind;
  /** Position of the answer, from 0; only where the step has several. */
  readonly answer?: number;
  /** Name of the output. */
  readonly output?: string;
  /** What each has: of a value the first that differs. Null for what one of them does not have. */
  readonly recorded: DifferenceValue;
  readonly replayed: DifferenceValue;
}

export type DifferenceValue =
  | ShownValue
  | null
  | readonly number[]
  | { readonly datatype: Datatype; readonly shape: readonly number[] }
  | Pick<ErrorInfo, 'code' | 'message'>;

/** An answer as it is recorded, or as a caller has it. */
export type ComparedAnswer = RecordedAnswer | Outcome;

type FoundDifference = Omit<StepDifference, 'step' | 'answer'>;

/**
 * The first difference between the answers of a recorded step and others; undefined where there is none. Outputs are
 * found by name, in the recording's order. Not compared: parameters, data of redacted outputs, and which effect a step had.
 */
export function compareStep(
  recorded: Pick<RecordedStep, 'step' | 'answers'>,
  replayed: readonly ComparedAnswer[],
  tolerance: Tolerance,
): StepDifference | undefined {
  const { step, answers } = recorded;
  const several = Math.max(answers.length, replayed.length) > 1;
  for (const [position, answer] of answers.entries()) {
    const other = replayed[position];
    const found = other === undefined ? undefined : answerDifference(answer, other, tolerance);
    if (found !== undefined) return { step, ...(several ? { answer: position } : {}), ...found };
  }
  if (answers.length === replayed.length) return undefined;
  return { step, kind: 'answers', recorded: answers.length, replayed: replayed.length };
}

function answerDifference(
  recorded: ComparedAnswer,
  replayed: ComparedAnswer,
  tolerance: Tolerance,
): FoundDifference | undefined {
  if (!recorded.ok || !replayed.ok) return errorDifference(recorded, replayed);
  const others = new Map(outputsOf(replayed).map((output) => [output.name, output]));
  for (const output of outputsOf(recorded)) {
    const other = others.get(output.name);
    others.delete(output.name);
    if (other === undefined)
      return { kind: 'missing', output: output.name, recorded: described(output), replayed: null };
    const found = outputDifference(output, other, tolerance);
    if (found !== undefined) return { output: output.name, ...found };
  }
  const [extra] = others.values();
  return extra === undefined
    ? undefined
    : { kind: 'extra', output: extra.name, recorded: null, replayed: described(extra) };
}

function errorDifference(recorded: ComparedAnswer, replayed: ComparedAnswer): FoundDifference | undefined {
  const [was, is] = [errorOf(recorded), errorOf(replayed)];
  return was?.code === is?.code && was?.message === is?.message
    ? undefined
    : { kind: 'error', recorded: was, replayed: is };
}

function errorOf(answer: ComparedAnswer): Pick<ErrorInfo, 'code' | 'message'> | null {
  return answer.ok ? null : { code: answer.error.code, message: answer.error.message };
}

function outputsOf(answer: Extract<ComparedAnswer, { ok: true }>): readonly RecordedTensor[] {
  return 'response' in answer ? answer.response.outputs : answer.outputs;
}

function described({ datatype, shape }: RecordedTensor): DifferenceValue {
  return { datatype, shape };
}

function outputDifference(
  recorded: RecordedTensor,
  replayed: RecordedTensor,
  tolerance: Tolerance,
): Omit<FoundDifference, 'output'> | undefined {
  if (recorded.redacted === true || replayed.redacted === true) return undefined;
  const { datatype, shape } = recorded;
  if (datatype !== replayed.datatype) {
    return { kind: 'datatype', recorded: datatype, replayed: replayed.datatype };
  }
  if (shape.length !== replayed.shape.length || shape.some((dimension, axis) => dimension !== replayed.shape[axis])) {
    return { kind: 'shape', recorded: shape, replayed: replayed.shape };
  }
  if (recorded.data === undefined || replayed.data === undefined) return digestDifference(recorded, replayed);
  const found = elementsDifference(datatype, shape, recorded.data, replayed.data, tolerance);
  return found === undefined ? undefined : { kind: 'value', ...found };
}

/** Of what has neither data nor digest nothing can be said. */
function digestDifference(
  recorded: RecordedTensor,
  replayed: RecordedTensor,
): Omit<FoundDifference, 'output'> | undefined {
  const [was, is] = [digestOf(recorded), digestOf(replayed)];
  return was === null || is === null || was === is ? undefined : { kind: 'digest', recorded: was, replayed: is };
}

function digestOf({ digest, data }: RecordedTensor): string | null {
  return digest ?? (data === undefined ? null : sha256(data));
}
