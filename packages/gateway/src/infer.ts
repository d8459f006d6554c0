import { checkRequest, type ModelRecord } from '@nereid/config';
import {
  compareEpochs,
  DEADLINE_SLACK_MS,
  type Epoch,
  type ErrorInfo,
  type InferMessage,
  type InferRequest,
  isWholeOutcome,
  type MissingMessage,
  type MovedMessage,
  type Outcome,
  type ProcessId,
  QUEUE_FULL,
  type ResponseMessage,
  type RunningMessage,
  type StaleMessage,
  sequenceLost,
  sequenceNeedsStart,
  withRequestId,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { Directory, LargeTensors, Mailbox, RefusalReason } from '@nereid/transport';
import { type AnswerQueue, createAnswerQueue, type StreamLimits } from './answer-queue.ts';
import type { BytesInFlight } from './bytes-in-flight.ts';
import type { ComingRequests } from './coming-requests.ts';
import type { LeaveSignal } from './leave-signal.ts';
import type { ModelLookups } from './model-lookup.ts';
import type { Pending, PendingRequest } from './pending.ts';
import { type ResendTimes, resendStep } from './resend.ts';
import { createStreams, hasBegun, newStream, type WaitingStream } from './streams.ts';

/** A request refused this often in a row is not sent on at once: ownership changes faster than it travels. */
const REDIRECTS_MAX = 4;
/** A request whose tensors are lost more often fails: something takes them away. */
const TENSOR_LOSSES_MAX = 4;

/** Of a request that has met no owner; lower than every epoch given out. */
const NO_EPOCH: Epoch = { number: 0, owner: '' };

const CANCELLED: Outcome = { ok: false, error: { code: 'CANCELLED', message: 'the caller gave up' } };

export interface InferParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  /** Undefined where messages are passed by reference. */
  readonly largeTensors: LargeTensors | undefined;
  readonly directory: Directory<ModelRecord>;
  readonly models: ModelLookups;
  readonly pending: Pending;
  readonly coming: Pick<ComingRequests, 'of'>;
  readonly times: ResendTimes;
  readonly limits: StreamLimits;
}

/**
 * Sends requests to owners until each has its outcome (docs/protocol.md R8).
 *
 * A request is *sent* to the model's owner under its epoch, and sent again when either changes, after
 * an interruption, and by the sweep. It is *stranded* while there is no owner, or the last send came
 * back: it then waits a bounded time for another owner. The sweep is one timer for all requests, set
 * while any waits that it has to look at.
 */
export interface Infer {
  /**
   * Why the request cannot be taken, from what is known here; null where it can. A decoupled model is
   * refused where one answer is waited for.
   */
  refusal(request: InferRequest, answers: 'one' | 'any'): ErrorInfo | null;
  /**
   * Sends a request that was not refused and waits; `signal` cancels it wherever it is by then. `msLeft`: how long the
   * caller waits, 0 for no end. It is the caller who ends it then, by `signal`; owners hear of it in case that is lost.
   */
  submit(request: InferRequest, signal: LeaveSignal | undefined, msLeft: number): Promise<Outcome>;
  /** As `submit`, for any number of answers: the iterable ends after the one that is `last`. */
  stream(
    request: InferRequest,
    signal: LeaveSignal | undefined,
    msLeft: number,
    inFlight: BytesInFlight | undefined,
  ): AnswerQueue;
  /** An answer, or a part of one; false where nobody waits for it. */
  response(message: ResponseMessage): boolean;
  running(message: RunningMessage): void;
  /** A coordinator says that it was not the owner: tries the one known now, or waits for another. */
  stale(message: StaleMessage): void;
  /** The owner has no such sequence, or another one under that id. */
  moved(message: MovedMessage): void;
  /** A worker did not find the request's tensors: they are put down anew (R29). */
  missing(message: MissingMessage): void;
  /** The directory's belief of who owns the model changed. */
  ownerChanged(model: string): void;
  /** Messages may have been lost: all that waits is sent again. */
  interrupted(): void;
  close(): void;
}

