import {
  type BytesInFlight,
  type Caller,
  type CallerLimits,
  type CallMark,
  createCaller,
  type LeaveSignal,
  type ModelFound,
  type ModelLookup,
  type ResponseStore,
  type StreamedAnswer,
  type UnreadRequest,
} from '@nereid/caller';
import { LIMITS, type ModelRecord } from '@nereid/config';
import {
  type ErrorInfo,
  type InferRequest,
  type Message,
  type Outcome,
  type ProcessId,
  STOPPING,
} from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Directory, Timing, Transport } from '@nereid/transport';
import { createExplain, type Explain } from './explain.ts';
import { createModelChanges, type ModelChanges } from './model-changes.ts';
import { createOwnerQuestions } from './owner-questions.ts';
import { createPlacements, type Placements } from './placements.ts';
import { createSequences, type Sequences } from './sequences.ts';
import { createShadows, type Shadows } from './shadows.ts';
import { createStatistics, type Statistics } from './statistics.ts';
import type { TraceSampler } from './trace-settings.ts';

export interface GatewayOptions {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly log: Log;
  readonly limits: CallerLimits;
  /** Where answers of models that allow it are kept; none are without it. */
  readonly responses?: ResponseStore | undefined;
  /** True (the default): ready only while every model is and, with roles apart, a coordinator lives. False: ready from the start until it stops. */
  readonly strictReadiness?: boolean;
  /** Why nothing can be recorded, for those that ask for it; undefined where something can. */
  readonly unrecorded?: string | undefined;
  /** Told of each request while anything is traced. */
  readonly traces?: TraceSampler | undefined;
  /** When to send again. Absent: all roles are in this process and no message is ever lost. */
  readonly timing?: Timing;
}

/**
 * Holds the requests that somebody waits for: checks them, sends them to the model's owner and
 * hands each its one outcome. HTTP, gRPC and the in-process API are thin edges around it.
 *
 * It is *serving* until `drain`, *retiring* meanwhile from `retire` on (not ready, but new requests are taken), then
 * *stopping* (not ready, new requests refused, running ones finish) until `close` has failed what is left, then *closed*.
 */
export interface Gateway {
  /** Registers in the directory, so that others know that its mailbox is read. */
  start(): Promise<void>;
  /**
   * Never rejects: what goes wrong is an outcome. `signal` cancels the request wherever it is. `msLeft`: the caller has a
   * deadline and gives up after so many milliseconds, by `signal`; a queue drops the request then even if it never hears.
   * `mark` has the request's token once this returns.
   */
  infer(request: InferRequest, signal?: LeaveSignal, msLeft?: number, mark?: CallMark): Promise<Outcome>;
  /**
   * As `infer`, for a model that may give any number of answers; of any other model one comes. The
   * request is sent at the call. The answers come in their order, of one execution, and end with the
   * one that is `last`, which is an error where the rest is lost (`stream_broken`), or comes faster
   * than it is read (`stream_unread`). Never throws; who leaves early cancels the request. Unread answers count in `inFlight`.
   */
  inferStream(
    request: InferRequest,
    signal?: LeaveSignal,
    msLeft?: number,
    inFlight?: BytesInFlight,
    mark?: CallMark,
  ): AsyncIterableIterator<StreamedAnswer>;
  /** Why `inferStream` would refuse the request unsent, from what is known here; null where it would send it. */
  refusal(request: InferRequest): ErrorInfo | null;
  live(): boolean;
  ready(): boolean;
  /** `version` is decimal, or '' for the greatest READY one. */
  modelReady(name: string, version: string): boolean;
  /** Every model with a READY version, by name, each with its greatest; an entry is the same until its record changes. */
  servedModels(): readonly ModelFound[];
  /** A READY version with its record, or Triton's error for it. */
  model(name: string, version?: string): ModelLookup;
  /** A door has refused a request that did not come here; gives it a token in `mark`. */
  refused(mark: CallMark, request: UnreadRequest, error: ErrorInfo): void;
  /** Tells the model's owner, if there is one, that the job is cancelled. */
  cancelJob(model: string, id: string): void;
  /** Loads and unloads models. */
  readonly changes: Pick<ModelChanges, 'load' | 'unload'>;
  readonly statistics: Statistics;
  readonly sequences: Sequences;
  readonly placements: Placements;
  readonly explain: Explain;
  /** Copies of requests to aliases, and how their answers compare. */
  readonly shadows: Pick<Shadows, 'told' | 'aliases'>;
  /** As of a Caller. */
  readonly routed: Caller['routed'];
  readonly aliases: Caller['aliases'];
  /** To be told of requests that begin to come for a model with `closesEarly`. */
  readonly coming: Caller['coming'];
  /** No longer ready, for who chooses between servers; requests are taken as before. Idempotent. */
  retire(): void;
  /** No longer ready, and refuses new requests; those it holds go on. Idempotent. */
  drain(): void;
  /** Drains, waits so long for the requests it holds, then fails those left. Idempotent. */
  close(deadlineMs?: number): Promise<void>;
  /** Requests without an outcome. */
  readonly waiting: number;
  /** Answers for which nobody waited any more. */
  readonly refusedMessages: number;
}

const STOPPED = { ok: false, error: STOPPING } as const;

