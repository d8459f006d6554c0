import {
  CANCELLED,
  type CancelMessage,
  compareEpochs,
  type ErrorInfo,
  type FailureReason,
  noteEvent,
  type ProcessId,
  QUEUE_FULL,
  QUEUE_TIMEOUT,
  SEQUENCE_TIMEOUT,
  withRequestId,
} from '@nereid/protocol';
import { type BatchTimes, type Decision, type InstanceKey, nextMeanTimes, type ScheduleEvent } from '@nereid/scheduler';
import { createBatchEnds } from './batch-ends.ts';
import { createInstancePlaces } from './instance-places.ts';
import { countFailure } from './model-statistics.ts';
import { createRequestEntries, type Entry, LOSSES_MAX } from './request-entries.ts';
import { INSTANCE_LOST } from './request-error.ts';
import { createRunningElsewhere, takeOverRunning } from './running-elsewhere.ts';
import { createRunningWord } from './running-word.ts';
import {
  batchTimes,
  behindOthers,
  executeMessage,
  newBatch,
  outSinceUs,
  ranOf,
  type SentBatch,
  unlistedBatches,
} from './sent-batch.ts';
import { listSequences } from './sequence-list.ts';
import { createSequenceSteps } from './sequence-steps.ts';
import { createSpareInstances } from './spare-instances.ts';
import type { OwnedRequest, QueueParts, VersionQueue } from './version-queue.ts';
import { createWakeTimer } from './wake-timer.ts';

type Dispatch = Extract<Decision<OwnedRequest>, { type: 'dispatch' }>;
const NOTHING: ReadonlySet<string> = new Set();

