/**
 * What becomes of a batch whose thread or process died while it ran. Any of its requests may be what
 * killed it, so each runs once more by itself: the innocent get their answers, and one that kills
 * again is refused as POISONED. Not run again are those that are cancelled, those that have begun to
 * answer (a stream is of one execution), and one whose execution was ended for its time while it ran
 * alone, since it is known to be late.
 */
import { CANCELLED, type ErrorInfo, type InferRequest, type ResponseTimes } from '@nereid/protocol';
import { EXECUTION_TIMEOUT } from './carrier.ts';
import type { BatchSettlement, InstanceBatch } from './instance-batch.ts';
import type { RunOutcome } from './instance-messages.ts';
import { sumResponseTimes } from './response-times.ts';
import { sharedNowNs } from './shared-now.ts';

/**
 * The requests to run again, each a batch of its own, in order. The lost batch is settled once all of
 * them are, which is at once where there are none.
 */
export function retriesOf(lost: InstanceBatch, why: ErrorInfo): readonly InstanceBatch[] {
  const outcomes: RunOutcome[] = [];
  const retries = new Map<number, InstanceBatch>();
  const died = new Set<number>();
  const times = { inputNs: 0, inferNs: 0, outputNs: 0 };
  let responses: ResponseTimes | undefined;
  let left = 0;

  const settleLost = () => {
    // What was lost counts as waiting.
    const waitNs = sharedNowNs() - lost.receivedNs - times.inputNs - times.inferNs - times.outputNs;
    lost.settle({ executed: true, timing: { waitNs, ...times }, outcomes, responses, died });
  };

  const over = (position: number, settlement: BatchSettlement) => {
    const { timing } = settlement;
    outcomes[position] = settlement.outcomes[0] ?? { ok: false, error: why };
    if (settlement.died?.has(0) === true) died.add(position);
    times.inputNs += timing.inputNs;
    times.inferNs += timing.inferNs;
    times.outputNs += timing.outputNs;
    if (settlement.responses !== undefined) {
      responses = sumResponseTimes(responses, settlement.responses);
    }
    left--;
    if (left === 0) settleLost();
  };

  for (const [position, request] of lost.requests.entries()) {
    const error = finalError(lost, position, why);
    if (error === undefined) retries.set(position, retryOf(lost, position, request, over));
    else {
      outcomes[position] = { ok: false, error };
      if (error !== CANCELLED) died.add(position);
    }
  }
  left = retries.size;
  lost.retries = retries;
  if (left === 0) settleLost();
  return [...retries.values()];
}

/** Why a request of a lost batch is not run again; undefined where it is. */
function finalError(lost: InstanceBatch, position: number, why: ErrorInfo): ErrorInfo | undefined {
  if (lost.cancelled?.has(position) === true) return CANCELLED;
  if (lost.begun?.has(position) === true) return why;
  if (why.reason === EXECUTION_TIMEOUT) return lost.requests.length === 1 ? why : undefined;
  if (lost.isRetry !== true) return undefined;
  return { code: 'POISONED', message: `the request is refused: ${why.message}, a second time with this request in it` };
}

function retryOf(
  lost: InstanceBatch,
  position: number,
  request: InferRequest,
  over: (position: number, settlement: BatchSettlement) => void,
): InstanceBatch {
  const { chunk } = lost;
  return {
    batch: lost.batch,
    requests: [request],
    ids: [lost.ids?.[position] ?? ''],
    receivedNs: sharedNowNs(),
    cancelled: undefined,
    isRetry: true,
    ...(chunk === undefined ? {} : { chunk: (one) => chunk({ ...one, position }) }),
    settle: (settlement) => over(position, settlement),
  };
}