export function createGateway(options: GatewayOptions): Gateway {
  const { id, clock, transport, directory, log, limits, traces } = options;
  const apart = options.timing !== undefined;
  const mailbox = transport.open(id, (messages) => {
    for (const message of messages) take(message);
  });
  const caller = createCaller({
    id,
    clock,
    mailbox,
    transport,
    directory,
    limits,
    responses: options.responses,
    timing: options.timing,
  });
  const { models } = caller;
  const questions = createOwnerQuestions({ id, clock, mailbox, directory, models });
  const changes = createModelChanges({ id, clock, mailbox, directory, wait_ms: caller.times.ownerless_wait_ms });
  const asking = { clock, directory, models, questions, wait_ms: caller.times.ownerless_wait_ms };
  const statistics = createStatistics({ ...asking, tell: caller.tell });
  const sequences = createSequences(asking);
  const placements = createPlacements(asking);
  const explain = createExplain({ id, clock, mailbox, directory, own: caller.notes.tell });
  const shadows = createShadows({ clock, log, limits: LIMITS, infer: caller.infer, evict: sequences.evict });
  /** Streams of decoupled models are not copied. */
  const isShadowed = ({ modelName }: InferRequest) => {
    if (caller.aliases.find(modelName)?.shadow === undefined) return false;
    const found = models.find(modelName, '');
    return found.ok && !found.signature.decoupled;
  };
  const { unrecorded } = options;
  /** Of what the caller would take. */
  const refused = ({ journal }: InferRequest): ErrorInfo | null => {
    if (stopping) return STOPPING;
    return journal === true && unrecorded !== undefined ? nothingRecorded(unrecorded) : null;
  };
  let started = false;
  let retiring = false;
  let stopping = false;
  let closing: Promise<void> | undefined;
  let closed = false;
  let refusedMessages = 0;

  /** Only one that has taken its models has published what is wanted. */
  const isCoordinated = () =>
    !apart || directory.processes('coordinator').some(({ draining, starting }) => !draining && starting !== true);

  const take = (message: Message) => {
    switch (message.kind) {
      case 'response':
        if (caller.take(message)) break;
        refusedMessages++;
        log.trace({ id: message.id }, 'answer without a waiter');
        break;
      case 'stale':
        if (!questions.stale(message) && !changes.stale(message)) caller.take(message);
        break;
      case 'counted':
      case 'listed':
      case 'placed':
        questions.answered(message);
        break;
      case 'changed':
        changes.changed(message);
        break;
      case 'explained':
        explain.answered(message);
        break;
      default:
        if (!caller.take(message)) log.warn({ kind: message.kind }, 'message that no gateway takes');
    }
  };

  /** For the end: what a directory that does not answer still has of this gateway runs out by itself. */
  const tell = async (step: () => Promise<void>) => {
    try {
      await step();
    } catch (error) {
      log.warn({ err: error }, 'the directory was not told');
    }
  };

  const drain = () => {
    if (stopping) return;
    retiring = true;
    shadows.close();
    stopping = true;
    // A last coordinator that stops now need not leave its models for this gateway.
    if (started) void tell(() => directory.register({ id, role: 'gateway', draining: true }));
  };

  const stop = async (deadlineMs: number) => {
    drain();
    if (caller.waiting > 0 && deadlineMs > 0) {
      let timer: Timer | undefined;
      await new Promise<void>((resolve) => {
        caller.whenIdle(resolve);
        timer = clock.at(clock.nowUs() + deadlineMs * 1000, resolve);
      });
      timer?.cancel();
    }
    closed = true;
    caller.close(STOPPED);
    questions.close();
    changes.close();
    explain.close();
    await mailbox.close();
    await tell(() => directory.leave(id));
  };

  return {
    async start() {
      await directory.register({ id, role: 'gateway', draining: false });
      started = true;
    },
    infer(request, signal, msLeft = 0, mark = { door: 'embedded', id: '' }) {
      if (traces?.on === true) traces.sample(request.modelName);
      const error = refused(request);
      if (error !== null) return Promise.resolve({ ok: false, error });
      if (!isShadowed(request)) return caller.infer(request, { signal, msLeft, mark });
      return shadows.infer(request, (routed) => caller.infer(request, { signal, msLeft, mark, routed }));
    },
    refusal: (request) => refused(request) ?? caller.refusal(request),
    inferStream(request, signal, msLeft = 0, inFlight = undefined, mark = { door: 'embedded', id: '' }) {
      if (traces?.on === true) traces.sample(request.modelName);
      const error = refused(request);
      if (error !== null) return caller.refusedStream(error);
      const options = { signal, msLeft, inFlight, mark };
      if (!isShadowed(request)) return caller.inferStream(request, options);
      return shadows.stream(request, (routed) => caller.inferStream(request, { ...options, routed }));
    },
    refused: caller.notes.refused,
    live: () => !closed,
    ready: () => !retiring && (options.strictReadiness === false || (isCoordinated() && models.allReady())),
    modelReady: (name, version) => !stopping && models.ready(name, version),
    model: (name, version = '') => models.find(name, version),
    cancelJob(model, id) {
      const owner = closed ? undefined : directory.owner(model)?.owner;
      if (owner !== undefined) mailbox.send(owner, { kind: 'cancel_job', model, id });
    },
    changes,
    statistics,
    sequences,
    placements,
    explain,
    shadows,
    routed: caller.routed,
    aliases: caller.aliases,
    coming: caller.coming,
    servedModels: models.served,
    retire() {
      retiring = true;
    },
    drain,
    close(deadlineMs = 0) {
      closing ??= stop(deadlineMs);
      return closing;
    },
    get waiting() {
      return caller.waiting;
    },
    get refusedMessages() {
      return refusedMessages;
    },
  };
}

function nothingRecorded(why: string): ErrorInfo {
  const message = `nothing can be recorded: ${why}; leave 'nereid_journal' out to have the request run`;
  return { code: 'UNAVAILABLE', message, field: 'parameters.nereid_journal' };
}
