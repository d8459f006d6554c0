import type { ProcessId } from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { AnswerOrder } from './answer-order.ts';
import type { SentBatch } from './sent-batch.ts';
import type { OwnedRequest } from './version-queue.ts';

/** A request whose batch is lost is tried once more; the second loss may be its own doing. */
export const LOSSES_MAX = 1;

/** What a version's queue knows of a request beside the request itself. */
export interface Entry {
  /** Of a step of a sequence: as it was sent last. */
  request: OwnedRequest;
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

/** The requests of one model version that have no outcome yet, in order of arrival, each with its deadline's timer while it is queued. */
export interface RequestEntries extends Iterable<Entry> {
  readonly size: number;
  /** Those in batches. */
  readonly running: number;
  /** When the first that is queued arrived; undefined where none is. */
  readonly oldestArrivedUs: number | undefined;
  get(id: string): Entry | undefined;
  add(request: OwnedRequest): Entry;
  /** It is queued, for the first time or again; `late` is called once its deadline passes there. It may be sent at once. */
  queue(entry: Entry, late: () => void): void;
  run(entry: Entry, batch: SentBatch): void;
  /** It runs at that worker already, in a batch of an earlier owner. */
  runElsewhere(entry: Entry, worker: ProcessId): void;
  forget(id: string): void;
}

/** `idle` is called when the last one is forgotten; `order`, if any, is told where each is. */
export function createRequestEntries(clock: Clock, order: AnswerOrder | undefined, idle: () => void): RequestEntries {
  const entries = new Map<string, Entry>();
  let running = 0;

  const noDeadline = (entry: Entry) => {
    entry.deadline?.cancel();
    entry.deadline = undefined;
  };

  return {
    [Symbol.iterator]: () => entries.values(),
    get running() {
      return running;
    },
    get size() {
      return entries.size;
    },
    get oldestArrivedUs() {
      for (const { running, request } of entries.values()) if (!running) return request.arrivedUs;
      return undefined;
    },
    get: (id) => entries.get(id),
    add(request) {
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
      return entry;
    },
    queue(entry, late) {
      if (entry.running) running--;
      entry.running = false;
      entry.batch = undefined;
      entry.elsewhere = undefined;
      const { deadlineUs, id } = entry.request;
      if (deadlineUs !== undefined) {
        entry.deadline = clock.at(deadlineUs, () => {
          entry.deadline = undefined;
          late();
        });
      }
      order?.waitsAgain(id);
    },
    run(entry, batch) {
      if (!entry.running) running++;
      entry.running = true;
      entry.batch = batch;
      order?.sent(entry.request.id);
      noDeadline(entry);
    },
    runElsewhere(entry, worker) {
      if (!entry.running) running++;
      entry.running = true;
      entry.elsewhere = worker;
      order?.sent(entry.request.id);
      noDeadline(entry);
    },
    forget(id) {
      const entry = entries.get(id);
      if (entry?.running === true) running--;
      if (entry !== undefined) noDeadline(entry);
      entries.delete(id);
      order?.ended(id);
      if (entries.size === 0) idle();
    },
  };
}
