/** The answers to a job of a decoupled model: the rule for what comes, and the forms in which the job tells them. */
import { type DecodedJob, type ErrorInfo, isWholeOutcome, type Outcome, type ResponseMessage } from '@nereid/protocol';
import { resultOf } from './job-request.ts';
import type { OwnedModel } from './owned-model.ts';

/** One answer of the run that the job is in. */
export interface StreamedAnswer {
  /** From 1; a run that begins anew begins there again. */
  readonly n: number;
  readonly outcome: Outcome;
}

export interface StreamStep {
  /** What is new. */
  readonly answer?: StreamedAnswer;
  /** How the job ends. */
  readonly end?: Outcome;
  /** It still runs, for nobody. */
  readonly isBroken?: boolean;
}

/**
 * How far a job's stream has come (docs/protocol.md R27). It *begins* with the first chunk of an execution and keeps to
 * that. Other than a client's stream it may begin anew, since a job is run again where a worker is lost: with the first
 * chunk of another execution. It *ends* with the chunk that is the last, or is *broken* where one is missing.
 */
export interface JobStream {
  take(message: ResponseMessage): StreamStep;
}

const NOTHING: StreamStep = {};

export function createJobStream(model: string): JobStream {
  let execution: string | undefined;
  let next = 0;
  let n = 0;
  let latest: Outcome | undefined;

  const broken = (why: string): StreamStep => ({ end: { ok: false, error: streamBroken(model, why) }, isBroken: true });

  return {
    take(message) {
      const { chunk, last, outcome } = message;
      if (message.execution !== execution) {
        if (chunk !== 0 && execution !== undefined) return NOTHING;
        execution = message.execution;
        next = 0;
        n = 0;
        latest = undefined;
      }
      if (chunk < next) return NOTHING;
      if (chunk > next) return broken('a part of it was lost');
      if (!isWholeOutcome(outcome)) return broken('the tensors of a part of it were lost');
      next++;
      if (last && !outcome.ok) return { end: outcome };
      // The end that comes alone is no answer; where it is all there is, it is the result.
      if (last && outcome.ok && outcome.response.outputs.length === 0) return { end: latest ?? outcome };
      n++;
      latest = outcome;
      return { answer: { n, outcome }, ...(last ? { end: outcome } : {}) };
    },
  };
}

/** What the job's progress then is: `{n, outputs}`, or `{n, error}`; and about how many bytes it takes. */
export function progressOf(
  { n, outcome }: StreamedAnswer,
  decoded: DecodedJob,
  model: OwnedModel,
): { readonly value: object; readonly bytes: number } {
  const result = outcome.ok ? resultOf(outcome, decoded, model) : outcome;
  if (!result.ok) {
    const { code, message } = result.error;
    return { value: { n, error: { code, message } }, bytes: message.length };
  }
  const { outputs, parameters } = result.value;
  const tensors = outcome.ok ? outcome.response.outputs : [];
  const bytes = tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
  return { value: { n, outputs, ...(parameters === undefined ? {} : { parameters }) }, bytes };
}

function streamBroken(model: string, why: string): ErrorInfo {
  const message = `the stream of model '${model}' broke off: ${why}`;
  return { code: 'UNAVAILABLE', message, reason: 'stream_broken' };
}

/** Redis is away for long, or slower than the model. */
export function streamUnwritten(model: string): ErrorInfo {
  const message = `the stream of model '${model}' was cancelled: its answers come faster than Redis takes them`;
  return { code: 'UNAVAILABLE', message, reason: 'stream_broken' };
}
