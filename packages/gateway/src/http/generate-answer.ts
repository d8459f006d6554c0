import type { StreamedAnswer } from '@nereid/caller';
import { type ErrorInfo, encodeGenerateResponse, errorInfo, type Outcome } from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import type { RequestBytes } from './request-bytes.ts';

/** How a generate request is answered; `fail` sends an error in place of an answer that has not begun. */
export interface GenerateReply {
  readonly reply: FastifyReply;
  /** What the request holds. */
  readonly account: RequestBytes;
  /** That the client has left. */
  readonly signal: AbortSignal;
  /** True once the server is stopping: answers then end their connection. */
  readonly closing: () => boolean;
  readonly fail: (error: ErrorInfo, status?: number) => void;
}

/** The text of one answer, and the error where it tells one. */
export interface GenerateAnswer {
  readonly json: Buffer;
  readonly error: ErrorInfo | undefined;
}

/** An answer as JSON; where the model failed, or its answer has no JSON form, `{"error": text}`. */
export function generateAnswer(outcome: Outcome): GenerateAnswer {
  if (!outcome.ok) return failed(outcome.error);
  try {
    return { json: encodeGenerateResponse(outcome.response), error: undefined };
  } catch (thrown) {
    return failed(errorInfo(thrown));
  }
}

function failed(error: ErrorInfo): GenerateAnswer {
  return { json: Buffer.from(JSON.stringify({ error: error.message })), error };
}

/** The end of a stream that comes alone, after its last answer. */
export function isEndAlone({ outcome, last }: StreamedAnswer): boolean {
  return last && outcome.ok && outcome.response.outputs.length === 0;
}

/**
 * An answer that says that there is none at the moment: nothing ran, or what ran is lost. It keeps its
 * 503, while every other error of a model is 400 here, as in Triton.
 */
export function isUnavailable(outcome: Outcome): outcome is Outcome & { readonly ok: false } {
  return !outcome.ok && outcome.error.code === 'UNAVAILABLE';
}

/** The status of an answer that is sent with it: errors are 400, whatever their code. */
export function answerStatus({ error }: Pick<GenerateAnswer, 'error'>): number {
  return error === undefined ? 200 : 400;
}
