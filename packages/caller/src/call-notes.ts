import { LIMITS } from '@nereid/config';
import {
  type CarriedOutcome,
  type CarriedRequest,
  type ErrorInfo,
  EXPLAINED_SLOW_US,
  type ExplainedCall,
  type ExplainedError,
  type ExplainedMessage,
  type ExplainMessage,
  explained,
  keptError,
  keptId,
  keptText,
  type NotedEvent,
  type ParentCall,
  type ProcessId,
  toldEvents,
  traceId,
  versionAsked,
} from '@nereid/protocol';
import { type Clock, createRecordRing } from '@nereid/runtime';
import type { PendingRequest } from './pending.ts';

/** How a request came. */
export type CallDoor = 'http' | 'grpc' | 'embedded' | 'inner';

/** What a door keeps of a call beside its request: how it came, and under which token it is known in the cluster. */
export interface CallMark {
  readonly door: CallDoor;
  /** `{caller}:{g}`, '' until it has one. */
  id: string;
}

/** Of a call that the cluster makes. */
export function innerMark(): CallMark {
  return { door: 'inner', id: '' };
}

/** A request of which a door knows no more than its model. */
export interface UnreadRequest {
  readonly modelName: string;
  readonly modelVersion: string;
  /** '' for none, or none that could be read. */
  readonly id: string;
  /** As `traceContext` gives it. */
  readonly trace?: string | undefined;
}

/** Used again for another once it is the oldest. */
interface CallRecord {
  id: string;
  requestId: string;
  model: string;
  version: string;
  trace: string;
  parent: ParentCall | null;
  correlationId: bigint | string;
  door: CallDoor;
  /** '' where it was sent to none. */
  owner: ProcessId;
  arrivedUs: number;
  /** -1 while it waits. */
  endedUs: number;
  sends: number;
  answers: number;
  cached: boolean;
  error: ExplainedError | null;
  events: readonly NotedEvent[] | undefined;
}

export interface CallNotesParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  /** Requests that are remembered once they are over, and others that are for longer. */
  readonly recent_max?: number;
  readonly kept_max?: number;
  /** Those that have no outcome yet. */
  readonly waiting: () => Iterable<PendingRequest>;
}

/**
 * What a caller remembers of its requests for whoever asks what became of one: those that wait are told as they are,
 * of those that are over the last ones, and for longer those that failed, were sent again or took long. Tensors are
 * not kept, and texts are cut.
 */
export interface CallNotes {
  /** It has its outcome. */
  ended(request: PendingRequest, outcome: CarriedOutcome): void;
  /** It was never sent; gives it a token in `mark`. `arrivedUs`: now, if left out. */
  refused(mark: CallMark, request: UnreadRequest | CarriedRequest, error: ErrorInfo, arrivedUs?: number): void;
  /** It was answered from the response cache, or with an equal one; gives it a token in `mark`. */
  cached(mark: CallMark, request: CarriedRequest, arrivedUs?: number): void;
  tell(question: ExplainMessage): ExplainedMessage;
}

const WAITING = -1;

export function createCallNotes({
  id: process,
  clock,
  waiting,
  recent_max = LIMITS.explained_requests_max,
  kept_max = LIMITS.explained_failures_max,
}: CallNotesParts): CallNotes {
  const ring = createRecordRing({ make: emptyRecord, recent_max, kept_max, isKept });
  let unsent = 0;

  const noteUnsent = (
    mark: CallMark,
    request: UnreadRequest | CarriedRequest,
    error: ErrorInfo | null,
    arrivedUs = clock.nowUs(),
  ) => {
    const record = ring.next();
    mark.id = `${process}:r${++unsent}`;
    name(record, mark.id, mark.door, request);
    record.owner = '';
    record.arrivedUs = arrivedUs;
    record.endedUs = clock.nowUs();
    record.sends = 0;
    record.answers = 0;
    record.cached = error === null;
    record.error = error === null ? null : keptError(error);
    record.events = undefined;
  };

  function* all(): Generator<CallRecord> {
    for (const request of [...waiting()].reverse()) yield fill(emptyRecord(), request, WAITING, null);
    yield* ring.newest();
  }

  return {
    ended: (request, outcome) =>
      void fill(ring.next(), request, clock.nowUs(), outcome.ok ? null : keptError(outcome.error)),
    refused: noteUnsent,
    cached: (mark, request, arrivedUs) => noteUnsent(mark, request, null, arrivedUs),
    tell(question) {
      const nowUs = clock.nowUs();
      const wallUs = clock.wallMs() * 1000 - nowUs;
      const { told, more } = explained(all(), question);
      const calls = told.map((record) => explainedCall(process, record, nowUs, wallUs));
      return { kind: 'explained', id: question.id, process, calls, runs: [], more };
    },
  };
}

function fill(record: CallRecord, request: PendingRequest, endedUs: number, error: ExplainedError | null): CallRecord {
  const { message, mark, stream } = request;
  name(record, message.id, mark?.door ?? 'inner', message.request);
  record.owner = message.sends === 0 ? '' : message.epoch.owner;
  record.arrivedUs = request.arrivedUs;
  record.endedUs = endedUs;
  record.sends = message.sends;
  record.answers = stream?.next ?? 0;
  record.cached = false;
  record.error = error;
  record.events = request.events;
  return record;
}

function name(record: CallRecord, id: string, door: CallDoor, request: UnreadRequest | CarriedRequest): void {
  const isRead = 'inputs' in request;
  record.id = id;
  record.door = door;
  record.requestId = keptText(request.id);
  record.model = keptText(request.modelName);
  record.version = keptText(versionAsked(request.modelVersion).version);
  record.trace = request.trace === undefined ? '' : traceId(request.trace);
  record.parent = (isRead ? request.inner?.parent : undefined) ?? null;
  record.correlationId = isRead ? keptId(request.correlationId) : 0n;
}

/** One literal: with parts spread into it its members would be looked up by name, at ten times the cost. */
function emptyRecord(): CallRecord {
  return {
    id: '',
    requestId: '',
    model: '',
    version: '',
    trace: '',
    parent: null,
    correlationId: 0n,
    door: 'inner',
    owner: '',
    // No small integers where times follow: a field would change its form with the first of them.
    arrivedUs: 0.5,
    endedUs: 0.5,
    sends: 0,
    answers: 0,
    cached: false,
    error: null,
    events: undefined,
  };
}

function isKept({ error, sends, arrivedUs, endedUs }: CallRecord): boolean {
  return error !== null || sends > 1 || endedUs - arrivedUs > EXPLAINED_SLOW_US;
}

/** `wallUs`: the wall clock's time, microseconds, when the other clock was at 0. */
function explainedCall(process: ProcessId, record: CallRecord, nowUs: number, wallUs: number): ExplainedCall {
  const { arrivedUs, endedUs, events, ...told } = record;
  const waits = endedUs === WAITING;
  return {
    ...told,
    process,
    arrivedMs: (arrivedUs + wallUs) / 1000,
    arrivedUs,
    tookUs: (waits ? nowUs : endedUs) - arrivedUs,
    state: waits ? 'waiting' : record.error === null ? 'ok' : 'error',
    events: toldEvents(events, arrivedUs),
  };
}