export function createInfer(parts: InferParts): Infer {
  const { id: replyTo, clock, mailbox, largeTensors, directory, models, pending, times } = parts;
  const streams = createStreams(parts);
  const sweepsAll = Number.isFinite(times.resend_ms);
  let sweep: Timer | undefined;
  let closed = false;

  const send = (request: PendingRequest) => {
    const { message } = request;
    request.sentUs = clock.nowUs();
    request.returned = false;
    mailbox.send(message.epoch.owner, message, (reason) => cameBack(request, message, reason));
  };

  const sendUnder = (request: PendingRequest, epoch: Epoch, resendMs: number) => {
    const { message } = request;
    const msLeft = timeLeft(request.deadlineUs, clock.nowUs());
    request.message = { ...message, epoch, low: pending.low, sends: message.sends + 1, msLeft };
    request.resendMs = resendMs;
    send(request);
  };

  /** The mailbox did not take it. Later copies are not given up for it: another may be on its way. */
  const cameBack = (request: PendingRequest, message: InferMessage, reason: RefusalReason) => {
    if (request.message !== message || pending.find(message.id) !== request || hasBegun(request)) return;
    if (reason === 'gone') redirect(request, [directory.owner(message.model)]);
    else if (message.sends === 1) pending.settle(message.id, failed(withRequestId(message.request, QUEUE_FULL)));
  };

  const redirect = (request: PendingRequest, beliefs: readonly (Epoch | undefined)[]) => {
    const epoch = newerEpoch(request.message.epoch, beliefs);
    if (epoch === undefined || request.redirects >= REDIRECTS_MAX) {
      strand(request);
      return;
    }
    request.redirects++;
    sendUnder(request, epoch, times.resend_ms);
  };

  const tensorsLost = (request: PendingRequest) => {
    const { id, model, epoch } = request.message;
    if (++request.tensorLosses > TENSOR_LOSSES_MAX) pending.settle(id, failed(tensorsGone(model)));
    else sendUnder(request, directory.owner(model) ?? epoch, times.resend_ms);
  };

  const strand = (request: PendingRequest) => {
    request.returned = true;
    request.strandedUs ??= clock.nowUs();
    armSweep();
  };

  /** What the rule says of one request; `force` sends it also before its wait is over. */
  const visit = (request: PendingRequest, force: boolean) => {
    if (request.stream !== undefined && hasBegun(request)) {
      streams.look(request, request.stream);
      return;
    }
    const nowUs = clock.nowUs();
    const owner = directory.owner(request.message.model);
    if (owner !== undefined && !request.returned) request.strandedUs = undefined;
    const step = resendStep(request, owner, nowUs, times);
    if (step.type === 'fail') pending.settle(request.message.id, failed(ownerless(request.message.model)));
    else if (step.type === 'strand') strand(request);
    else if (step.type === 'send') {
      request.redirects = 0;
      sendUnder(request, step.epoch, step.resendMs);
    } else if (force && owner !== undefined) sendUnder(request, owner, times.resend_ms);
  };

  const armSweep = () => {
    if (sweep !== undefined || closed) return;
    sweep = clock.at(clock.nowUs() + times.sweep_ms * 1000, () => {
      sweep = undefined;
      let again = false;
      for (const request of pending.inOrder()) {
        visit(request, false);
        again ||= sweepsAll || request.strandedUs !== undefined;
      }
      // Not cancelled at the last outcome: one request at a time would set a timer for each.
      if (again && pending.size > 0) armSweep();
    });
  };

  const cancel = (id: string) => {
    const request = pending.find(id);
    if (request === undefined || !pending.settle(id, CANCELLED)) return;
    const { model, epoch, g, session, sends } = request.message;
    if (hasBegun(request)) streams.cancel(request.message);
    else if (sends > 0) mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id, g, low: pending.low, session });
  };

  /** Returns the token under which it waits. */
  const start = (
    request: InferRequest,
    signal: LeaveSignal | undefined,
    resolve: (outcome: Outcome) => void,
    stream: WaitingStream | undefined,
    msLeft: number,
  ): string => {
    const epoch = directory.owner(request.modelName);
    const toldMs = msLeft > 0 ? Math.ceil(msLeft) + DEADLINE_SLACK_MS : 0;
    const first = firstMessage(request, epoch, replyTo, pending, toldMs);
    const coming = parts.coming.of(request.modelName);
    const message = coming === 0 ? first : { ...first, coming };
    const onAbort = signal === undefined ? undefined : () => cancel(message.id);
    if (onAbort !== undefined) signal?.addEventListener('abort', onAbort);
    const waiting: PendingRequest = {
      message,
      resolve,
      stream,
      signal,
      onAbort,
      deadlineUs: toldMs > 0 ? clock.nowUs() + toldMs * 1000 : undefined,
      sentUs: 0,
      resendMs: times.resend_ms,
      redirects: 0,
      tensorLosses: 0,
      returned: false,
      strandedUs: undefined,
    };
    pending.add(waiting);
    if (epoch === undefined) strand(waiting);
    else send(waiting);
    if (sweepsAll) armSweep();
    return message.id;
  };

  return {
    refusal(request, answers) {
      const found = models.find(request.modelName, request.modelVersion);
      if (!found.ok) return found.error;
      if (found.signature.decoupled && answers === 'one') return decoupled(request.modelName);
      const wrong = checkRequest(found.signature, request);
      if (wrong !== null) return wrong;
      return pending.full ? withRequestId(request, QUEUE_FULL) : null;
    },

    submit(request, signal, msLeft) {
      if (signal?.aborted === true) return Promise.resolve(CANCELLED);
      return new Promise((resolve) => start(request, signal, resolve, undefined, msLeft));
    },

    stream(request, signal, msLeft, inFlight) {
      let id: string | undefined;
      const queue = createAnswerQueue(
        parts.limits,
        () => {
          if (id !== undefined) cancel(id);
        },
        inFlight,
      );
      if (signal?.aborted === true) queue.end(CANCELLED);
      else id = start(request, signal, queue.end, newStream(queue), msLeft);
      return queue;
    },

    response(message) {
      const request = pending.find(message.id);
      if (request === undefined) streams.unwaited(message);
      else if (request.stream !== undefined) streams.chunk(request, request.stream, message);
      else if (!isWholeOutcome(message.outcome)) tensorsLost(request);
      else if (message.last) pending.settle(message.id, message.outcome);
      // Its model was loaded anew as a decoupled one on the way.
      else if (pending.settle(message.id, failed(decoupled(message.model)))) streams.unwaited(message);
      return request !== undefined;
    },

    running: streams.running,

    stale({ id, known }) {
      const request = pending.find(id);
      if (request === undefined || hasBegun(request)) return;
      // It names the epoch under which the request has been sent meanwhile: an older copy was refused.
      if (known !== null && compareEpochs(known, request.message.epoch) === 0) return;
      redirect(request, [directory.owner(request.message.model), known ?? undefined]);
    },

    moved({ id, model, current }) {
      const correlationId = pending.find(id)?.message.request.correlationId ?? 0n;
      const error = current === null ? sequenceNeedsStart(model, correlationId) : sequenceLost(model, correlationId);
      pending.settle(id, failed(error));
    },

    missing({ id }) {
      const request = pending.find(id);
      if (request === undefined || hasBegun(request)) return;
      largeTensors?.rewrite(request.message.request.inputs);
      tensorsLost(request);
    },

    ownerChanged(model) {
      for (const request of pending.inOrder()) if (request.message.model === model) visit(request, false);
    },

    interrupted() {
      for (const request of pending.inOrder()) visit(request, true);
    },

    close() {
      closed = true;
      sweep?.cancel();
      sweep = undefined;
    },
  };
}

