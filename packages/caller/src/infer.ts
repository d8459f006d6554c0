import { checkRequest, type ModelRecord, type SequenceSignature } from '@nereid/config';
import {
  type CarriedOutcome,
  type CarriedRequest,
  compareEpochs,
  DEADLINE_SLACK_MS,
  type Epoch,
  type ErrorInfo,
  type InferMessage,
  isWholeOutcome,
  type MissingMessage,
  type MovedMessage,
  noteEvent,
  type ProcessId,
  QUEUE_FULL,
  type ResponseMessage,
  type RunningMessage,
  STOPPING,
  type StaleMessage,
  sequenceNeedsStart,
  withRequestId,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { Directory, LargeTensors, Mailbox, RefusalReason } from '@nereid/transport';
import { type AnswerQueue, createAnswerQueue, type StreamLimits } from './answer-queue.ts';
import type { CallOptions } from './call-options.ts';
import type { ComingRequests } from './coming-requests.ts';
import { firstMessage } from './first-message.ts';
import type { HeldTensors } from './held-tensors.ts';
import { decoupled, GAVE_UP, ownerless, sentWhy } from './infer-errors.ts';
import { createLostTensors, firstTo } from './lost-tensors.ts';
import type { ModelLookup, ModelLookups } from './model-lookup.ts';
import type { Pending, PendingRequest } from './pending.ts';
import { newerEpoch, type ResendTimes, resendStep, timeLeft } from './resend.ts';
import { createSequenceSteps, type SequenceStep, stepPlace } from './sequence-steps.ts';
import { createStreams, hasBegun, newStream, type WaitingStream } from './streams.ts';

/** A request refused this often in a row is not sent on at once: ownership changes faster than it travels. */
const REDIRECTS_MAX = 4;

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
  /** See CallerParts. */
  readonly carries?: boolean | undefined;
  /** Of a caller that carries, where messages are not passed by reference. */
  readonly held: HeldTensors | undefined;
}

/**
 * Sends requests to owners until each has its outcome (docs/protocol.md R8).
 *
 * A request is *sent* to the model's owner under its epoch, and sent again when either changes, after
 * an interruption, and by the sweep, one timer for all. It is *stranded* while there is no owner, or the last
 * send came back: it then waits a bounded time for another owner.
 */
