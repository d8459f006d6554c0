import {
  CANCELLED,
  type CancelMessage,
  compareEpochs,
  type DoneEntry,
  type DoneMessage,
  type ErrorInfo,
  type FailureReason,
  type ProcessId,
  QUEUE_FULL,
  withRequestId,
} from '@nereid/protocol';
import type { Timer } from '@nereid/runtime';
import { type BatchTimes, type Decision, type InstanceKey, nextMeanTimes, type ScheduleEvent } from '@nereid/scheduler';
import { createInstancePlaces } from './instance-places.ts';
import { countExecution, countFailure, countSuccess } from './model-statistics.ts';
import { DEADLINE_PASSED, INSTANCE_LOST } from './request-error.ts';
import { countResponses, countWholeAnswers } from './response-counts.ts';
import { createRunningElsewhere } from './running-elsewhere.ts';
import {
  batchTimes,
  behindOthers,
  executeMessage,
  hasRun,
  outSinceUs,
  type SentBatch,
  unlistedBatches,
} from './sent-batch.ts';
import type { OwnedRequest, QueueParts, VersionQueue } from './version-queue.ts';

interface Entry {
  readonly request: OwnedRequest;
  running: boolean;
  /** While running: in this batch, or elsewhere at that worker. */
  batch: SentBatch | undefined;
  elsewhere: ProcessId | undefined;
  /** While running: not to run again, should its batch be lost. */
  cancelled: boolean;
  /** Batches lost with this request in them. */
  losses: number;
  deadline: Timer | undefined;
}

/** A request whose batch is lost is tried once more; the second loss may be its own doing. */
const LOSSES_MAX = 1;

const NOTHING: ReadonlySet<string> = new Set();

