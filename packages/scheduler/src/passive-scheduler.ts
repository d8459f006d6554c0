import type { ErrorInfo } from '@nereid/protocol';
import type { Decision, QueuedRequest, Scheduler } from './schedule.ts';

/** No decisions. */
const NONE: readonly [] = [];

/**
 * Of a model whose instances are all passive, which never run anything: each request is refused at once rather than
 * kept for ever (Triton 2.51 ends at the first of them).
 */
export function createPassiveScheduler<R extends QueuedRequest = QueuedRequest>(model: string): Scheduler<R> {
  const error: ErrorInfo = {
    code: 'UNSUPPORTED',
    message: `model '${model}' has passive instances only, which run no requests: give it an instance_group without 'passive'`,
    field: 'passive',
  };
  return {
    waiting: 0,
    step(event): readonly Decision<R>[] {
      return event.type === 'arrived' ? [{ type: 'reject', request: event.request, error }] : NONE;
    },
  };
}
