import type { Alias, ModelRecord, ModelSignature } from '@nereid/config';
import {
  type CarriedRequest,
  type CarriedTensor,
  type ErrorInfo,
  type InferRequest,
  type Message,
  type Outcome,
  type ProcessId,
  senderOf,
  type Tensor,
  versionAsked,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { type Directory, type Mailbox, type Timing, type Transport, timing } from '@nereid/transport';
import { aliasRoute, namedAnswers, namedOutcome, routedRequest } from './alias-route.ts';
import { createAliasedSequences } from './aliased-sequences.ts';
import { type Aliases, createAliases } from './aliases.ts';
import { createAnswerQueue, type StreamedAnswer, type StreamLimits } from './answer-queue.ts';
import { type CallNotes, createCallNotes, innerMark } from './call-notes.ts';
import type { CallOptions } from './call-options.ts';
import { type ComingRequests, createComingRequests } from './coming-requests.ts';
import { createHeldTensors, type HeldTensors } from './held-tensors.ts';
import { createInfer } from './infer.ts';
import { createKnownRecords } from './known-records.ts';
import { createModelLookups, type ModelFound, type ModelLookups } from './model-lookup.ts';
import { createModelNames } from './model-names.ts';
import { createPending } from './pending.ts';
import { type ResendTimes, resendTimes } from './resend.ts';
import { createCallerCache } from './response-cache/caller-cache.ts';
import type { ResponseStore } from './response-cache/kept-answer.ts';

export interface CallerLimits extends StreamLimits {
  /** Requests that wait for an answer at a time; one more is refused with 503. */
  readonly requests_pending_max: number;
}

export interface CallerParts {
  /** Whose mailbox it is, to which answers come. */
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly transport: Pick<Transport, 'largeTensors' | 'onInterruption'>;
  readonly directory: Directory<ModelRecord>;
  readonly limits: CallerLimits;
  /** Where answers of models that allow it are kept; none are without it. */
  readonly responses?: ResponseStore | undefined;
  /** When to send again. Absent: all roles are in this process and no message is ever lost. */
  readonly timing?: Timing | undefined;
  /** Large tensors pass through as their names: outcomes are handed out as they come, and requests may have such inputs. */
  readonly carries?: boolean;
}

/**
 * Holds the requests that somebody waits for: checks each, sends it to its model's owner until it has its one
 * outcome, and hands that out. What comes to its mailbox is handed to `take`.
 */
export interface Caller<T extends CarriedTensor = Tensor> {
  readonly models: ModelLookups;
  readonly aliases: Aliases;
  /**
   * The request for the model and version that its alias stands for, as a job is to ask for them, whatever is ready; as it
   * is where it names no alias. `signature`: of the model.
   */
  routed(request: InferRequest, signature: Pick<ModelSignature, 'sequence'>): InferRequest;
  /** How long a question waits for an owner. */
  readonly times: ResendTimes;
  /** Never rejects: what goes wrong is an outcome. */
  infer(request: InferRequest<T>, options?: CallOptions): Promise<Outcome<T>>;
  /**
   * As `infer`, for a model that may give any number of answers; of any other model one comes. The
   * request is sent at the call. The answers come in their order, of one execution, and end with the
   * one that is `last`, which is an error where the rest is lost (`stream_broken`), or comes faster
   * than it is read (`stream_unread`). Never throws; who leaves early cancels the request.
   */
  inferStream(request: InferRequest<T>, options?: CallOptions): AsyncIterableIterator<StreamedAnswer<T>>;
  /** An iterator that ends at once with that error. */
  refusedStream(error: ErrorInfo): AsyncIterableIterator<StreamedAnswer<T>>;
  /** Why the request would be refused unsent, from what is known here; null where it would be sent. */
  refusal(request: InferRequest<T>): ErrorInfo | null;
  /** What became of its requests. */
  readonly notes: CallNotes;
  /** To be told of requests that begin to come for a model with `closesEarly`. */
  readonly coming: Pick<ComingRequests, 'begin'>;
  /** False where the message is for nobody who waits here, or of a kind that no caller takes. */
  take(message: Message): boolean;
  /** What the user of a caller that carries does with the large tensors of answers once he has them. */
  readonly tensors: AnsweredTensors;
  /** Tells owners now what they are told otherwise at the end of the turn: what was answered from the cache. */
  tell(): void;
  /** Calls back once, when nothing waits any more. */
  whenIdle(callback: () => void): void;
  /** Requests without an outcome. */
  readonly waiting: number;
  /** Fails what waits with that outcome and drops all timers. */
  close(outcome: Outcome<T>): void;
}

/**
 * Each BlobTensor that a caller that carries has handed out is either released or handed over, once; both do nothing for
 * other tensors. It lasts until then.
 */
export type AnsweredTensors = Pick<HeldTensors, 'release' | 'handOver' | 'count'>;

const NO_TENSORS: AnsweredTensors = { release() {}, handOver() {}, count: 0 };

type Entered =
  | { readonly ok: true; readonly target: ModelFound; readonly asked: CarriedRequest }
  | { readonly ok: false; readonly error: ErrorInfo };

/** Only one that carries hands out outcomes whose data are elsewhere. */
export function createCaller(parts: CallerParts & { readonly carries: true }): Caller<CarriedTensor>;
export function createCaller(parts: CallerParts): Caller;
export function createCaller(parts: CallerParts): Caller<CarriedTensor> {
  const { id, clock, mailbox, directory, limits } = parts;
  const { largeTensors } = parts.transport;
  const apart = parts.timing !== undefined;
  const pending = createPending(id, limits.requests_pending_max, (request, outcome) => {
    largeTensors?.release(request.message.request.inputs);
    notes.ended(request, outcome);
  });
  const notes = createCallNotes({ id, clock, waiting: pending.inOrder });
  const times = resendTimes(parts.timing ?? timing(), !apart);
  const records = createKnownRecords(directory, clock, apart ? times.ownerless_wait_ms : 0);
  const aliases = createAliases(directory);
  const models = createModelLookups(directory, records, { aliases, names: createModelNames(directory) }, apart);
  const sequences = createAliasedSequences();
  let unnamed = 0;
  const token = () => `m${id}:${++unnamed}`;
  const coming = createComingRequests();
  const held =
    parts.carries === true && largeTensors !== undefined
      ? createHeldTensors({ id, clock, mailbox, directory, times, largeTensors })
      : undefined;
  const calls = createInfer({
    id,
    clock,
    mailbox,
    largeTensors,
    directory,
    models,
    pending,
    coming,
    times,
    limits,
    carries: parts.carries,
    held,
  });
  const unwatch = directory.watch((change) => {
    if (change.type === 'owner') calls.ownerChanged(change.model);
    else if (change.type === 'record') records.changed(change.model);
  });
  const unlisten = parts.transport.onInterruption(calls.interrupted);

  const cache = createCallerCache({
    clock,
    mailbox,
    directory,
    models,
    limits,
    responses: parts.responses,
    notes,
    submit: (request, options) => calls.submit(request, undefined, options),
    unwanted: (outcome) => {
      if (outcome.ok) held?.release(outcome.response.outputs);
    },
  });

  const whenIdle = (callback: () => void) =>
    pending.whenEmpty(() => cache.whenEmpty(() => (pending.size === 0 ? callback() : whenIdle(callback))));

  const refusedStream = (error: ErrorInfo) => {
    const refused = createAnswerQueue(limits, () => {});
    refused.end({ ok: false, error });
    return refused;
  };

  /** A request to an alias, as it goes to its model, or why it cannot: its version may not be ready while others are. */
  const enter = (found: ModelFound, alias: Alias, request: CarriedRequest, options: CallOptions): Entered => {
    const route = sequences.follow(aliasRoute(alias, found.signature, request, token), request);
    const asked = routedRequest(request, route);
    const isLater = route.isStep && !request.sequenceStart && request.modelVersion === '';
    const target = models.find(alias.model, isLater ? '' : route.version);
    if (!target.ok) notes.refused(options.mark ?? innerMark(), asked, target.error);
    else options.routed?.(route);
    return target.ok ? { ok: true, target, asked } : target;
  };

  return {
    models,
    times,
    coming,
    notes,
    aliases,
    routed(request, signature) {
      const alias = aliases.find(request.modelName);
      if (alias === undefined) return request;
      const asked = routedRequest(request, aliasRoute(alias, signature, request, token));
      const { version, elsewhere } = versionAsked(asked.modelVersion);
      // Who takes a later step as a job looks for its sequence wherever no version is named.
      return { ...asked, modelVersion: elsewhere && !request.sequenceStart ? '' : version };
    },
    infer(request, options = {}) {
      const found = calls.admit(request, 'one');
      if (!found.ok) {
        notes.refused(options.mark ?? innerMark(), request, found.error);
        return Promise.resolve(found);
      }
      if (found.alias !== undefined) {
        const { name } = found;
        const entered = enter(found, found.alias, request, options);
        if (!entered.ok) return Promise.resolve(entered);
        const { target } = entered;
        const asked = underItsName(entered.asked, target);
        const outcome = cache.infer(target, asked, options) ?? calls.submit(asked, target.signature.sequence, options);
        return outcome.then((given) => namedOutcome(given, name));
      }
      const asked = underItsName(request, found);
      return cache.infer(found, asked, options) ?? calls.submit(asked, found.signature.sequence, options);
    },
    inferStream(request, options = {}) {
      const found = calls.admit(request, 'any');
      if (!found.ok) {
        notes.refused(options.mark ?? innerMark(), request, found.error);
        return refusedStream(found.error);
      }
      if (found.alias !== undefined) {
        const entered = enter(found, found.alias, request, options);
        if (!entered.ok) return refusedStream(entered.error);
        const { target } = entered;
        const asked = underItsName(entered.asked, target);
        const answers = cache.stream(target, asked, options) ?? calls.stream(asked, target.signature.sequence, options);
        return namedAnswers(answers, found.name);
      }
      const asked = underItsName(request, found);
      return cache.stream(found, asked, options) ?? calls.stream(asked, found.signature.sequence, options);
    },
    refusedStream,
    refusal(request) {
      const found = calls.admit(request, 'any');
      return found.ok ? null : found.error;
    },
    take(message) {
      switch (message.kind) {
        case 'response':
          return calls.response(message);
        case 'running':
          calls.running(message);
          return true;
        case 'missing':
          calls.missing(message);
          return true;
        case 'stale':
          calls.stale(message);
          return true;
        case 'moved':
          calls.moved(message);
          return true;
        case 'put':
          return held?.take(message) === true;
        case 'explain':
          mailbox.send(senderOf(message.id), notes.tell(message));
          return true;
        default:
          return false;
      }
    },
    tensors: held ?? NO_TENSORS,
    tell: cache.tell,
    whenIdle,
    get waiting() {
      return pending.size + cache.waiting;
    },
    close(outcome) {
      calls.close();
      cache.close(outcome);
      pending.settleAll(outcome);
      held?.close();
      unwatch();
      unlisten();
    },
  };
}

/** With namespacing a client may call a model by another name than its own. */
function underItsName(request: CarriedRequest, { record }: ModelFound): CarriedRequest {
  return request.modelName === record.name ? request : { ...request, modelName: record.name };
}
