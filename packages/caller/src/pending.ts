import type {
  BatchTiming,
  CarriedOutcome,
  InferMessage,
  MissingMessage,
  NotedEvent,
  ProcessId,
} from '@nereid/protocol';
import type { CallMark } from './call-notes.ts';
import type { LeaveSignal } from './leave-signal.ts';
import type { SequenceStep } from './sequence-steps.ts';
import type { WaitingStream } from './streams.ts';

/** A request that somebody waits for, or a numbered step, which waits for its outcome also when its caller has left. */
export interface PendingRequest {
  /** As last sent, body and all, so that it can be sent again. Its `sends` is 0 until it has met an owner. */
  message: InferMessage;
  /** Takes the final outcome; of a stream, its last answer. */
  readonly resolve: (outcome: CarriedOutcome) => void;
  /** Undefined where one answer is waited for. */
  readonly stream: WaitingStream | undefined;
  /** Undefined where it is no step of a sequence. */
  readonly step: SequenceStep | undefined;
  /** When it came, microseconds of the gateway's clock. */
  readonly arrivedUs: number;
  /** What its door keeps of it, if it came by one. */
  readonly mark: CallMark | undefined;
  /** For whoever asks what became of it. */
  events: NotedEvent[] | undefined;
  /** Told of the outcome once it is handed out; undefined where nothing hangs on it. */
  readonly settled: ((outcome: CarriedOutcome) => void) | undefined;
  /** See CallOptions. */
  readonly timed: ((timing: BatchTiming) => void) | undefined;
  /** See CallOptions. */
  readonly missing: ((message: MissingMessage) => boolean) | undefined;
  /** The caller's signal and our listener on it, taken off at the outcome. */
  readonly signal: LeaveSignal | undefined;
  readonly onAbort: (() => void) | undefined;
  /** When its caller gives up, by the gateway's clock; undefined for never. */
  readonly deadlineUs: number | undefined;
  /** When it was last sent, microseconds of the gateway's clock. */
  sentUs: number;
  /** How long after that it is sent once more. */
  resendMs: number;
  /** Sent on at once, on the word of whoever refused it, since the owner last changed. */
  redirects: number;
  /** Sent again because tensors, its own or of its answer, were gone when they were to be read. */
  tensorLosses: number;
  /** Its inputs are being put where every worker finds them; it is sent again then. */
  relocating: boolean;
  /** The last send came back, or there was no owner to send it to. */
  returned: boolean;
  /** Since when nobody is known to have it; undefined while an owner may. */
  strandedUs: number | undefined;
}

/**
 * Token → waiter, for all requests of one gateway.
 *
 * A request is *waiting* from `add` until the first `settle` of its id, then gone. Whoever settles
 * first (an answer, a refusal, the caller who left, the gateway's own end) decides its one outcome;
 * late and duplicate answers find nobody and are dropped.
 */
export interface Pending {
  /** Smallest g without a final outcome (told in each message: workers forget answers below it). */
  readonly low: number;
  readonly size: number;
  /** True at the bound: the next request is to be refused. */
  readonly full: boolean;
  /** The next request's number and token `{gateway id}:{g}`; call only where `add` follows. */
  next(): { readonly g: number; readonly id: string };
  add(request: PendingRequest): void;
  /** The waiter of that token, unless it is settled or of another gateway. */
  find(id: string): PendingRequest | undefined;
  /** All that wait, in the order of g. */
  inOrder(): Iterable<PendingRequest>;
  /** Hands the outcome to the waiter; false where nobody waits (any more). */
  settle(id: string, outcome: CarriedOutcome): boolean;
  settleAll(outcome: CarriedOutcome): void;
  /** Calls back once, when nothing waits any more. */
  whenEmpty(callback: () => void): void;
}

/** `settled` is told of each request when it has its outcome, before its waiter is. */
export function createPending(
  gateway: ProcessId,
  requests_max: number,
  settled: (request: PendingRequest, outcome: CarriedOutcome) => void = () => {},
): Pending {
  const prefix = `${gateway}:`;
  // Added in the order of g and never replaced, so its own order is that of g.
  const waiting = new Map<number, PendingRequest>();
  let nextG = 1;
  let low = 1;
  let empty: (() => void) | undefined;

  const find = (id: string) => (id.startsWith(prefix) ? waiting.get(Number(id.slice(prefix.length))) : undefined);

  const settle = (id: string, outcome: CarriedOutcome) => {
    const request = find(id);
    if (request === undefined) return false;
    waiting.delete(request.message.g);
    // Each g is passed once, so this is constant on average.
    while (low < nextG && !waiting.has(low)) low++;
    if (request.onAbort !== undefined) request.signal?.removeEventListener('abort', request.onAbort);
    settled(request, outcome);
    request.resolve(outcome);
    request.settled?.(outcome);
    if (waiting.size === 0) announceEmpty();
    return true;
  };

  const announceEmpty = () => {
    const callback = empty;
    empty = undefined;
    callback?.();
  };

  return {
    get low() {
      return low;
    },
    get size() {
      return waiting.size;
    },
    get full() {
      return waiting.size >= requests_max;
    },
    next() {
      const g = nextG++;
      return { g, id: prefix + g };
    },
    add(request) {
      waiting.set(request.message.g, request);
    },
    find,
    inOrder: () => waiting.values(),
    settle,
    settleAll(outcome) {
      for (const request of [...waiting.values()]) settle(request.message.id, outcome);
    },
    whenEmpty(callback) {
      empty = callback;
      if (waiting.size === 0) announceEmpty();
    },
  };
}
