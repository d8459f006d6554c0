import type { ProcessId } from './message.ts';

/** Whom a request's answers are for in the end: ids of requests are `{process}:{number}` (docs/protocol.md, section 2). */
export function senderOf(requestId: string): ProcessId {
  return requestId.slice(0, requestId.lastIndexOf(':'));
}

/**
 * Begins the ids of steps that are jobs: `jobs/{model}:{number}`. They belong to the job, not to the owner that takes
 * it, so that whoever runs it again names the same step. No process id begins so.
 */
export const JOB_STEPS = 'jobs/';

/** Whether an answer to the request is for that process; those to jobs' steps are for the owner that they come to. */
export function isAnswerFor(requestId: string, process: ProcessId): boolean {
  return senderOf(requestId) === process || requestId.startsWith(JOB_STEPS);
}