export interface Infer {
  /**
   * The model of the request, or why it cannot be taken, from what is known here. A decoupled model is
   * refused where one answer is waited for.
   */
  admit(request: CarriedRequest, answers: 'one' | 'any'): ModelLookup;
  /**
   * Sends a request that was admitted and waits. The caller ends it at its deadline, by `signal`. `sequence`: how its
   * model keeps sequences, if it does; the request is then the next step of its own.
   */
  submit(
    request: CarriedRequest,
    sequence: SequenceSignature | undefined,
    options: CallOptions,
  ): Promise<CarriedOutcome>;
  /** As `submit`, for any number of answers: the iterable ends after the one that is `last`. */
  stream(request: CarriedRequest, sequence: SequenceSignature | undefined, options: CallOptions): AnswerQueue;
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
  const { id: replyTo, clock, mailbox, directory, models, pending, times } = parts;
  const streams = createStreams(parts);
  const carries = parts.carries === true;
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
    const nowUs = clock.nowUs();
    const msLeft = timeLeft(request.deadlineUs, nowUs);
    noteEvent(request, nowUs, sentWhy(message.epoch, epoch));
    request.message = { ...message, epoch, low: pending.low, sends: message.sends + 1, msLeft };
    if (request.step !== undefined) {
      request.message = { ...request.message, ...stepPlace(request.step) };
      request.step.sends++;
    }
    request.resendMs = resendMs;
    send(request);
  };

  /** A step with all others of its chain, in their order (docs/protocol.md R8); those that have begun to be answered wait for their turn. */
  const sendChain = ({ chain }: SequenceStep, epoch: Epoch, resendMs: number) => {
    for (const { id, answers } of [...chain.unfinished]) {
      const request = pending.find(id);
      if (request === undefined || hasBegun(request) || answers.length > 0) continue;
      const same = compareEpochs(request.message.epoch, epoch) === 0;
      request.redirects = 0;
      sendUnder(request, epoch, same ? Math.max(resendMs, request.resendMs) : resendMs);
    }
  };

  /** The mailbox did not take it. Later copies are not given up for it: another may be on its way. */
  const cameBack = (request: PendingRequest, message: InferMessage, reason: RefusalReason) => {
    if (request.message !== message || pending.find(message.id) !== request || hasBegun(request)) return;
    if (reason === 'gone') redirect(request, [directory.owner(message.model)]);
    else if (message.sends === 1) {
      if (request.step !== undefined) request.step.unsent = true;
      pending.settle(message.id, failed(withRequestId(message.request, QUEUE_FULL)));
    }
  };

  const redirect = (request: PendingRequest, beliefs: readonly (Epoch | undefined)[]) => {
    // Its only copy was refused: it has not run.
    if (request.step === undefined && request.message.sends === 1) request.message = { ...request.message, sends: 0 };
    const epoch = newerEpoch(request.message.epoch, beliefs);
    if (epoch === undefined || request.redirects >= REDIRECTS_MAX) {
      strand(request);
      return;
    }
    request.redirects++;
    sendUnder(request, epoch, times.resend_ms);
  };

  const lost = createLostTensors({
    ...parts,
    sendAgain(request) {
      const { model, epoch } = request.message;
      sendUnder(request, directory.owner(model) ?? epoch, times.resend_ms);
    },
  });

  const strand = (request: PendingRequest) => {
    request.returned = true;
    if (request.strandedUs === undefined) noteEvent(request, clock.nowUs(), 'it waits for a coordinator to take it');
    request.strandedUs ??= clock.nowUs();
    armSweep();
  };

  /** What the rule says of one request; `force` sends it also before its wait is over. */
  const visit = (request: PendingRequest, force: boolean) => {
    if (request.relocating) return;
    if (request.stream !== undefined && hasBegun(request)) {
      streams.look(request, request.stream);
      return;
    }
    if (request.step !== undefined && request.step.answers.length > 0) return;
    const nowUs = clock.nowUs();
    const owner = directory.owner(request.message.model);
    if (owner !== undefined && !request.returned) request.strandedUs = undefined;
    const step = resendStep(request, owner, nowUs, times);
    if (step.type === 'fail') pending.settle(request.message.id, failed(ownerless(request.message.model)));
    else if (step.type === 'strand') strand(request);
    else if (step.type === 'send') {
      request.redirects = 0;
      if (request.step !== undefined) sendChain(request.step, step.epoch, step.resendMs);
      else sendUnder(request, step.epoch, step.resendMs);
    } else if (force && owner !== undefined) {
      if (request.step === undefined) sendUnder(request, owner, times.resend_ms);
      // With the first of its chain, else.
      else if (request.sentUs < nowUs) sendChain(request.step, owner, times.resend_ms);
    }
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
    if (request === undefined) return;
    if (request.step !== undefined) {
      // It waits on, for its outcome and with its inputs, but nobody is told of that.
      if (steps.outlivesCaller(request, request.step)) {
        request.resolve(GAVE_UP);
        return;
      }
      request.step.told = true;
    }
    pending.settle(id, GAVE_UP);
    const { model, epoch, g, session, sends } = request.message;
    if (hasBegun(request)) streams.cancel(request.message);
    else if (sends > 0) mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id, g, low: pending.low, session });
  };

  const takeResponse = (message: ResponseMessage): boolean => {
    const request = pending.find(message.id);
    if (request === undefined) {
      lost.unwanted(message.outcome);
      streams.unwaited(message);
      return false;
    }
    if (request.step !== undefined && steps.holds(request.step, message)) return true;
    if (message.last && message.timing !== undefined) request.timed?.(message.timing);
    if (request.stream !== undefined) {
      if (!streams.chunk(request, request.stream, message)) lost.unwanted(message.outcome);
    } else if (!carries && !isWholeOutcome(message.outcome)) lost.ofAnswer(request);
    else if (message.last) pending.settle(message.id, message.outcome);
    // Its model was loaded anew as a decoupled one on the way.
    else {
      lost.unwanted(message.outcome);
      if (pending.settle(message.id, failed(decoupled(message.model)))) streams.unwaited(message);
    }
    return true;
  };

  const steps = createSequenceSteps({
    pending,
    mailbox,
    held_answers_max: parts.limits.stream_unread_chunks_max,
    carries,
    sendAgain(request) {
      const owner = directory.owner(request.message.model);
      if (owner !== undefined && !hasBegun(request)) sendUnder(request, owner, times.resend_ms);
    },
    response: takeResponse,
    unwanted: lost.unwanted,
  });

  /** Returns the token under which it waits. */
  const start = (
    request: CarriedRequest,
    sequence: SequenceSignature | undefined,
    { signal, msLeft = 0, timed, missing, mark }: CallOptions,
    resolve: (outcome: CarriedOutcome) => void,
    stream: WaitingStream | undefined,
  ): string => {
    const arrivedUs = clock.nowUs();
    const epoch = directory.owner(request.modelName);
    // An owner ends the sequence of what is too late, which a numbered step asked for again must find.
    const patient = sequence?.iterative === false && request.sequenceStep !== undefined && stream === undefined;
    const toldMs = msLeft > 0 && !patient ? Math.ceil(msLeft) + DEADLINE_SLACK_MS : 0;
    let first = firstMessage(request, epoch, replyTo, pending, toldMs);
    const step = sequence === undefined || sequence.iterative ? undefined : steps.join(request, first);
    if (step !== undefined) {
      step.sends = first.sends;
      first = { ...first, ...stepPlace(step), step: step.number };
    } else if (sequence !== undefined) first = { ...first, session: first.id, step: -1 };
    const coming = parts.coming.of(request.modelName);
    const message = coming === 0 ? first : { ...first, coming };
    const onAbort = signal === undefined ? undefined : () => cancel(message.id);
    if (onAbort !== undefined) signal?.addEventListener('abort', onAbort);
    const waiting: PendingRequest = {
      message,
      resolve,
      stream,
      step,
      settled: step === undefined ? undefined : (outcome) => closed || steps.settled(waiting, step, outcome),
      timed,
      missing,
      signal,
      onAbort,
      arrivedUs,
      mark,
      events: undefined,
      deadlineUs: toldMs > 0 ? arrivedUs + toldMs * 1000 : undefined,
      sentUs: 0,
      resendMs: times.resend_ms,
      redirects: 0,
      tensorLosses: 0,
      relocating: false,
      returned: false,
      strandedUs: undefined,
    };
    pending.add(waiting);
    if (mark !== undefined) mark.id = message.id;
    if (epoch === undefined) strand(waiting);
    else send(waiting);
    if (sweepsAll) armSweep();
    return message.id;
  };

  return {
    admit(request, answers) {
      if (closed) return failed(STOPPING);
      const found = models.find(request.modelName, request.modelVersion);
      if (!found.ok) return found;
      if (found.signature.decoupled && answers === 'one') return failed(decoupled(request.modelName));
      const wrong = checkRequest(found.signature, request);
      if (wrong !== null) return failed(wrong);
      return pending.full ? failed(withRequestId(request, QUEUE_FULL)) : found;
    },

    submit(request, sequence, options) {
      if (options.signal?.aborted === true) return Promise.resolve(GAVE_UP);
      return new Promise((resolve) => {
        // A numbered step outlives its caller, who then has its outcome already.
        const first = parts.held === undefined ? resolve : firstTo(resolve, lost.unwanted);
        start(request, sequence, options, first, undefined);
      });
    },

    stream(request, sequence, options) {
      let id: string | undefined;
      const queue = createAnswerQueue(
        parts.limits,
        () => {
          if (id !== undefined) cancel(id);
        },
        options.inFlight,
        lost.unwanted,
      );
      if (options.signal?.aborted === true) queue.end(GAVE_UP);
      else id = start(request, sequence, options, queue.end, newStream(queue));
      return queue;
    },

    response(message) {
      // From its arrival on: it may wait for its turn.
      if (message.outcome.ok) parts.held?.hold(message.outcome.response.outputs);
      return takeResponse(message);
    },

    running: streams.running,

    stale({ id, known }) {
      const request = pending.find(id);
      if (request === undefined || hasBegun(request)) return;
      // It names the epoch under which the request has been sent meanwhile: an older copy was refused.
      if (known !== null && compareEpochs(known, request.message.epoch) === 0) return;
      redirect(request, [directory.owner(request.message.model), known ?? undefined]);
    },

    moved(message) {
      const request = pending.find(message.id);
      if (request?.step !== undefined) steps.moved(request, request.step, message);
      // Its model was loaded anew as one that keeps sequences on the way.
      else if (request !== undefined) {
        pending.settle(message.id, failed(sequenceNeedsStart(message.model, request.message.request.correlationId)));
      }
    },

    missing: lost.missing,

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

function failed(error: ErrorInfo): { readonly ok: false; readonly error: ErrorInfo } {
  return { ok: false, error };
}
