import { type NotedEvent, noteEvent, type ProcessId } from '@nereid/protocol';
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
  /** Copies of it that came. */
  copies: number;
  /** For whoever asks what became of it. */
  events: NotedEvent[] | undefined;
  deadline: Timer | undefined;
}

/** The requests of one model version that have no outcome yet, in order of arrival, each with its deadline's timer while it is queued. */
export interface RequestEntries extends Iterable<Entry> {
  readonly size: number;
  /** Those in batches. */
  readonly running: number;
  /** Of those: not in the background. */
  readonly awaited: number;
  /** When the first that is queued, and not in the background, arrived; undefined where none is. */
  readonly oldestArrivedUs: number | undefined;
  get(id: string): Entry | undefined;
  add(request: OwnedRequest): Entry;
  /** It is queued, for the first time or again; `late` is called once its deadline passes there. It may be sent at once. */
  queue(entry: Entry, late: () => void): void;
  /**
   * To be called before anything is sent: timers of a process that stood still come late, and no request is to go
   * whose deadline has passed meanwhile.
   */
  expire(): void;
  run(entry: Entry, batch: SentBatch): void;
  /** A copy of it came, if it is known. */
  copied(id: string): void;
  /** It runs at that worker already, in a batch of an earlier owner. */
  runElsewhere(entry: Entry, worker: ProcessId): void;
  forget(id: string): void;
  /** Forgets those that are queued and still wanted, which it returns; `left` is told of each. */
  draw(left: (id: string) => void): readonly OwnedRequest[];
  /** Forgets all; each is told before. */
  clear(told: (entry: Entry) => void): void;
}

/** `idle` is called when the last one is forgotten; `order`, if any, is told where each is. */
export function createRequestEntries(clock: Clock, order: AnswerOrder | undefined, idle: () => void): RequestEntries {
  const entries = new Map<string, Entry>();
  /** Of those queued that have a deadline: what is to be done at it. */
  const deadlines = new Map<Entry, () => void>();
  /** No deadline among them is earlier. */
  let earliestUs = Number.POSITIVE_INFINITY;
  let running = 0;
  let background = 0;

  const count = ({ request }: Entry, change: 1 | -1) => {
    running += change;
    if (request.background === true) background += change;
  };

  const noDeadline = (entry: Entry) => {
    if (entry.deadline === undefined) return;
    entry.deadline.cancel();
    entry.deadline = undefined;
    deadlines.delete(entry);
  };

  const setDeadline = (entry: Entry, deadlineUs: number, late: () => void) => {
    const pass = () => {
      noDeadline(entry);
      late();
    };
    entry.deadline = clock.at(deadlineUs, pass);
    deadlines.set(entry, pass);
    earliestUs = Math.min(earliestUs, deadlineUs);
  };

  const self: RequestEntries = {
    [Symbol.iterator]: () => entries.values(),
    get running() {
      return running;
    },
    get awaited() {
      return running - background;
    },
    get size() {
      return entries.size;
    },
    get oldestArrivedUs() {
      for (const { running, request } of entries.values())
        if (!running && request.background !== true) return request.arrivedUs;
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
        copies: 0,
        events: undefined,
        deadline: undefined,
      };
      entries.set(request.id, entry);
      return entry;
    },
    queue(entry, late) {
      if (entry.running) count(entry, -1);
      entry.running = false;
      entry.batch = undefined;
      entry.elsewhere = undefined;
      const { deadlineUs, id } = entry.request;
      if (deadlineUs !== undefined) setDeadline(entry, deadlineUs, late);
      order?.waitsAgain(id);
    },
    expire() {
      if (deadlines.size === 0) return;
      const nowUs = clock.nowUs();
      if (nowUs <= earliestUs) return;
      const all = [...deadlines].map(([{ request }, pass]) => ({ deadlineUs: request.deadlineUs ?? 0, pass }));
      // Again with what stays: those that left by then made it too early.
      earliestUs = Number.POSITIVE_INFINITY;
      for (const { deadlineUs } of all) if (deadlineUs >= nowUs) earliestUs = Math.min(earliestUs, deadlineUs);
      for (const { deadlineUs, pass } of all) if (deadlineUs < nowUs) pass();
    },
    run(entry, batch) {
      if (!entry.running) count(entry, 1);
      entry.running = true;
      entry.batch = batch;
      order?.sent(entry.request.id);
      noDeadline(entry);
    },
    copied(id) {
      const entry = entries.get(id);
      if (entry !== undefined) entry.copies++;
    },
    runElsewhere(entry, worker) {
      noteEvent(entry, clock.nowUs(), `${worker} runs it already, in another batch`);
      if (!entry.running) count(entry, 1);
      entry.running = true;
      entry.elsewhere = worker;
      order?.sent(entry.request.id);
      noDeadline(entry);
    },
    forget(id) {
      const entry = entries.get(id);
      if (entry?.running === true) count(entry, -1);
      if (entry !== undefined) noDeadline(entry);
      entries.delete(id);
      order?.ended(id);
      if (entries.size === 0) idle();
    },
    draw(left) {
      const queued = [...entries.values()].filter(({ running, cancelled }) => !running && !cancelled);
      for (const { request } of queued) {
        self.forget(request.id);
        left(request.id);
      }
      return queued.map(({ request }) => request);
    },
    clear(told) {
      for (const entry of [...entries.values()]) {
        told(entry);
        self.forget(entry.request.id);
      }
    },
  };
  return self;
}
