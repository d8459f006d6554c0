import {
  CANCELLED,
  type EntryResult,
  type ErrorInfo,
  type FailureReason,
  noteEvent,
  type ProcessId,
  type StepOrder,
  senderOf,
  versionAsked,
} from '@nereid/protocol';
import type { ScheduleEvent, SequenceStep, SessionClose } from '@nereid/scheduler';
import { type Entry, LOSSES_MAX, type RequestEntries } from './request-entries.ts';
import { INSTANCE_LOST, RUN_LOST } from './request-error.ts';
import type { SentBatch } from './sent-batch.ts';
import { startedSession } from './session-arrival.ts';
import type { KnownSequence, Session, StepArrival } from './session-book.ts';
import type { DescribedSessions } from './session-described.ts';
import { createSessionDesk } from './session-desk.ts';
import type { DeskDecision, DeskEvent } from './session-events.ts';
import type { OwnedRequest, QueueParts } from './version-queue.ts';
import { createWakeTimer } from './wake-timer.ts';

export interface SequenceStepsParts {
  readonly queue: QueueParts;
  readonly entries: RequestEntries;
  readonly step: (event: ScheduleEvent<OwnedRequest>) => void;
  /** Ends a request that no worker answers. */
  readonly end: (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => void;
  /** It waits here, until its deadline. */
  readonly wait: (entry: Entry) => void;
  /** Puts it back at the head of its session. */
  readonly requeue: (entry: Entry) => void;
  /** Has a worker answer a step of a session that is over. */
  readonly replay: (request: OwnedRequest, worker: ProcessId, instance: number) => void;
  /** It runs at that worker in another batch. */
  readonly runElsewhere: (entry: Entry, worker: ProcessId) => void;
}

/** While steps are held: how often to look whether one is for too long. */
const HELD_LOOK_US = 1_000_000;

/** The steps of one model version: what the desk decides of them (session-desk.ts), carried out. */
export interface SequenceSteps {
  arrive(request: OwnedRequest): void;
  /** Of a step that is known here: what it waits for may be over by now. */
  copy(message: OwnedRequest['message']): void;
  /** The session that it is a step of, where that is known here. */
  finds(request: OwnedRequest['message']): KnownSequence | undefined;
  /** The session of that id that goes on here. */
  sequenceOf(correlationId: bigint | string): string | undefined;
  /** Its data are to be sent again. */
  awaits(id: string): boolean;
  /** It has a slot, whose worker goes on with it. */
  isPlaced(id: string): boolean;
  sent(batch: SentBatch, instance: number, slots: readonly number[]): void;
  /** What its worker is told of the step. */
  order(request: OwnedRequest): { readonly session: string | null; readonly step: StepOrder };
  /** Its batch is over, and what is counted of it is counted. */
  over(request: OwnedRequest, result: EntryResult, worker: ProcessId): void;
  returned(entry: Entry): void;
  /** The owner has answered it with that error. */
  failed(id: string, error: ErrorInfo): void;
  /** The sender of a step that is not known here has given it up, and the session that it names. */
  givenUp(session: string): void;
  /** Ends the session, if it lives here, and its steps with that error. */
  evict(session: string, error: ErrorInfo): void;
  closed(session: string, why: SessionClose): void;
  described(held: DescribedSessions): void;
  gone(worker: ProcessId): void;
  /** Held, and not with the scheduler. */
  readonly held: number;
  /** Sessions that live. */
  readonly sessions: ReadonlyMap<string, Session>;
  /** Nothing more is done; no timer is left. */
  abandon(): void;
}

/** Undefined where the model keeps no sequences. */
export function createSequenceSteps(parts: SequenceStepsParts): SequenceSteps | undefined {
  const { entries } = parts;
  const { clock, mailbox, model, sequences } = parts.queue;
  if (sequences === undefined) return undefined;
  const desk = createSessionDesk(model, sequences.iterative ? () => RUN_LOST : undefined);
  const look = createWakeTimer(clock, () => tell({ type: 'time' }));

  let abandoned = false;

  const tell = (event: DeskEvent) => {
    if (abandoned) return;
    const lived = desk.sessions.size;
    const world = { nowUs: clock.nowUs(), epoch: parts.queue.epoch().number, described: sequences.described() };
    for (const decision of desk.step(event, world)) apply(decision);
    if (desk.held > 0 && !look.isSet) look.set(world.nowUs + HELD_LOOK_US);
    if (lived > 0 && desk.sessions.size === 0) parts.queue.idle();
  };

  const apply = (decision: DeskDecision) => {
    switch (decision.type) {
      case 'bound': {
        const { worker, instance, slot } = decision.place;
        parts.step({ type: 'bound', session: decision.session, instance: `${worker}/${instance}`, slot });
        return;
      }
      case 'step-over':
      case 'session-held':
      case 'session-over':
        parts.step(decision);
        return;
      case 'free': {
        const { session, worker } = decision;
        mailbox.send(worker, { kind: 'free', model, epoch: parts.queue.epoch(), session });
        return;
      }
    }
    const entry = entries.get(decision.id);
    if (entry === undefined) return;
    switch (decision.type) {
      case 'queue':
        // It was sent before, and nobody waits for it any more.
        if (entry.cancelled) {
          parts.end(entry.request, CANCELLED, 'CANCELED');
          return;
        }
        entry.request = { ...entry.request, sequence: decision.sequence };
        if (entry.running) parts.wait(entry);
        parts.step({ type: 'arrived', request: entry.request });
        return;
      case 'again':
        parts.requeue(entry);
        return;
      case 'replay':
        entry.request = { ...entry.request, sequence: toReplay(decision.session) };
        parts.replay(entry.request, decision.worker, decision.instance);
        return;
      case 'moved': {
        const { id, sent, current } = decision;
        noteEvent(entry, clock.nowUs(), 'its sender had named another session of its sequence: it is to send it again');
        parts.queue.notes.ended(parts.queue, entry, { state: 'left' });
        entries.forget(id);
        mailbox.send(entry.request.message.replyTo, { kind: 'moved', model, id, sent, current });
        return;
      }
      case 'fail':
        parts.end(entry.request, decision.error, decision.reason);
        return;
    }
  };

  /** `ran`: it comes back from a run of an iterative model, where only the first is told to be a START. */
  const asStep = (message: OwnedRequest['message'], ran: boolean): OwnedRequest['message'] =>
    sequences.iterative
      ? { ...message, request: { ...message.request, sequenceStart: !ran, sequenceEnd: false } }
      : message;

  const hasRun = ({ message }: OwnedRequest) => sequences.iterative && !message.request.sequenceStart;

  /** An iterative request is a sequence by itself, named by its id. */
  const arrivalOf = ({ id, message }: OwnedRequest): StepArrival => {
    const { g, low, prev, session, step, sends, replyTo, request } = message;
    const { correlationId, sequenceStart, sequenceEnd } = request;
    const named = { correlationId, start: sequenceStart, end: sequenceEnd };
    const { start, end, ...its } = sequences.iterative ? { correlationId: id, start: true, end: true } : named;
    const own = replyTo === mailbox.id;
    return { id, sender: senderOf(id), g, low, prev, named: session, number: step, ...its, start, end, sends, own };
  };

  return {
    arrive(request) {
      const entry = entries.get(request.id);
      const message = asStep(request.message, entry !== undefined && hasRun(entry.request));
      if (entry === undefined) parts.wait(entries.add({ ...request, message }));
      else {
        const { sequence, arrivedUs } = entry.request;
        entry.request = { ...request, message, sequence, arrivedUs };
      }
      tell({ type: 'arrived', step: arrivalOf(request) });
    },
    copy(message) {
      const entry = entries.get(message.id);
      if (entry === undefined || !desk.isHeld(message.id)) return;
      entry.request = { ...entry.request, message: asStep(message, hasRun(entry.request)) };
      tell({ type: 'arrived', step: arrivalOf(entry.request) });
    },
    finds({ id, session, step, request }) {
      if (step >= 0) return desk.knowsId(request.correlationId);
      if (request.sequenceStart) return desk.knows(startedSession({ named: session, id }));
      const named = session === null ? undefined : desk.knows(session);
      if (session !== null && (named?.live === true || !versionAsked(request.modelVersion).elsewhere)) return named;
      // One of its id may have begun anew with another version, which this step's sender has not heard of.
      const present = desk.knowsId(request.correlationId);
      return present?.live === true ? present : (named ?? present);
    },
    sequenceOf: desk.present,
    awaits: desk.awaits,
    isPlaced: desk.isPlaced,
    sent({ worker, number, requests }, instance, slots) {
      for (const [index, { id }] of requests.entries()) {
        tell({ type: 'sent', id, place: { worker, instance, slot: slots[index] ?? 0 }, batch: number });
      }
    },
    order({ id, sequence, message: { g, low, prev, step, request } }) {
      const { id: session = sequence?.session ?? null, bind = NO_BIND } = desk.sessionOf(id) ?? {};
      // What came before a START is of another session, whose marks are not those of its slot.
      return { session, step: { bind, g, low, prev: request.sequenceStart ? 0 : prev, number: step } };
    },
    over(request, result, worker) {
      const entry = entries.get(request.id);
      if (entry === undefined) return;
      switch (result) {
        case 'ok':
        case 'error':
        case 'cancelled':
        case 'replayed':
        case 'refused':
          {
            const session = desk.sessionOf(request.id);
            entries.forget(request.id);
            tell({ type: 'over', id: request.id, result });
            // Its sender has given it up, and what follows it.
            if (entry.cancelled && request.message.step < 0 && session !== undefined)
              tell({ type: 'evicted', session: session.id, error: CANCELLED });
          }
          return;
        case 'blob':
          if (entry.cancelled) {
            parts.end(request, CANCELLED, 'CANCELED');
            return;
          }
          tell({ type: 'over', id: request.id, result });
          if (!desk.awaits(request.id)) return;
          parts.wait(entry);
          mailbox.send(request.message.replyTo, { kind: 'missing', model, id: request.id });
          return;
        case 'again':
          entry.request = { ...entry.request, message: asStep(entry.request.message, true) };
          tell({ type: 'over', id: request.id, result });
          return;
        case 'duplicate':
          parts.runElsewhere(entry, worker);
          tell({ type: 'over', id: request.id, result });
          return;
        default:
          tell({ type: 'over', id: request.id, result });
      }
    },
    returned(entry) {
      tell({ type: 'returned', id: entry.request.id });
    },
    failed(id, error) {
      tell({ type: 'failed', id, error });
    },
    givenUp(session) {
      if (desk.sessions.get(session)?.numbered === false) tell({ type: 'evicted', session, error: CANCELLED });
    },
    evict(session, error) {
      tell({ type: 'evicted', session, error });
    },
    closed(session, why) {
      // While this owner was held up nobody could reach the sequence: the next one begins to count anew (R37).
      if (why === 'idle' && !parts.queue.holdsLease()) parts.queue.leaseLost();
      else tell({ type: 'closed', session, why });
    },
    described(held) {
      tell({ type: 'described', ...(sequences.iterative ? namedBySession(held) : held) });
    },
    gone(worker) {
      for (const entry of [...entries]) {
        if (entry.batch?.worker !== worker || !entry.request.message.request.sequenceStart) continue;
        entry.losses++;
        if (entry.losses > LOSSES_MAX) parts.end(entry.request, INSTANCE_LOST, 'OTHER');
      }
      tell({ type: 'gone', worker });
    },
    get held() {
      return desk.held;
    },
    sessions: desk.sessions,
    abandon() {
      abandoned = true;
      look.drop();
    },
  };
}

/** Of a step that is only to be answered. */
const NO_BIND = { epoch: 0, n: 0 };

/** Requests of iterative models need no id: each is a sequence of its own. */
function namedBySession({ slots, ended, ...held }: DescribedSessions): DescribedSessions {
  return {
    ...held,
    slots: slots.map((slot) => ({ ...slot, correlationId: slot.session })),
    ended: ended.map((session) => ({ ...session, correlationId: session.session })),
  };
}

function toReplay(session: string): SequenceStep {
  return { session, start: false, end: false, replaces: undefined };
}
