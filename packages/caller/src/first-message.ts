import type { CarriedRequest, Epoch, InferMessage, ProcessId } from '@nereid/protocol';
import type { Pending } from './pending.ts';

/** Of a request that has met no owner; lower than every epoch given out. */
const NO_EPOCH: Epoch = { number: 0, owner: '' };

/** What a request says when it is sent for the first time; `epoch` of its model's owner, if there is one. */
export function firstMessage(
  request: CarriedRequest,
  epoch: Epoch | undefined,
  replyTo: ProcessId,
  pending: Pending,
  msLeft: number,
): InferMessage {
  const { g, id } = pending.next();
  return {
    kind: 'infer',
    model: request.modelName,
    epoch: epoch ?? NO_EPOCH,
    id,
    g,
    low: pending.low,
    // Of a step of a sequence, its chain says the next three.
    prev: 0,
    session: null,
    step: request.sequenceStep ?? -1,
    sends: epoch === undefined ? 0 : 1,
    msLeft,
    replyTo,
    request,
  };
}