export function createVersionQueue(parts: QueueParts): VersionQueue {
  const { clock, mailbox, scheduler, statistics } = parts;
  const entries = new Map<string, Entry>();
  const batches = new Map<number, SentBatch>();
  const elsewhere = createRunningElsewhere();
  let closed = false;
  let wake: Timer | undefined;
  let means: BatchTimes | undefined;

  const step = (event: ScheduleEvent<OwnedRequest>) => {
    for (const decision of scheduler.step(event, clock.nowUs())) apply(decision);
    if (scheduler.waiting === 0) dropWake();
  };

  const dropWake = () => {
    wake?.cancel();
    wake = undefined;
  };

  const apply = (decision: Decision<OwnedRequest>) => {
    if (closed) return;
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
    if (!parts.holdsLease()) {
      parts.leaseLost();
      return;
    }
    const instance = places.take(key);
    if (instance === undefined) return;
    const batch: SentBatch = {
      number: parts.nextBatch(),
      epoch: parts.epoch(),
      worker: instance.worker,
      instance: key,
      requests,
      sentUs: clock.nowUs(),
    };
    batches.set(batch.number, batch);
    for (const request of requests) {
      const entry = entries.get(request.id);
      if (entry === undefined) continue;
      run(entry);
      entry.batch = batch;
    }
    mailbox.send(instance.worker, executeMessage(parts, batch, instance.index), (reason) => {
      if (reason === 'gone') self.workerGone(instance.worker);
      else refuse(batch.number);
    });
  };

  const places = createInstancePlaces({
    depth: () => parts.instanceDepth(means),
    free: (instance) => step({ type: 'instance-free', instance }),
    lost: (instance) => step({ type: 'instance-lost', instance }),
  });

  /** Takes the batch off its instance; whoever calls sees to its requests, then to the free place. */
  const closeBatch = (number: number): SentBatch | undefined => {
    const batch = batches.get(number);
    if (batch === undefined) return undefined;
    batches.delete(number);
    places.leave(batch.instance);
    return batch;
  };

  const run = (entry: Entry) => {
    entry.running = true;
    entry.deadline?.cancel();
    entry.deadline = undefined;
  };

  /** It runs at that worker already, in a batch of an earlier owner. */
  const runElsewhere = (entry: Entry, worker: ProcessId) => {
    run(entry);
    entry.elsewhere = worker;
  };

  const forget = (id: string) => {
    entries.get(id)?.deadline?.cancel();
    entries.delete(id);
    if (entries.size === 0) parts.idle();
  };

  /** Ends a request that no worker answers. */
  const end = (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => {
    if (!entries.has(request.id)) return;
    countFailure(statistics, reason, request.arrivedUs, clock.nowUs());
    parts.answer(request.message, error);
    forget(request.id);
  };

  /** The worker's mailbox is at its limit: answered as a full queue. */
  const refuse = (number: number) => {
    const batch = closeBatch(number);
    if (batch === undefined) return;
    for (const request of batch.requests) end(request, withRequestId(request.message.request, QUEUE_FULL), 'REJECTED');
    places.offer(batch.instance);
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
    entry.batch = undefined;
    entry.elsewhere = undefined;
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

  /** `sentUs`: when its batch was sent, as far as is known. */
  const settle = (request: OwnedRequest, sentUs: number, done: DoneEntry, message: DoneMessage) => {
    switch (done.result) {
      case 'ok':
        countSuccess(statistics, request.rows, request.arrivedUs, sentUs, clock.nowUs(), message.timing);
        break;
      case 'error':
        countFailure(statistics, 'BACKEND', request.arrivedUs, clock.nowUs());
        break;
      case 'cancelled':
        countFailure(statistics, 'CANCELED', request.arrivedUs, clock.nowUs());
        break;
      case 'duplicate':
        // The first copy is counted where it runs.
        break;
      case 'blob': {
        // Nothing was executed; its sender has the data and sends it again (R29).
        const entry = entries.get(request.id);
        if (entry === undefined) return;
        if (entry.cancelled) {
          end(request, CANCELLED, 'CANCELED');
          return;
        }
        forget(request.id);
        mailbox.send(request.message.replyTo, { kind: 'missing', model: parts.model, id: request.id });
        return;
      }
      case 'noslot': {
        // Its worker takes no more: it runs elsewhere, which is no loss.
        const entry = entries.get(request.id);
        if (entry !== undefined) requeue(entry);
        return;
      }
      default:
        end(request, { code: 'INTERNAL', message: `the worker did not run the request: ${done.result}` }, 'OTHER');
        return;
    }
    forget(request.id);
  };

  /** `rows`: of the requests that were in the batch when it ran. */
  const countBatch = ({ timing, entries: done, responses }: DoneMessage, rows: number) => {
    countExecution(statistics, rows, timing, clock.wallMs());
    if (responses !== undefined) countResponses(statistics.responses, responses);
    else if (parts.decoupled) countWholeAnswers(statistics.responses, done, timing);
  };

  /** Of a batch that an earlier owner sent, or this one before its worker was held for gone. */
  const otherDone = (message: DoneMessage) => {
    let rows = 0;
    for (const done of message.entries) {
      const entry = entries.get(done.id);
      // What has not come here again is one row for all that is known of it.
      if (hasRun(done)) rows += entry?.request.rows ?? 1;
      if (elsewhere.worker(done.id) !== message.worker) continue;
      elsewhere.delete(done.id);
      if (entry?.elsewhere === message.worker) settle(entry.request, entry.request.arrivedUs, done, message);
    }
    if (message.executed) countBatch(message, rows);
    places.otherLeft(`${message.worker}/${message.instance}`);
  };

  /** What the worker no longer runs is queued again; what it runs already is not run a second time. */
  const takeOver = (worker: ProcessId, running: ReadonlySet<string>) => {
    const { found, over } = elsewhere.replace(worker, running, (id) => entries.get(id)?.batch !== undefined);
    for (const id of found) {
      const entry = entries.get(id);
      if (entry === undefined || entry.running) continue;
      runElsewhere(entry, worker);
      step({ type: 'cancelled', id });
    }
    return over.flatMap((id) => {
      const entry = entries.get(id);
      return entry?.elsewhere === worker ? [entry] : [];
    });
  };

  /** A stream is not sent again once it has begun: a later owner knows it only from its worker. */
  const cancelElsewhere = (message: CancelMessage): boolean => {
    const worker = elsewhere.worker(message.id);
    if (worker !== undefined) mailbox.send(worker, { ...message, epoch: parts.epoch() });
    return worker !== undefined;
  };

  const isOurs = (number: number, instance: InstanceKey) => batches.get(number)?.instance === instance;

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
      const entry: Entry = {
        request,
        running: false,
        batch: undefined,
        elsewhere: undefined,
        cancelled: false,
        losses: 0,
        deadline: undefined,
      };
      entries.set(request.id, entry);
      const worker = elsewhere.worker(request.id);
      if (worker === undefined) enqueue(entry);
      else runElsewhere(entry, worker);
    },
    cancel(message) {
      const entry = entries.get(message.id);
      if (entry === undefined) return cancelElsewhere(message);
      if (leave(message.id, CANCELLED, 'CANCELED')) return true;
      entry.cancelled = true;
      const worker = entry.batch?.worker ?? entry.elsewhere;
      if (worker !== undefined) mailbox.send(worker, { ...message, epoch: parts.epoch() });
      return true;
    },
    describe(worker, { instances, running, sentUpTo }) {
      const lost = unlistedBatches(batches.values(), worker, running, sentUpTo);
      for (const batch of lost) closeBatch(batch.number);
      const over = takeOver(worker, running);
      places.describe(worker, instances, isOurs);
      for (const batch of lost) for (const request of batch.requests) retry(request);
      for (const entry of over) requeue(entry);
    },
    withdraw: places.withdraw,
    workerGone(worker) {
      places.withdraw(worker);
      const lost = [...batches.values()].filter((batch) => batch.worker === worker);
      for (const batch of lost) closeBatch(batch.number);
      const over = takeOver(worker, NOTHING);
      for (const batch of lost) for (const request of batch.requests) retry(request);
      for (const entry of over) retry(entry.request);
    },
    outSinceUs: (worker) => outSinceUs(batches.values(), worker),
    done(message) {
      const sent = batches.get(message.batch);
      if (sent?.worker !== message.worker || compareEpochs(sent.epoch, message.epoch) !== 0) {
        otherDone(message);
        return;
      }
      const batch = closeBatch(message.batch);
      if (batch === undefined) return;
      if (message.executed) means = nextMeanTimes(means, batchTimes(message.timing, clock.nowUs() - batch.sentUs));
      if (message.entries.some(({ result }) => result === 'noslot')) places.withdraw(message.worker);
      let rows = 0;
      for (const [index, request] of batch.requests.entries()) {
        const inOrder = message.entries[index];
        const result = inOrder?.id === request.id ? inOrder : message.entries.find(({ id }) => id === request.id);
        if (result === undefined) {
          retry(request);
          continue;
        }
        if (hasRun(result)) rows += request.rows;
        settle(request, batch.sentUs, result, message);
      }
      if (message.executed) countBatch(message, rows);
      places.offer(batch.instance);
    },
    undelivered(number, sent) {
      const known = batches.get(number);
      if (known === undefined || compareEpochs(known.epoch, sent) !== 0) return;
      closeBatch(number);
      for (const { id } of known.requests) {
        const entry = entries.get(id);
        if (entry !== undefined) requeue(entry);
      }
      places.offer(known.instance);
    },
    failQueued(error) {
      for (const [id, entry] of entries) if (!entry.running) leave(id, error, 'OTHER');
    },
    close(error) {
      places.clear();
      self.failQueued(error);
      self.abandon();
    },
    abandon() {
      closed = true;
      for (const id of [...entries.keys()]) forget(id);
      batches.clear();
      places.clear();
      dropWake();
    },
  };
  return self;
}