function firstMessage(
  request: InferRequest,
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
    // A sequence's steps are chained by these three once models that keep sequences are served.
    prev: 0,
    session: null,
    step: -1,
    sends: epoch === undefined ? 0 : 1,
    msLeft,
    replyTo,
    request,
  };
}

/** The `msLeft` of a message: whole milliseconds, 0 where there is no deadline. */
function timeLeft(deadlineUs: number | undefined, nowUs: number): number {
  return deadlineUs === undefined ? 0 : Math.max(1, Math.ceil((deadlineUs - nowUs) / 1000));
}

/** The first belief that differs from the epoch that was refused. */
function newerEpoch(refused: Epoch, beliefs: readonly (Epoch | undefined)[]): Epoch | undefined {
  return beliefs.find((belief) => belief !== undefined && compareEpochs(belief, refused) !== 0);
}

function failed(error: ErrorInfo): Outcome {
  return { ok: false, error };
}

function ownerless(model: string): ErrorInfo {
  return { code: 'UNAVAILABLE', message: `no coordinator owns model '${model}' now; try again in a few seconds` };
}

function tensorsGone(model: string): ErrorInfo {
  const message = `large tensors of a request to model '${model}' were lost on their way; try again, and see whether Redis evicts keys`;
  return { code: 'UNAVAILABLE', message };
}

function decoupled(model: string): ErrorInfo {
  const message = `model '${model}' is decoupled: it may answer any number of times, infer waits for one answer`;
  return { code: 'UNSUPPORTED', message };
}
