import { NereidError } from './error.ts';
import type { CallOptions } from './http.ts';
import type { InferInput, InferResult, SequenceInput } from './infer.ts';
import { randomId } from './random-id.ts';

/** A step of a sequence: a request without what makes it one. */
export type StepInput = Omit<InferInput, 'model' | 'version' | 'sequence' | 'journal'>;

export interface SequenceOptions {
  readonly model: string;
  readonly version?: string;
  /** A new one without it. It must never have been used before. */
  readonly id?: string | number | bigint;
  /** Whether it is recorded (docs/replay.md); as the model's config says without it. */
  readonly journal?: boolean;
}

/**
 * A sequence of a model. Its steps are numbered, so each takes effect once and in order whatever is repeated
 * (docs/sequences.md), as long as the worker lives that has the sequence. Steps may be asked for without waiting;
 * each is sent once the one before it is answered.
 *
 * An error of a step leaves the sequence as it was, and the next may follow. After one whose outcome nobody knows, or
 * which ends the sequence, all that follow fail.
 */
export interface Sequence {
  readonly id: string | number | bigint;
  step(input: StepInput, options?: CallOptions): Promise<InferResult>;
  /** The last step. */
  end(input: StepInput, options?: CallOptions): Promise<InferResult>;
}

/** After these the sequence may be over, or the step may have taken effect. */
const CLOSING_CODES: ReadonlySet<string> = new Set(['UNAVAILABLE', 'CANCELLED']);
const CLOSING_REASONS: ReadonlySet<string | undefined> = new Set(['sequence_lost', 'answer_expired']);
/** The server's texts where a step came before its turn (R22), and where no step came before it. */
const DUE = /waits for nereid_step (\d+)/;
const NEEDS_START = /must specify the START flag/;

export function createSequence(
  infer: (input: InferInput, options: CallOptions) => Promise<InferResult>,
  { model, version, id = randomId(), journal }: SequenceOptions,
): Sequence {
  /** The number of the next step. */
  let next = 0;
  /** Whether the step before failed: it may have been refused at the door, and then its number is still due. */
  let unsure = false;
  let closed: NereidError | undefined;
  let last: Promise<unknown> = Promise.resolve();

  const send = (input: StepInput, options: CallOptions, step: number, end: boolean) => {
    const sequence: SequenceInput = { id, step, start: step === 0, end };
    // Decided with the first step.
    const recorded = step !== 0 || journal === undefined ? {} : { journal };
    return infer({ ...input, ...recorded, model, ...(version === undefined ? {} : { version }), sequence }, options);
  };

  const take = async (input: StepInput, options: CallOptions, end: boolean): Promise<InferResult> => {
    if (closed !== undefined) throw closed;
    try {
      const result = await sendDue(input, options, end);
      unsure = false;
      next++;
      if (end) closed = over(id, 'it has ended');
      return result;
    } catch (thrown) {
      if (isAnswer(thrown)) {
        unsure = true;
        next++;
      } else {
        closed = over(id, `what became of step ${next} is not known, or it ended the sequence`, thrown);
      }
      throw thrown;
    }
  };

  /**
   * Sends the step under the next number, and under the one before it where the server says that this is due: never
   * the other way round, since a number that was done is answered by its old answer.
   */
  const sendDue = async (input: StepInput, options: CallOptions, end: boolean): Promise<InferResult> => {
    if (!unsure) return send(input, options, next, end);
    try {
      return await send(input, options, next, end);
    } catch (thrown) {
      if (!(thrown instanceof NereidError) || dueNumber(thrown) !== next - 1) throw thrown;
      next--;
      return send(input, options, next, end);
    }
  };

  const dueNumber = ({ message, reason }: NereidError): number | undefined => {
    if (reason === 'step_gap') return Number(DUE.exec(message)?.[1]);
    // No step took effect: there is no sequence, or it has lost nothing, and may begin again.
    return next === 1 && NEEDS_START.test(message) ? 0 : undefined;
  };

  const chained = (input: StepInput, options: CallOptions, end: boolean): Promise<InferResult> => {
    const result = last.then(() => take(input, options, end));
    last = result.catch(() => {});
    return result;
  };
  return {
    id,
    step: (input, options = {}) => chained(input, options, false),
    end: (input, options = {}) => chained(input, options, true),
  };
}

/** Whether the server has told what became of the step. What is refused before it is sent counts as refused. */
function isAnswer(thrown: unknown): boolean {
  if (!(thrown instanceof NereidError)) return false;
  return !CLOSING_CODES.has(thrown.code) && !CLOSING_REASONS.has(thrown.reason);
}

function over(id: string | number | bigint, why: string, cause?: unknown): NereidError {
  const message = `sequence ${id} is over: ${why}; begin another`;
  return new NereidError('INVALID_ARG', message, { reason: 'sequence_closed', cause });
}
