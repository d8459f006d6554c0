import { LIMITS } from '@nereid/config';
import type { CarriedTensor, ErrorInfo, InferMessage, ProcessId, ResponseMessage } from '@nereid/protocol';
import { createReleaseOrder, type OrderedAnswer } from '@nereid/scheduler';
import { type LargeTensors, messageBytes } from '@nereid/transport';
import type { PassOn } from './pass-on.ts';
import { refusedAnswer } from './refused-answer.ts';

export interface AnswerOrderParts {
  readonly owner: ProcessId;
  readonly passOn: PassOn;
  /** Undefined where messages are passed by reference. */
  readonly largeTensors: Pick<LargeTensors, 'keep' | 'letGo'> | undefined;
  readonly limits?: AnswerOrderLimits;
}

export interface AnswerOrderLimits {
  readonly answers_max: number;
  readonly bytes_max: number;
}

/** What a version's queue tells its order of answers, and asks of it; the rule is scheduler/release-order. */
export interface AnswerOrder {
  /** Whose mailbox the answers are to come to. */
  readonly owner: ProcessId;
  /** Called when so much is no longer held that nothing more could be sent, and when a stream is to be cancelled. */
  listen(listener: AnswerOrderListener): void;
  sent(id: string): void;
  waitsAgain(id: string): void;
  /** An answer has come; false where it is to wait for nobody. */
  take(message: ResponseMessage): boolean;
  /** Answers in place of a worker; false where it is to wait for nobody. */
  refuse(message: InferMessage, error: ErrorInfo): boolean;
  ended(id: string): void;
  /** Nobody waits for its answer. */
  dropped(id: string): void;
  /** It is over, and its answer waits here. */
  keeps(id: string): boolean;
  /** No more batches are to be sent. */
  readonly full: boolean;
  /** Forgets all, answers too. */
  clear(): void;
}

export interface AnswerOrderListener {
  readonly room: () => void;
  /** The rest of its stream is for nobody. */
  readonly cancel: (id: string) => void;
}

interface HeldAnswer extends OrderedAnswer {
  readonly message: ResponseMessage;
}

const LIMITS_OF_ORDER: AnswerOrderLimits = {
  answers_max: LIMITS.ordered_answers_held_max,
  bytes_max: LIMITS.ordered_bytes_held_max,
};

/**
 * Passes the answers of one model version on in the order in which their requests were sent out
 * (preserve_ordering). Workers answer the owner; what must wait for an earlier request is held here,
 * its large tensors by reference, which are kept from running out meanwhile.
 *
 * What is held is bounded: at a limit no more batches are sent, unless the request that all wait for
 * has itself to be sent again. A stream, which goes on without being sent out, is ended there.
 */
export function createAnswerOrder(parts: AnswerOrderParts): AnswerOrder {
  const { owner, passOn, largeTensors, limits = LIMITS_OF_ORDER } = parts;
  let listener: AnswerOrderListener = { room: () => {}, cancel: () => {} };

  const order = createReleaseOrder<HeldAnswer>(({ message }) => largeTensors?.letGo(outputsOf(message)));

  const isAtLimit = () => order.answersHeld >= limits.answers_max || order.bytesHeld >= limits.bytes_max;
  const isFull = () => isAtLimit() && order.waitingAgain === 0;

  const step = (change: () => readonly HeldAnswer[]) => {
    const wasFull = isFull();
    for (const { message } of change()) {
      largeTensors?.letGo(outputsOf(message));
      passOn(message, () => leave(message.id));
    }
    if (wasFull && !isFull()) listener.room();
  };

  const leave = (id: string) => {
    listener.cancel(id);
    step(() => order.dropped(id));
  };

  const put = (message: ResponseMessage) => {
    const { id, execution, chunk, last } = message;
    if (!order.isFirst(id)) largeTensors?.keep(outputsOf(message));
    step(() => order.answered({ id, execution, chunk, last, bytes: messageBytes(message), message }));
  };

  return {
    owner,
    listen(heard) {
      listener = heard;
    },
    sent: order.sent,
    waitsAgain: (id) =>
      step(() => {
        order.waitsAgain(id);
        return [];
      }),
    take(message) {
      if (!order.has(message.id)) return false;
      const { id, last } = message;
      if (last || order.isFirst(id) || !isAtLimit()) {
        put(message);
        return true;
      }
      listener.cancel(id);
      // Begins anew, so what was held of it goes.
      put(refusedAnswer(owner, message, streamHeldUp(message.model)));
      return true;
    },
    refuse(message, error) {
      if (!order.has(message.id)) return false;
      put(refusedAnswer(owner, message, error));
      return true;
    },
    ended: (id) => step(() => order.ended(id)),
    dropped: (id) => step(() => order.dropped(id)),
    keeps: order.keeps,
    get full() {
      return isFull();
    },
    clear: order.clear,
  };
}

function outputsOf({ outcome }: ResponseMessage): readonly CarriedTensor[] {
  return outcome.ok ? outcome.response.outputs : [];
}

function streamHeldUp(model: string): ErrorInfo {
  const message = `the stream of model '${model}' was cancelled: too much of it and others waits for an earlier request (preserve_ordering)`;
  return { code: 'UNAVAILABLE', message, reason: 'stream_unread' };
}
