import { type CarriedOutcome, type CarriedTensor, isBlobTensor, type Outcome, type Tensor } from '@nereid/protocol';
import type { BytesInFlight } from './bytes-in-flight.ts';

/** One of the answers to a request that may get several. */
export interface StreamedAnswer<T extends CarriedTensor = Tensor> {
  /** A failure that is not `last` is an answer like any other: more may follow it. */
  readonly outcome: Outcome<T>;
  /** Nothing follows. A success without outputs is the end alone (Triton's empty final response). */
  readonly last: boolean;
}

/** Bounds of what waits unread in one stream. */
export interface StreamLimits {
  readonly stream_unread_chunks_max: number;
  /** Of outputs; the answer that passes it is still taken. */
  readonly stream_unread_bytes_max: number;
}

/** What a stream may leave unread while the gateway holds as much as it may; its own bound counts otherwise. */
const UNREAD_BYTES_WHILE_FULL_MAX = 1_048_576;

/**
 * Answers on their way to whoever iterates. It is *open* until `end`, whose answer is the last, then
 * *ended*; *left* once its reader has returned early. What is unread at the end can still be read.
 */
export interface AnswerQueue extends AsyncIterableIterator<StreamedAnswer<CarriedTensor>> {
  /** False at its bound: the answer is not taken. */
  push(outcome: CarriedOutcome): boolean;
  /** Takes the last answer, also at the bound. Does nothing where one was taken. */
  end(outcome: CarriedOutcome): void;
}

/**
 * `left` is called when the reader returns before the end. What is unread counts in `inFlight`, if given;
 * the reader then must read to the end or return. `unwanted` gets the answers that the reader leaves unread.
 */
export function createAnswerQueue(
  limits: StreamLimits,
  left: () => void,
  inFlight?: BytesInFlight,
  unwanted: (outcome: CarriedOutcome) => void = () => {},
): AnswerQueue {
  let unread: StreamedAnswer<CarriedTensor>[] = [];
  let bytes = 0;
  let over = false;
  const readers: ((result: IteratorResult<StreamedAnswer<CarriedTensor>>) => void)[] = [];

  const hold = (more: number) => {
    bytes += more;
    inFlight?.add(more);
  };

  const letGo = (fewer: number) => {
    bytes -= fewer;
    inFlight?.release(fewer);
  };

  const isFull = () =>
    unread.length >= limits.stream_unread_chunks_max ||
    bytes >= limits.stream_unread_bytes_max ||
    (bytes >= UNREAD_BYTES_WHILE_FULL_MAX && inFlight?.full === true);

  const put = (answer: StreamedAnswer<CarriedTensor>) => {
    const reader = readers.shift();
    if (reader !== undefined) {
      reader({ done: false, value: answer });
      return;
    }
    unread.push(answer);
    hold(answerBytes(answer.outcome));
  };

  const dismiss = () => {
    for (const reader of readers.splice(0)) reader({ done: true, value: undefined });
  };

  return {
    push(outcome) {
      if (over) {
        unwanted(outcome);
        return true;
      }
      if (isFull()) return false;
      put({ outcome, last: false });
      return true;
    },
    end(outcome) {
      if (over) {
        unwanted(outcome);
        return;
      }
      over = true;
      put({ outcome, last: true });
      dismiss();
    },
    next() {
      const answer = unread.shift();
      if (answer !== undefined) {
        letGo(answerBytes(answer.outcome));
        return Promise.resolve({ done: false, value: answer });
      }
      if (over) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve) => readers.push(resolve));
    },
    return() {
      for (const { outcome } of unread) unwanted(outcome);
      unread = [];
      letGo(bytes);
      const early = !over;
      over = true;
      if (early) left();
      dismiss();
      return Promise.resolve({ done: true, value: undefined });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** Of those that are here. */
function answerBytes(outcome: CarriedOutcome): number {
  if (!outcome.ok) return 0;
  return outcome.response.outputs.reduce((sum, tensor) => sum + (isBlobTensor(tensor) ? 0 : tensor.data.byteLength), 0);
}
