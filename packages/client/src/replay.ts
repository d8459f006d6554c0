/** Recordings that a server runs again. */
import { toBase64 } from './base64.ts';
import { answerFailure, NereidError } from './error.ts';
import type { CallOptions, Http } from './http.ts';
import { tensorsOf } from './infer.ts';
import { isObject, jsonText, objectOf, parseJson } from './json.ts';
import { type TensorInput, tensorBytes } from './tensor.ts';
import { textLines } from './text-lines.ts';

/** How far values of floating point may be apart: |recorded - replayed| <= atol + rtol * |recorded|. Bit for bit without both. */
export interface Tolerance {
  readonly atol?: number;
  readonly rtol?: number;
}

export interface ReplayOptions extends CallOptions, Tolerance {
  /** The recorded one without it. */
  readonly version?: string;
  /** `flat`, the default: one step after the other. A number is a factor: 2 is twice as fast as recorded. */
  readonly pace?: 'flat' | 'recorded' | number;
  /** Compared from this step on; those before run flat, to make the state. */
  readonly from?: number;
  /** The first step that does not run. */
  readonly until?: number;
  /** Other inputs for one step. */
  readonly replace?: { readonly step: number; readonly inputs: Readonly<Record<string, TensorInput>> };
  /** Records the run, too. */
  readonly record?: boolean;
  /** Ends at the first step that differs. */
  readonly stopAtFirst?: boolean;
}

/** Where a replay differs from its recording (docs/replay-command.md). */
export interface Difference {
  readonly step: number;
  /** What differs: the number of `answers`, an `error`, an output that is `missing` or `extra`, its `datatype`, `shape`, `value` or `digest`. */
  readonly kind: string;
  /** Position of the answer, where the step has several. */
  readonly answer?: number;
  readonly output?: string;
  /** Of the first element that differs. */
  readonly index?: readonly number[];
  /** Of a value: the first that differs; a 64-bit integer, NaN, an infinity and -0 as text. */
  readonly recorded: unknown;
  readonly replayed: unknown;
  /** Elements that differ, of how many, and by how much at most. */
  readonly differing?: number;
  readonly elements?: number;
  readonly largest?: number | string;
}

export interface ReplayedStep {
  readonly step: number;
  readonly equal: boolean;
  readonly took_ms: number;
  readonly difference?: Difference;
}

export interface ReplayVerdict {
  readonly result: 'equal' | 'differs';
  /** Steps that ran, and those of them that were compared. */
  readonly steps: number;
  readonly compared: number;
  readonly first_difference?: Difference;
  /** Id of the recording of the run itself, with `record`. */
  readonly recording?: string;
  /** The model's configuration or files are not the recorded ones. */
  readonly config_changed?: boolean;
  /** The model was shown an id of the run's own, since a sequence with the recorded one goes on. */
  readonly own_id_shown?: boolean;
}

/** Yields each compared step when it has run, and returns the verdict. Throws where the recording could not be run to its end. */
export async function* replay(
  http: Http,
  path: string,
  options: ReplayOptions,
): AsyncGenerator<ReplayedStep, ReplayVerdict, void> {
  const { signal, timeoutMs, retry, ...wishes } = options;
  const call = { signal, timeoutMs, retry, method: 'POST', path, repeatable: 'if refused' } as const;
  const headers = { 'Content-Type': 'application/json' };
  const { body } = await http.open({ ...call, headers, body: replayBody(wishes) });
  try {
    for await (const text of textLines(body ?? new ReadableStream())) {
      const line = objectOf(parseJson(text), 'line of a replay');
      if (line.result === undefined) yield line as unknown as ReplayedStep;
      else if (line.result === 'failed')
        throw answerFailure(isObject(line.error) ? line.error : { message: line.error });
      else return line as unknown as ReplayVerdict;
    }
  } catch (thrown) {
    if (thrown instanceof NereidError || signal?.aborted === true) throw thrown;
    throw brokenOff(thrown);
  }
  throw brokenOff(undefined);
}

function replayBody({ stopAtFirst, replace, ...wishes }: Omit<ReplayOptions, keyof CallOptions>): string {
  const replaced = replace && { step: replace.step, inputs: tensorsOf(replace.inputs).map(replacedInput) };
  return jsonText({ ...wishes, stop_at_first: stopAtFirst, replace: replaced });
}

function replacedInput([name, tensor]: readonly [string, TensorInput]) {
  const { datatype, shape } = tensor;
  return { name, datatype, shape, b64: toBase64(tensorBytes(name, tensor)) };
}

function brokenOff(cause: unknown): NereidError {
  return new NereidError('UNAVAILABLE', 'the replay broke off', { reason: 'stream_broken', cause });
}