export function createVersionQueue(parts: QueueParts): VersionQueue {
  const { clock, mailbox, order, scheduler, statistics } = parts;
  const entries = createRequestEntries(clock, order, parts.idle);
  const batches = new Map<number, SentBatch>();
  const elsewhere = createRunningElsewhere();
  const tellRunning = createRunningWord(scheduler);
  const wake = createWakeTimer(clock, () => step({ type: 'time' }));
  let closed = false;
  let means: BatchTimes | undefined;
  /** Requests came back, of which the scheduler has not decided yet. */
  let cameBack = false;

  const step = (event: ScheduleEvent<OwnedRequest>) => {
    entries.expire();
    if (scheduler.wants?.running === true) tellRunning(entries.awaited, means, clock.nowUs());
    for (const decision of scheduler.step(event, clock.nowUs())) apply(decision);
    if (scheduler.waiting === 0 && scheduler.needsWake !== true) wake.drop();
    background.offer();
  };

  /** To be called once all are there that come back together; an instance that got no place anew may run nothing now. */
  const decideReturned = () => {
    if (!cameBack) return background.offer();
    cameBack = false;
    step({ type: 'time' });
  };

  const apply = (decision: Decision<OwnedRequest>) => {
    if (closed) return;
    switch (decision.type) {
      case 'dispatch':
        dispatch(decision);
        break;
      case 'reject':
        refuse(decision);
        break;
      case 'closed':
        steps?.closed(decision.session, decision.why);
        break;
      case 'listen':
        mailbox.send(mailbox.id, { kind: 'echo', model: parts.model, sentUs: clock.nowUs() });
        break;
      case 'wake':
        wake.set(decision.atUs);
        break;
    }
  };

  /** Of what Triton's queues refuse, time-outs alone come without the request's id. */
  const refuse = ({ request, error }: Extract<Decision<OwnedRequest>, { type: 'reject' }>) => {
    const isPlain = error === QUEUE_TIMEOUT || error === SEQUENCE_TIMEOUT;
    end(request, isPlain ? error : withRequestId(request.message.request, error), 'REJECTED');
  };

  const dispatch = ({ instance: key, batch: requests, reason, slots }: Dispatch) => {
    if (!parts.holdsLease()) {
      parts.leaseLost();
      return;
    }
    const instance = places.take(key);
    if (instance === undefined) return;
    send({ ...newBatch(parts, instance, requests, clock.nowUs()), reason, slots }, instance.index);
  };

  const send = (batch: SentBatch, instance: number) => {
    batches.set(batch.number, batch);
    for (const request of batch.requests) {
      const entry = entries.get(request.id);
      if (entry !== undefined) entries.run(entry, batch);
    }
    if (batch.slots !== undefined) steps?.sent(batch, instance, batch.slots);
    mailbox.send(batch.worker, executeMessage(parts, batch, instance, steps?.order), (reason) => {
      if (reason === 'gone') self.workerGone(batch.worker);
      else refuseBatch(batch.number);
    });
  };

  const places = createInstancePlaces({
    depth: () => (order?.full === true ? 0 : parts.instanceDepth(means)),
    free: (instance) => step({ type: 'instance-free', instance }),
    lost: (instance) => step({ type: 'instance-lost', instance }),
    draining: (instance) => step({ type: 'instance-draining', instance }),
  });

  const background = createSpareInstances(scheduler, places.spare, step);
  order?.listen({
    room: places.offerAll,
    cancel(id) {
      const entry = entries.get(id);
      if (entry === undefined) return;
      const { model, epoch, g, low, session } = entry.request.message;
      cancelRunning(entry, { kind: 'cancel', model, epoch, id, g, low, session });
    },
  });

  /** Takes the batch off its instance; whoever calls sees to its requests, then to the free place. */
  const closeBatch = (number: number): SentBatch | undefined => {
    const batch = batches.get(number);
    if (batch === undefined) return undefined;
    batches.delete(number);
    if (!batch.answersOnly) places.leave(batch.instance);
    return batch;
  };

  /** Ends a request that no worker answers. */
  const end = (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => {
    const entry = entries.get(request.id);
    if (entry === undefined) return;
    parts.notes.ended(parts, entry, { state: 'error', error });
    countFailure(statistics, reason, request.arrivedUs, clock.nowUs());
    if (order?.refuse(request.message, error) !== true) parts.answer(request.message, error);
    entries.forget(request.id);
    steps?.failed(request.id, error);
  };

  /** The worker's mailbox is at its limit: answered as a full queue. */
  const refuseBatch = (number: number) => {
    const batch = closeBatch(number);
    if (batch === undefined) return;
    for (const request of batch.requests) refuse({ type: 'reject', request, error: QUEUE_FULL });
    places.offer(batch.instance);
  };

  /** Puts the request of a lost batch back, or fails it; `decideReturned` follows. */
  const retry = (request: OwnedRequest) => {
    const entry = entries.get(request.id);
    if (entry === undefined) return;
    noteEvent(entry, clock.nowUs(), `its batch was lost at ${entry.batch?.worker ?? entry.elsewhere ?? 'its worker'}`);
    if (steps !== undefined) {
      // Its worker knows whether it was applied.
      steps.returned(entry);
      return;
    }
    entry.losses++;
    if (entry.losses > LOSSES_MAX && !entry.cancelled) end(request, INSTANCE_LOST, 'OTHER');
    else requeue(entry);
  };

  const requeue = (entry: Entry) => {
    const { request } = entry;
    if (entry.cancelled) {
      end(request, CANCELLED, 'CANCELED');
      return;
    }
    cameBack = true;
    // There first: that it waits again may make room for a batch, which is to be its own.
    step({ type: 'returned', request });
    queue(entry);
  };

  /** Its batch was not lost, and has not run it. */
  const comesBack = (entry: Entry) => {
    noteEvent(entry, clock.nowUs(), `it was not run at ${entry.batch?.worker ?? entry.elsewhere}`);
    if (steps === undefined) requeue(entry);
    else steps.returned(entry);
  };

  const queue = (entry: Entry) => entries.queue(entry, () => leave(entry.request.id, QUEUE_TIMEOUT, 'REJECTED'));

  /** Ends a queued request at once; false where it is not queued. */
  const leave = (id: string, error: ErrorInfo, reason: FailureReason): boolean => {
    const entry = entries.get(id);
    if (entry === undefined || entry.running) return false;
    // First over, then out of the scheduler: its leaving may let others go. A step has left it with its session.
    end(entry.request, error, reason);
    if (steps === undefined) step({ type: 'cancelled', id });
    return true;
  };

  const steps = createSequenceSteps({
    queue: parts,
    entries,
    step,
    end,
    wait: queue,
    requeue,
    replay(request, worker, instance) {
      const batch = newBatch(parts, { worker, index: instance, name: '' }, [request], clock.nowUs());
      if (parts.holdsLease()) send({ ...batch, answersOnly: true }, instance);
      else parts.leaseLost();
    },
    runElsewhere(entry, worker) {
      entries.runElsewhere(entry, worker);
      elsewhere.add(entry.request.id, worker);
    },
  });
  const ends = createBatchEnds({ queue: parts, entries, elsewhere, steps, end, retry, requeue });

  /** What the worker no longer runs is queued again; what it runs already is not run a second time. */
  const takeOver = (worker: ProcessId, running: ReadonlySet<string>) => {
    // A step is sent all the same, to the worker that runs it: no other step of its sequence goes before it is over.
    const leaves = steps === undefined ? (id: string) => step({ type: 'cancelled', id }) : undefined;
    return takeOverRunning({ elsewhere, entries, leaves }, worker, running);
  };

  const cancelAt = (worker: ProcessId | undefined, message: CancelMessage): boolean => {
    if (worker !== undefined) mailbox.send(worker, { ...message, epoch: parts.epoch() });
    return worker !== undefined;
  };

  /** Its worker ends it as soon as it can, and nobody runs it again. */
  const cancelRunning = (entry: Entry, message: CancelMessage) => {
    entry.cancelled = true;
    cancelAt(entry.batch?.worker ?? entry.elsewhere, message);
  };

  /** Those of a batch that have not come back from it otherwise. */
  const retryAll = (batch: SentBatch) => {
    for (const request of batch.requests) if (entries.get(request.id)?.batch === batch) retry(request);
  };

  const isOurs = (number: number, instance: InstanceKey) => batches.get(number)?.instance === instance;

  const self: VersionQueue = {
    get waiting() {
      return scheduler.waiting + (steps?.held ?? 0);
    },
    get running() {
      return entries.size - self.waiting - background.waiting;
    },
    get background() {
      return background.waiting;
    },
    get pending() {
      return self.waiting + background.waiting + behindOthers(batches.values());
    },
    get sequences() {
      return listSequences(steps?.sessions.values() ?? [], scheduler.sessions ?? [], clock.nowUs());
    },
    get oldestArrivedUs() {
      return entries.oldestArrivedUs;
    },
    get levels() {
      return scheduler.levels ?? [];
    },
    entries,
    knows: (id) => (entries.get(id) !== undefined && steps?.awaits(id) !== true) || order?.keeps(id) === true,
    takesCopy(message) {
      if (!self.knows(message.id)) return false;
      entries.copied(message.id);
      steps?.copy(message);
      return true;
    },
    finds: (message) => steps?.finds(message),
    sequenceOf: (correlationId) => steps?.sequenceOf(correlationId),
    arrive(request) {
      request.foundWaiting = self.waiting;
      request.foundRunning = entries.running;
      request.foundAhead = parts.waitingAhead(request, request.foundWaiting, scheduler.levels);
      if (steps !== undefined) {
        steps.arrive(request);
        decideReturned();
        return;
      }
      const entry = entries.add(request);
      const worker = elsewhere.worker(request.id);
      if (worker !== undefined) {
        entries.runElsewhere(entry, worker);
        return;
      }
      queue(entry);
      step({ type: 'arrived', request });
    },
    cancel(message) {
      const entry = entries.get(message.id);
      if (entry === undefined) {
        order?.dropped(message.id);
        if (message.session !== null) steps?.givenUp(message.session);
        // A stream is not sent again once it has begun: a later owner knows it only from its worker.
        return cancelAt(elsewhere.worker(message.id), message);
      }
      if (leave(message.id, CANCELLED, 'CANCELED')) return true;
      cancelRunning(entry, message);
      order?.dropped(message.id);
      return true;
    },
    evict: (session, error) => steps?.evict(session, error),
    describe(worker, held) {
      const { instances, running, sentUpTo = 0, draining } = held;
      const lost = unlistedBatches(batches.values(), worker, running, sentUpTo);
      for (const batch of lost) closeBatch(batch.number);
      const over = takeOver(worker, running);
      // Before others get the places that they leave.
      for (const batch of lost) retryAll(batch);
      for (const entry of over) comesBack(entry);
      steps?.described({ ...held, worker });
      places.describe(worker, instances, isOurs, draining);
      decideReturned();
    },
    withdraw: places.withdraw,
    drainWorker: steps === undefined ? places.withdraw : places.drain,
    workerGone(worker) {
      places.withdraw(worker);
      const lost = [...batches.values()].filter((batch) => batch.worker === worker);
      for (const batch of lost) closeBatch(batch.number);
      const over = takeOver(worker, NOTHING);
      steps?.gone(worker);
      for (const batch of lost) retryAll(batch);
      for (const entry of over) if (entries.get(entry.request.id) === entry) retry(entry.request);
      decideReturned();
    },
    outSinceUs: (worker) => outSinceUs(batches.values(), worker),
    done(message) {
      const sent = batches.get(message.batch);
      if (sent?.worker !== message.worker || compareEpochs(sent.epoch, message.epoch) !== 0) {
        ends.endedElsewhere(message);
        places.otherLeft(`${message.worker}/${message.instance}`);
        decideReturned();
        return;
      }
      const batch = closeBatch(message.batch);
      if (batch === undefined) return;
      if (message.executed) means = nextMeanTimes(means, batchTimes(message.timing, clock.nowUs() - batch.sentUs));
      if (message.executed && scheduler.wants?.ran === true) step({ type: 'ran', ...ranOf(batch, message.timing) });
      if (message.entries.some(({ result }) => result === 'noslot')) self.drainWorker(message.worker);
      const requests = ends.ended(batch, message);
      if (scheduler.wants?.answered === true && means !== undefined && requests > 0) {
        step({ type: 'answered', requests, runUs: means.runUs });
      }
      places.offer(batch.instance);
      decideReturned();
    },
    answered: (message) => order?.take(message) === true,
    undelivered(number, sent) {
      const known = batches.get(number);
      if (known === undefined || compareEpochs(known.epoch, sent) !== 0) return;
      closeBatch(number);
      const out = known.requests.flatMap(({ id }) => entries.get(id) ?? []);
      for (const entry of out) if (entry.batch === known) comesBack(entry);
      places.offer(known.instance);
      decideReturned();
    },
    heard: (upToUs) => step({ type: 'heard', upToUs }),
    drain: () => step({ type: 'draining' }),
    draw: () => (steps === undefined ? entries.draw((id) => step({ type: 'cancelled', id })) : []),
    failQueued(error, fits = () => true) {
      for (const { running, request } of entries) {
        if (!running && fits(request) && steps?.isPlaced(request.id) !== true) leave(request.id, error, 'OTHER');
      }
    },
    close(error) {
      places.clear();
      for (const { running, request } of entries) if (!running) leave(request.id, error, 'OTHER');
      self.abandon();
    },
    abandon() {
      closed = true;
      // Those behind one that is given up would else be passed on before it.
      order?.clear();
      entries.clear((entry) => parts.notes.ended(parts, entry, { state: 'left' }));
      batches.clear();
      places.clear();
      steps?.abandon();
      wake.drop();
    },
  };
  if (parts.sequences?.apart === true) self.heard(clock.nowUs());
  return self;
}
