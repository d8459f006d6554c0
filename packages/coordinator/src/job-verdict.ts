import { ANSWER_REFUSED, type ErrorCode, type ErrorInfo, noVersions, QUEUE_TIMEOUT } from '@nereid/protocol';
import { INSTANCE_LOST } from './request-error.ts';

/**
 * What a failure means for a job. `final`: nothing would change. `retry`: as its attempts say. `later`:
 * it could not run now, through no fault of its own, which costs no attempt.
 */
export type JobVerdict = 'final' | 'retry' | 'later';

/** A client's mistakes. */
const FINAL: ReadonlySet<ErrorCode> = new Set([
  'INVALID_ARG',
  'NOT_FOUND',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
  'POISONED',
]);

export function jobVerdict({ code, message, reason }: ErrorInfo, model: string, late: boolean): JobVerdict {
  // Texts may stand behind a request id.
  if (message.endsWith(noVersions(model).message)) return 'later';
  if (FINAL.has(code)) return 'final';
  if (message.endsWith(QUEUE_TIMEOUT.message)) return late ? 'final' : 'retry';
  if (code !== 'UNAVAILABLE' || message.endsWith(INSTANCE_LOST.message)) return 'retry';
  // Both have run; one may be too large each time, the other too fast.
  if (reason === 'stream_broken' || message.endsWith(ANSWER_REFUSED.message)) return 'retry';
  return 'later';
}
