/** When a request is sent, sent again or given up (docs/protocol.md R8): the rule, without effects. */
import { compareEpochs, type Epoch } from '@nereid/protocol';
import type { Timing } from '@nereid/transport';
import type { PendingRequest } from './pending.ts';

export interface ResendTimes {
  /** From one look at what waits to the next. */
  readonly sweep_ms: number;
  /** First wait before a request is sent again; doubled each time up to `resend_max_ms`. */
  readonly resend_ms: number;
  readonly resend_max_ms: number;
  /** How long a request may wait for somebody to take it. */
  readonly ownerless_wait_ms: number;
  /** How long a stream that has begun may be without a sign of its execution. */
  readonly stream_quiet_ms: number;
}

/** A dead owner's lease ends, and another takes it, in less than this many lease times. */
const OWNERLESS_LEASES = 2.5;

/** `lossless`: no message is ever lost on the way, so none is sent again for want of an answer. */
export function resendTimes(timing: Timing, lossless: boolean): ResendTimes {
  const { sweep_ms, resend_ms, resend_max_ms, lease_ms, stream_quiet_ms } = timing;
  return {
    sweep_ms,
    resend_ms: lossless ? Number.POSITIVE_INFINITY : resend_ms,
    resend_max_ms: lossless ? Number.POSITIVE_INFINITY : resend_max_ms,
    ownerless_wait_ms: lease_ms * OWNERLESS_LEASES,
    stream_quiet_ms: lossless ? Number.POSITIVE_INFINITY : stream_quiet_ms,
  };
}

export type ResendStep =
  | { readonly type: 'wait' }
  /** To this owner, under this epoch. */
  | { readonly type: 'send'; readonly epoch: Epoch; readonly resendMs: number }
  /** Nobody takes it; it waits for an owner. */
  | { readonly type: 'strand' }
  /** It has waited for one for too long. */
  | { readonly type: 'fail' };

/**
 * What to do with a request at a look. It is sent whenever the owner or the epoch differs in any way
 * from those it was sent under, also to a lower one, since the higher may have been forgotten with
 * the Redis that gave it; and under the same epoch once its wait is over, for an answer may be lost
 * with no change of owner.
 */
export function resendStep(
  request: Pick<PendingRequest, 'message' | 'sentUs' | 'resendMs' | 'returned' | 'strandedUs'>,
  owner: Epoch | undefined,
  nowUs: number,
  times: ResendTimes,
): ResendStep {
  const stranded = owner === undefined || request.returned;
  const strandedUs = stranded ? request.strandedUs : undefined;
  if (strandedUs !== undefined && nowUs - strandedUs >= times.ownerless_wait_ms * 1000) return { type: 'fail' };
  if (owner === undefined) return { type: 'strand' };
  if (compareEpochs(owner, request.message.epoch) !== 0) {
    return { type: 'send', epoch: owner, resendMs: times.resend_ms };
  }
  if (nowUs - request.sentUs < request.resendMs * 1000) return { type: 'wait' };
  return { type: 'send', epoch: owner, resendMs: Math.min(request.resendMs * 2, times.resend_max_ms) };
}

/** The `msLeft` of a message: whole milliseconds, 0 where there is no deadline. */
export function timeLeft(deadlineUs: number | undefined, nowUs: number): number {
  return deadlineUs === undefined ? 0 : Math.max(1, Math.ceil((deadlineUs - nowUs) / 1000));
}

/** The first belief that differs from the epoch that was refused. */
export function newerEpoch(refused: Epoch, beliefs: readonly (Epoch | undefined)[]): Epoch | undefined {
  return beliefs.find((belief) => belief !== undefined && compareEpochs(belief, refused) !== 0);
}
