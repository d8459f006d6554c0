import type { CarriedOutcome, MissingMessage } from '@nereid/protocol';
import type { LargeTensors } from '@nereid/transport';
import type { HeldTensors } from './held-tensors.ts';
import { tensorLost, tensorsGone } from './infer-errors.ts';
import type { Pending, PendingRequest } from './pending.ts';
import { hasBegun } from './streams.ts';

/** A request whose tensors are lost more often fails: something takes them away. */
const TENSOR_LOSSES_MAX = 4;

export interface LostTensorsParts {
  readonly pending: Pending;
  /** Undefined where messages are passed by reference. */
  readonly largeTensors: LargeTensors | undefined;
  readonly held: HeldTensors | undefined;
  readonly sendAgain: (request: PendingRequest) => void;
}

/** What becomes of requests whose large tensors, or those of their answers, were not found (docs/protocol.md R29, R40). */
export interface LostTensors {
  /** Its answer's were gone: it is sent again, so many times. */
  ofAnswer(request: PendingRequest): void;
  /** A worker did not find its own: they are put where all look, and it is sent again. */
  missing(message: MissingMessage): void;
  /** An answer that nobody gets: what it names is of no use. */
  unwanted(outcome: CarriedOutcome): void;
}

export function createLostTensors({ pending, largeTensors, held, sendAgain }: LostTensorsParts): LostTensors {
  const ofAnswer = (request: PendingRequest) => {
    const { id, model } = request.message;
    if (++request.tensorLosses <= TENSOR_LOSSES_MAX) sendAgain(request);
    else pending.settle(id, { ok: false, error: tensorsGone(model) });
  };

  /** Until it has the new names of its inputs, no copy of it is sent. */
  const relocate = async (request: PendingRequest, finding: ReturnType<HeldTensors['elsewhere']>) => {
    request.relocating = true;
    const inputs = await finding;
    request.relocating = false;
    const { message } = request;
    if (pending.find(message.id) !== request) return;
    if (inputs === undefined) {
      pending.settle(message.id, { ok: false, error: tensorLost(message.model) });
      return;
    }
    request.message = { ...message, request: { ...message.request, inputs } };
    ofAnswer(request);
  };

  return {
    ofAnswer,
    missing(message) {
      const request = pending.find(message.id);
      if (request === undefined || hasBegun(request) || request.relocating) return;
      const { inputs } = request.message.request;
      // What a worker keeps was seen to before: it is another one that is not found.
      const isOther = request.tensorLosses > 0 && held?.hasOthers(inputs) === true;
      if (isOther && request.missing?.(message) === true) return;
      const finding = held?.elsewhere(message.model, inputs);
      if (finding !== undefined) {
        void relocate(request, finding);
        return;
      }
      if (request.missing?.(message) === true) return;
      largeTensors?.rewrite(inputs);
      ofAnswer(request);
    },
    unwanted(outcome) {
      if (outcome.ok) held?.release(outcome.response.outputs);
    },
  };
}

/** The first value goes to one, all others to another. */
export function firstTo<T>(one: (value: T) => void, other: (value: T) => void): (value: T) => void {
  let isOver = false;
  return (value) => {
    if (isOver) other(value);
    else one(value);
    isOver = true;
  };
}
