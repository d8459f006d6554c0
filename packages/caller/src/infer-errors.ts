/** Why a caller fails a request by itself, or sends it again. */
import { compareEpochs, type Epoch, type ErrorInfo, type Outcome } from '@nereid/protocol';

/** Of a request whose caller has left. */
export const GAVE_UP: Outcome = { ok: false, error: { code: 'CANCELLED', message: 'the caller gave up' } };

export function ownerless(model: string): ErrorInfo {
  return { code: 'UNAVAILABLE', message: `no coordinator owns model '${model}' now; try again in a few seconds` };
}

export function tensorsGone(model: string): ErrorInfo {
  const message = `large tensors of a request to model '${model}' were lost on their way; try again, and see whether Redis evicts keys`;
  return { code: 'UNAVAILABLE', message };
}

/** The bytes were with a worker alone. */
export function tensorLost(model: string): ErrorInfo {
  const message = `a tensor for model '${model}' was lost with the worker that kept it; try again`;
  return { code: 'UNAVAILABLE', message, reason: 'tensor_lost' };
}

export function decoupled(model: string): ErrorInfo {
  const message = `model '${model}' is decoupled: it may answer any number of times, infer waits for one answer`;
  return { code: 'UNSUPPORTED', message };
}

/** Why a request is sent once more. */
export function sentWhy(before: Epoch, now: Epoch): string {
  if (before.owner === '') return `its model has an owner now: sent to ${now.owner}`;
  if (compareEpochs(before, now) === 0) return `sent to ${now.owner} again`;
  return `sent to ${now.owner}, which owns the model now in place of ${before.owner}`;
}
