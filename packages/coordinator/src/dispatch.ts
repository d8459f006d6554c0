import type {
  BatchTiming,
  CancelMessage,
  DoneEntry,
  DoneMessage,
  ErrorInfo,
  FailureReason,
  InferMessage,
  InstanceDescription,
  ProcessId,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import {
  type Decision,
  type InstanceKey,
  nextMeanRunUs,
  type QueuedRequest,
  type ScheduleEvent,
  type Scheduler,
} from '@nereid/scheduler';
import type { Mailbox } from '@nereid/transport';
import { countSuccess, type ModelStatistics } from './model-statistics.ts';
import { CANCELLED, DEADLINE_PASSED, INSTANCE_LOST, QUEUE_FULL, withRequestId } from './request-error.ts';
import { type BatchSource, batchOf, behindOthers, executeMessage, type SentBatch } from './sent-batch.ts';

/** A request from its arrival until its outcome. */
export interface OwnedRequest extends QueuedRequest {
  readonly message: InferMessage;
  /** Monotonic microseconds, undefined for none. Only waiting is bounded by it. */
  readonly deadlineUs: number | undefined;
}

export interface QueueParts extends BatchSource {
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  /** The next batch number of the epoch. */
  readonly nextBatch: () => number;
  readonly scheduler: Scheduler<OwnedRequest>;
  /** Batches that an instance holds at a time, running and waiting in its worker, by what one takes on average. */
  readonly instanceDepth: (meanRunUs: number | undefined) => number;
  readonly statistics: ModelStatistics;
  /** Answers the request's gateway in place of a worker. */
  readonly answer: (message: InferMessage, error: ErrorInfo) => void;
  /** Called when the last request has got its outcome. */
  readonly idle: () => void;
}

/**
 * The requests of one model version, from arrival to outcome.
 *
 * A request is *queued* from `arrive`, held by the scheduler; then *running*, part of one batch
 * that a worker holds; then over, and its id forgotten. Queued requests end here: refused,
 * cancelled, or past their deadline. Running ones end with their batch's `done`; the worker has
 * answered the gateway by then. Where a batch is lost with its worker its requests are queued once
 * more, since nobody answered them, and fail if that happens again.
 *
 * A running request that is cancelled is still in its batch, whose worker is told of it: it does not
 * run the request if it can help it, and in any case ends it as cancelled.
 *
 * An instance is *known* while its worker says that it is ready; only then does the scheduler have
 * its free places. Batches in flight outlive that: the worker of a dead instance still ends them.
 */
export interface VersionQueue {
  readonly waiting: number;
  /** Requests in batches that workers hold. */
  readonly running: number;
  /** Accepted and not yet executing: waiting here, or in a worker behind another batch. */
  readonly pending: number;
  knows(id: string): boolean;
  arrive(request: OwnedRequest): void;
  /** Nobody waits for the request any more. False where it is not known here. */
  cancel(message: CancelMessage): boolean;
  /** What a worker says that it holds of this version, all of it. */
  describe(worker: ProcessId, instances: readonly InstanceDescription[]): void;
  workerGone(worker: ProcessId): void;
  done(message: DoneMessage): void;
  /** The worker refused the batch unseen: its requests are queued again. */
  undelivered(batch: number): void;
  /** Ends every queued request with that error. */
  failQueued(error: ErrorInfo): void;
  /** Ends all and drops all timers; batches still out are no longer waited for. */
  close(error: ErrorInfo): void;
}

interface Entry {
  readonly request: OwnedRequest;
  running: boolean;
  /** While running: not to run again, should its batch be lost. */
  cancelled: boolean;
  /** Batches lost with this request in them. */
  losses: number;
  deadline: Timer | undefined;
}

interface Instance {
  readonly worker: ProcessId;
  readonly index: number;
  known: boolean;
  /** Batches out on it. */
  batches: number;
  /** Free places that the scheduler has for it. */
  places: number;
}

/** A request whose batch is lost is tried once more; the second loss may be its own doing. */
const LOSSES_MAX = 1;

export function createVersionQueue(parts: QueueParts): VersionQueue {
  const { clock, mailbox, scheduler, statistics } = parts;
  const entries = new Map<string, Entry>();
  const batches = new Map<number, SentBatch>();
  const instances = new Map<InstanceKey, Instance>();
  let wake: Timer | undefined;
  let meanRunUs: number | undefined;

  const step = (event: ScheduleEvent<OwnedRequest>) => {
    for (const decision of scheduler.step(event, clock.nowUs())) apply(decision);
    if (scheduler.waiting === 0) dropWake();
  };

  const dropWake = () => {
    wake?.cancel();
    wake = undefined;
  };

  const apply = (decision: Decision<OwnedRequest>) => {
    switch (decision.type) {
      case 'dispatch':
        dispatch(decision.instance, decision.batch);
        break;
      case 'reject':
        end(decision.request, withRequestId(decision.request.message.request, decision.error), 'REJECTED');
        break;
      case 'wake':
        dropWake();
        wake = clock.at(decision.atUs, () => {
          wake = undefined;
          step({ type: 'time' });
        });
        break;
    }
  };

  const dispatch = (key: InstanceKey, requests: readonly OwnedRequest[]) => {
    const instance = instances.get(key);
    if (instance === undefined) return;
    const batch: SentBatch = {
      number: parts.nextBatch(),
      worker: instance.worker,
      instance: key,
      requests,
      sentUs: clock.nowUs(),
    };
    batches.set(batch.number, batch);
    instance.batches++;
    instance.places--;
    for (const request of requests) {
      const entry = entries.get(request.id);
      if (entry === undefined) continue;
      entry.running = true;
      entry.deadline?.cancel();
      entry.deadline = undefined;
    }
    mailbox.send(instance.worker, executeMessage(parts, batch, instance.index), (reason) => {
      if (reason === 'gone') self.workerGone(instance.worker);
      else refuse(batch.number);
    });
  };

  /** Takes the batch off its instance; whoever calls sees to its requests, then to the free place. */
  const closeBatch = (number: number): SentBatch | undefined => {
    const batch = batches.get(number);
    const instance = batch === undefined ? undefined : instances.get(batch.instance);
    if (batch === undefined) return undefined;
    batches.delete(number);
    if (instance !== undefined) {
      instance.batches--;
      if (!instance.known && instance.batches === 0) instances.delete(batch.instance);
    }
    return batch;
  };

  /** Gives the scheduler the places that the instance has by its depth; each may take a batch at once. */
  const offer = (key: InstanceKey) => {
    const instance = instances.get(key);
    const depth = parts.instanceDepth(meanRunUs);
    while (instance?.known === true && instance.batches + instance.places < depth) {
      instance.places++;
      step({ type: 'instance-free', instance: key });
    }
  };

  const forget = (id: string) => {
    entries.get(id)?.deadline?.cancel();
    entries.delete(id);
    if (entries.size === 0) parts.idle();
  };

  /** Ends a request that no worker answers. */
  const end = (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => {
    if (!entries.has(request.id)) return;
    statistics.failure[reason]++;
    parts.answer(request.message, error);
    forget(request.id);
  };

  /** The worker's mailbox is at its limit: answered as a full queue. */
  const refuse = (number: number) => {
    const batch = closeBatch(number);
    if (batch === undefined) return;
    for (const request of batch.requests) end(request, withRequestId(request.message.request, QUEUE_FULL), 'REJECTED');
    offer(batch.instance);
  };

  /** Puts the request of a lost batch back, or fails it. */
  const retry = (request: OwnedRequest) => {
    const entry = entries.get(request.id);
    if (entry === undefined) return;
    entry.losses++;
    if (entry.losses > LOSSES_MAX && !entry.cancelled) end(request, INSTANCE_LOST, 'OTHER');
    else requeue(entry);
  };

  const requeue = (entry: Entry) => {
    if (entry.cancelled) end(entry.request, CANCELLED, 'CANCELED');
    else enqueue(entry);
  };

  const enqueue = (entry: Entry) => {
    const { request } = entry;
    entry.running = false;
    if (request.deadlineUs !== undefined) {
      entry.deadline = clock.at(request.deadlineUs, () => {
        entry.deadline = undefined;
        leave(request.id, DEADLINE_PASSED, 'REJECTED');
      });
    }
    step({ type: 'arrived', request });
  };

  /** Ends a queued request at once; false where it is not queued. */
  const leave = (id: string, error: ErrorInfo, reason: FailureReason): boolean => {
    const entry = entries.get(id);
    if (entry === undefined || entry.running) return false;
    // First over, then out of the scheduler: its leaving may let others go.
    end(entry.request, error, reason);
    step({ type: 'cancelled', id });
    return true;
  };

  const settle = (batch: SentBatch, request: OwnedRequest, done: DoneEntry, message: DoneMessage) => {
    switch (done.result) {
      case 'ok':
        countSuccess(
          statistics,
          request.rows,
          { arrivedUs: request.arrivedUs, sentUs: batch.sentUs, doneUs: clock.nowUs() },
          message.timing,
        );
        break;
      case 'error':
        statistics.failure.BACKEND++;
        break;
      case 'cancelled':
        statistics.failure.CANCELED++;
        break;
      case 'duplicate':
        // The first copy is counted where it runs.
        break;
      default:
        end(request, { code: 'INTERNAL', message: `the worker did not run the request: ${done.result}` }, 'OTHER');
        return;
    }
    forget(request.id);
  };

  const lose = (key: InstanceKey, instance: Instance) => {
    if (!instance.known) return;
    instance.known = false;
    instance.places = 0;
    if (instance.batches === 0) instances.delete(key);
    step({ type: 'instance-lost', instance: key });
  };

  const discover = (worker: ProcessId, index: number) => {
    const key = `${worker}/${index}`;
    const instance = instances.get(key) ?? { worker, index, known: false, batches: 0, places: 0 };
    if (instance.known) return;
    instances.set(key, instance);
    instance.known = true;
    offer(key);
  };

  const self: VersionQueue = {
    get waiting() {
      return scheduler.waiting;
    },
    get running() {
      return entries.size - scheduler.waiting;
    },
    get pending() {
      return scheduler.waiting + behindOthers(batches.values());
    },
    knows: (id) => entries.has(id),
    arrive(request) {
      const entry: Entry = { request, running: false, cancelled: false, losses: 0, deadline: undefined };
      entries.set(request.id, entry);
      enqueue(entry);
    },
    cancel(message) {
      const entry = entries.get(message.id);
      if (entry === undefined) return false;
      if (leave(message.id, CANCELLED, 'CANCELED')) return true;
      entry.cancelled = true;
      const batch = batchOf(message.id, batches.values());
      if (batch !== undefined) mailbox.send(batch.worker, { ...message, epoch: parts.epoch() });
      return true;
    },
    describe(worker, described) {
      const ready = new Set<number>();
      for (const instance of described) if (instance.ready && !instance.passive) ready.add(instance.index);
      for (const [key, instance] of instances) {
        if (instance.worker === worker && !ready.has(instance.index)) lose(key, instance);
      }
      for (const index of ready) discover(worker, index);
    },
    workerGone(worker) {
      for (const [key, instance] of instances) if (instance.worker === worker) lose(key, instance);
      const lost = [...batches.values()].filter((batch) => batch.worker === worker);
      for (const batch of lost) closeBatch(batch.number);
      for (const batch of lost) for (const request of batch.requests) retry(request);
    },
    done(message) {
      if (batches.get(message.batch)?.worker !== message.worker) return;
      const batch = closeBatch(message.batch);
      if (batch === undefined) return;
      if (message.executed) {
        statistics.executions++;
        meanRunUs = nextMeanRunUs(meanRunUs, runUs(message.timing));
      }
      for (const [index, request] of batch.requests.entries()) {
        const inOrder = message.entries[index];
        const result = inOrder?.id === request.id ? inOrder : message.entries.find(({ id }) => id === request.id);
        if (result === undefined) retry(request);
        else settle(batch, request, result, message);
      }
      offer(batch.instance);
    },
    undelivered(number) {
      const batch = closeBatch(number);
      if (batch === undefined) return;
      for (const { id } of batch.requests) {
        const entry = entries.get(id);
        if (entry !== undefined) requeue(entry);
      }
      offer(batch.instance);
    },
    failQueued(error) {
      for (const [id, entry] of entries) if (!entry.running) leave(id, error, 'OTHER');
    },
    close(error) {
      for (const [key, instance] of instances) lose(key, instance);
      self.failQueued(error);
      for (const id of [...entries.keys()]) forget(id);
      batches.clear();
      instances.clear();
      dropWake();
    },
  };
  return self;
}

function runUs({ inputNs, inferNs, outputNs }: BatchTiming): number {
  return (inputNs + inferNs + outputNs) / 1000;
}
