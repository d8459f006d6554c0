import type { ModelRecord } from '@nereid/config';
import {
  type ErrorInfo,
  type InferMessage,
  isRefused,
  isWholeOutcome,
  type ResponseMessage,
  type RunningMessage,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { AnswerQueue } from './answer-queue.ts';
import type { Pending, PendingRequest } from './pending.ts';
import { chunkVerdict, type StreamProgress } from './stream-rule.ts';

/** The stream of a pending request. */
export interface WaitingStream extends StreamProgress {
  execution: string | undefined;
  next: number;
  /** When a chunk, or a sign that its execution runs, last came; microseconds of the gateway's clock. */
  signUs: number;
  readonly queue: AnswerQueue;
}

export interface StreamsParts {
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly pending: Pending;
  readonly times: StreamTimes;
  /** See CallerParts. */
  readonly carries?: boolean | undefined;
}

export interface StreamTimes {
  /** A stream with neither a chunk nor a sign of its execution for so long is given up. */
  readonly stream_quiet_ms: number;
  /** Before an owner is told again that nobody waits for a stream. */
  readonly resend_ms: number;
}

/** The ids last told to owners as cancelled; one that is forgotten costs a cancel too many. */
const CANCELS_KEPT_MAX = 1_024;
/** Where no message is lost, chunks that were under way at the cancel are no reason for another one. */
const CANCEL_AGAIN_MS = 1_000;

/**
 * Streams of answers at their gateway (docs/protocol.md R27).
 *
 * A stream has *begun* with its first chunk. Before that it is a request like any other, sent again
 * until something comes; from then on it keeps to that execution and is not sent again. It ends with
 * the chunk that is the last, or is *broken*: by a gap, by a reader who does not keep up, by
 * `stream_quiet_ms` without a chunk and without its owner's word that the execution runs; where no message is lost, by its
 * owner's word that it has ended instead. Whatever
 * runs for nobody is cancelled, once more for each `resend_ms` that it goes on sending.
 */
export interface Streams {
  /** A chunk for a request that waits. False where it is not handed out. */
  chunk(request: PendingRequest, stream: WaitingStream, message: ResponseMessage): boolean;
  /** A chunk for which nobody waits: its cancel was lost, or is under way. */
  unwaited(message: ResponseMessage): void;
  /** An owner passes on what its workers run. */
  running(message: RunningMessage): void;
  /** Breaks a stream that has begun and has been quiet for too long. */
  look(request: PendingRequest, stream: WaitingStream): void;
  /** Tells the owner that nobody waits for a stream that has begun. */
  cancel(message: Pick<InferMessage, 'id' | 'model' | 'session'>): void;
}

export function newStream(queue: AnswerQueue): WaitingStream {
  return { execution: undefined, next: 0, signUs: 0, queue };
}

export function hasBegun(request: PendingRequest): boolean {
  return request.stream?.execution !== undefined;
}

export function createStreams(parts: StreamsParts): Streams {
  const { clock, mailbox, directory, pending, times } = parts;
  const againUs = 1000 * (Number.isFinite(times.resend_ms) ? times.resend_ms : CANCEL_AGAIN_MS);
  /** By id: when its owner was last told, oldest first. */
  const cancels = new Map<string, number>();

  const cancel = (model: string, id: string, session: string | null = null) => {
    const epoch = directory.owner(model);
    if (epoch === undefined) return;
    cancels.delete(id);
    cancels.set(id, clock.nowUs());
    for (const oldest of cancels.keys()) {
      if (cancels.size <= CANCELS_KEPT_MAX) break;
      cancels.delete(oldest);
    }
    const g = numberOf(id);
    mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id, g, low: pending.low, session });
  };

  const cancelAgain = (model: string, id: string) => {
    const told = cancels.get(id);
    if (told === undefined || clock.nowUs() - told >= againUs) cancel(model, id);
  };

  const breakOff = ({ message: { model, id } }: PendingRequest, error: ErrorInfo) => {
    if (pending.settle(id, { ok: false, error })) cancel(model, id);
  };

  return {
    chunk(request, stream, message) {
      const { model } = message;
      const verdict = chunkVerdict(stream, message);
      // Its owner says that it has ended. Where no message is lost nothing else will, and no other run of it is refused.
      if (verdict === 'drop' && isRefused(message) && !Number.isFinite(times.stream_quiet_ms)) {
        return pending.settle(message.id, message.outcome);
      }
      if (verdict === 'gap') breakOff(request, streamBroken(model, 'a part of it was lost'));
      if (verdict !== 'take') return false;
      const { outcome } = message;
      if (parts.carries !== true && !isWholeOutcome(outcome)) {
        breakOff(request, streamBroken(model, 'the tensors of a part of it were lost'));
        return false;
      }
      stream.execution = message.execution;
      stream.next++;
      stream.signUs = clock.nowUs();
      if (message.last) return pending.settle(message.id, outcome);
      const isTaken = stream.queue.push(outcome);
      if (!isTaken) breakOff(request, streamUnread(model));
      return isTaken;
    },

    unwaited({ model, id, last }) {
      if (!last) cancelAgain(model, id);
    },

    running({ model, streams }) {
      for (const { id, execution } of streams) {
        const request = pending.find(id);
        if (request === undefined) cancelAgain(model, id);
        else if (request.stream?.execution === execution) request.stream.signUs = clock.nowUs();
      }
    },

    look(request, stream) {
      const quietUs = clock.nowUs() - stream.signUs;
      if (quietUs < times.stream_quiet_ms * 1000) return;
      breakOff(request, streamBroken(request.message.model, 'its worker gives no sign of it any more'));
    },

    cancel: ({ model, id, session }) => cancel(model, id, session),
  };
}

/** Request ids are `{gateway id}:{g}`. */
function numberOf(id: string): number {
  return Number(id.slice(id.lastIndexOf(':') + 1));
}

function streamBroken(model: string, why: string): ErrorInfo {
  const message = `the stream of model '${model}' broke off: ${why}; send the request again to begin anew`;
  return { code: 'UNAVAILABLE', message, reason: 'stream_broken' };
}

function streamUnread(model: string): ErrorInfo {
  const message = `the stream of model '${model}' was cancelled: its answers come faster than they are read`;
  return { code: 'UNAVAILABLE', message, reason: 'stream_unread' };
}
