import { LIMITS } from '@nereid/config';
import {
  type BatchTiming,
  type DoneMessage,
  type ErrorInfo,
  EXPLAINED_OTHERS_MAX,
  EXPLAINED_SLOW_US,
  type ExplainedBatch,
  type ExplainedError,
  type ExplainedMessage,
  type ExplainedRun,
  type ExplainedState,
  type ExplainMessage,
  explained,
  type InferMessage,
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
import type { Entry } from './request-entries.ts';
import type { BatchSource } from './sent-batch.ts';
import type { OwnedRequest } from './version-queue.ts';

/** Used again for another once it is the oldest. Numbers, texts and what is small: no request stays for it. */
interface RunRecord {
  id: string;
  requestId: string;
  model: string;
  version: string;
  job: string;
  trace: string;
  parent: ParentCall | null;
  correlationId: bigint | string;
  session: string;
  state: ExplainedState;
  error: ExplainedError | null;
  events: readonly NotedEvent[] | undefined;
  epoch: number;
  arrivedUs: number;
  sentUs: number;
  /** Now, while it has no outcome. */
  endedUs: number;
  rows: number;
  priority: number;
  waiting: number;
  ahead: number;
  running: number;
  copies: number;
  losses: number;
  /** -1 where it was in none. */
  batch: number;
  reason: string;
  worker: ProcessId;
  instance: number;
  instanceName: string;
  slot: number;
  requests: number;
  batchRows: number;
  /** One for all of its batch; null while it runs. */
  timing: BatchTiming | null;
}

/** Of a request without an outcome, made when somebody asks. */
interface LiveRecord extends RunRecord {
  /** In its batch, itself too. */
  readonly together: readonly OwnedRequest[];
}

type Source = Pick<BatchSource, 'model' | 'version' | 'epoch'>;

/** What a queue knows of a request that is noted. */
export type NotedEntry = Pick<Entry, 'request' | 'running' | 'batch' | 'elsewhere' | 'losses' | 'copies' | 'events'>;

/** Of a request that runs from its arrival on, in no batch. */
export const IN_NO_BATCH = {
  running: true,
  batch: undefined,
  elsewhere: undefined,
  losses: 0,
  copies: 0,
  events: undefined,
};

/** A request without an outcome, with the version whose queue has it. */
export interface LiveRun {
  readonly source: Source;
  readonly entry: NotedEntry;
}

/** How a request ended. */
export interface RunEnd {
  readonly state: ExplainedState;
  readonly error?: ErrorInfo | null;
  /** What its worker said of its batch. */
  readonly done?: Pick<DoneMessage, 'timing'> & Partial<Pick<DoneMessage, 'worker' | 'batch' | 'instance'>>;
}

/**
 * What a coordinator remembers of the requests that it had in its queues, for whoever asks what became of one: the last
 * ones, and for longer those that failed, lost a batch or took long.
 */
export interface RunNotes {
  /** It is over here. */
  ended(source: Source, entry: NotedEntry, end: RunEnd): void;
  /** It came to no queue. */
  refused(message: InferMessage, error: ErrorInfo): void;
  tell(question: ExplainMessage, live: Iterable<LiveRun>): ExplainedMessage;
  /** Of one request by its token; `end` of one that has its outcome and is not noted yet. */
  of(id: string, live: LiveRun | undefined, end: RunEnd | undefined): ExplainedRun | undefined;
}

export interface RunNotesParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly recent_max?: number;
  readonly kept_max?: number;
}

const NONE = -1;

export function createRunNotes({
  id: process,
  clock,
  recent_max = LIMITS.explained_requests_max,
  kept_max = LIMITS.explained_failures_max,
}: RunNotesParts): RunNotes {
  const ring = createRecordRing({ make: emptyRecord, recent_max, kept_max, isKept });

  function* all(live: Iterable<LiveRun>): Generator<RunRecord | LiveRecord> {
    const nowUs = clock.nowUs();
    for (const run of [...live].reverse()) yield liveRecord(run, { state: stateOf(run.entry) }, nowUs);
    yield* ring.newest();
  }

  /** What is found of batches that are over is looked up at most once. */
  const told = (records: readonly (RunRecord | LiveRecord)[]): readonly ExplainedRun[] => {
    const wallUs = clock.wallMs() * 1000 - clock.nowUs();
    let batches: ReadonlyMap<number, readonly RunRecord[]> | undefined;
    return records.map((record) => {
      if (record.requests < 2) return explainedRun(process, record, wallUs, []);
      if ('together' in record) return explainedRun(process, record, wallUs, othersIn(record.id, record.together));
      batches ??= byBatch(ring.newest());
      return explainedRun(process, record, wallUs, othersOf(record, batches.get(record.batch) ?? []));
    });
  };

  return {
    ended: (source, entry, end) => void fill(ring.next(), source, entry, end, clock.nowUs()),
    refused(message, error) {
      const record = ring.next();
      Object.assign(record, emptyRecord());
      name(record, message);
      record.epoch = message.epoch.number;
      record.state = 'error';
      record.error = keptError(error);
      record.arrivedUs = clock.nowUs();
      record.endedUs = record.arrivedUs;
    },
    tell(question, live) {
      const found = explained(all(live), question);
      return { kind: 'explained', id: question.id, process, calls: [], runs: told(found.told), more: found.more };
    },
    of(id, live, end) {
      if (live !== undefined) {
        const { source, entry } = live;
        const nowUs = clock.nowUs();
        const record = fill(emptyRecord(), source, entry, end ?? { state: stateOf(entry) }, nowUs);
        const others = record.requests < 2 ? [] : othersIn(id, entry.batch?.requests ?? []);
        return explainedRun(process, record, clock.wallMs() * 1000 - nowUs, others);
      }
      for (const record of ring.newest()) if (record.id === id) return told([record])[0];
      return undefined;
    },
  };
}

function stateOf({ running }: NotedEntry): ExplainedState {
  return running ? 'running' : 'waiting';
}

function liveRecord({ source, entry }: LiveRun, end: RunEnd, nowUs: number): LiveRecord {
  return { ...fill(emptyRecord(), source, entry, end, nowUs), together: entry.batch?.requests ?? [] };
}

function fill(
  record: RunRecord,
  source: Source,
  entry: NotedEntry,
  { state, error, done }: RunEnd,
  nowUs: number,
): RunRecord {
  const { request, batch } = entry;
  name(record, request.message);
  record.version = source.version;
  record.job = keptText(request.job);
  record.session = request.sequence?.session ?? '';
  record.state = state;
  record.error = error === undefined || error === null ? null : keptError(error);
  record.events = entry.events;
  record.epoch = source.epoch().number;
  record.arrivedUs = request.arrivedUs;
  record.sentUs = batch?.sentUs ?? nowUs;
  record.endedUs = nowUs;
  record.rows = request.rows;
  record.priority = request.priority;
  record.waiting = request.foundWaiting;
  record.ahead = request.foundAhead;
  record.running = request.foundRunning;
  record.copies = entry.copies;
  record.losses = entry.losses;
  record.batch = batch?.number ?? done?.batch ?? NONE;
  record.reason = batch?.reason ?? '';
  record.worker = batch?.worker ?? done?.worker ?? entry.elsewhere ?? '';
  record.instance = batch?.index ?? done?.instance ?? NONE;
  record.instanceName = batch?.instanceName ?? '';
  record.slot = batch?.slots?.[batch.requests.indexOf(request)] ?? NONE;
  record.requests = batch?.requests.length ?? 0;
  record.batchRows = batch?.rows ?? 0;
  record.timing = done?.timing ?? null;
  return record;
}

function name(record: RunRecord, { id, model, request }: InferMessage): void {
  record.id = id;
  record.requestId = keptText(request.id);
  record.model = model;
  record.version = keptText(versionAsked(request.modelVersion).version);
  record.trace = request.trace === undefined ? '' : traceId(request.trace);
  record.parent = request.inner?.parent ?? null;
  record.correlationId = keptId(request.correlationId);
}

/** One literal: with parts spread into it its members would be looked up by name, at ten times the cost. */
function emptyRecord(): RunRecord {
  return {
    id: '',
    requestId: '',
    model: '',
    version: '',
    job: '',
    trace: '',
    parent: null,
    correlationId: 0n,
    session: '',
    state: 'waiting',
    error: null,
    events: undefined,
    epoch: 0,
    // No small integers where times follow: a field would change its form with the first of them.
    arrivedUs: 0.5,
    sentUs: 0.5,
    endedUs: 0.5,
    rows: 0,
    priority: 0,
    waiting: 0,
    ahead: 0,
    running: 0,
    copies: 0,
    losses: 0,
    batch: NONE,
    reason: '',
    worker: '',
    instance: NONE,
    instanceName: '',
    slot: NONE,
    requests: 0,
    batchRows: 0,
    timing: null,
  };
}

function isKept({ state, losses, arrivedUs, endedUs }: RunRecord): boolean {
  return state === 'error' || losses > 0 || endedUs - arrivedUs > EXPLAINED_SLOW_US;
}

/** The records of batches of several, by their number, which is another in each epoch of a model alone. */
function byBatch(records: Iterable<RunRecord>): ReadonlyMap<number, readonly RunRecord[]> {
  const batches = new Map<number, RunRecord[]>();
  for (const record of records) {
    if (record.requests < 2) continue;
    const known = batches.get(record.batch);
    if (known === undefined) batches.set(record.batch, [record]);
    else known.push(record);
  }
  return batches;
}

function othersOf(record: RunRecord, numbered: readonly RunRecord[]): ExplainedBatch['others'] {
  const { id, model, version, epoch } = record;
  return numbered
    .filter((other) => other.model === model && other.version === version && other.epoch === epoch && other.id !== id)
    .slice(0, EXPLAINED_OTHERS_MAX)
    .map((other) => ({ id: other.id, requestId: other.requestId }));
}

function othersIn(id: string, together: readonly OwnedRequest[]): ExplainedBatch['others'] {
  const others: ExplainedBatch['others'][number][] = [];
  for (const other of together) {
    if (others.length === EXPLAINED_OTHERS_MAX) break;
    if (other.id !== id) others.push({ id: other.id, requestId: keptText(other.message.request.id) });
  }
  return others;
}

/** `wallUs`: the wall clock's time, microseconds, when the other clock was at 0. */
function explainedRun(
  process: ProcessId,
  record: RunRecord,
  wallUs: number,
  others: ExplainedBatch['others'],
): ExplainedRun {
  const { arrivedUs, sentUs, endedUs } = record;
  // One literal, as each job's end makes one: put together of parts it would take several times as long.
  return {
    process,
    id: record.id,
    requestId: record.requestId,
    model: record.model,
    version: record.version,
    job: record.job,
    trace: record.trace,
    parent: record.parent,
    correlationId: record.correlationId,
    session: record.session,
    state: record.state,
    error: record.error,
    epoch: record.epoch,
    rows: record.rows,
    priority: record.priority,
    waiting: record.waiting,
    ahead: record.ahead,
    running: record.running,
    copies: record.copies,
    losses: record.losses,
    arrivedMs: (arrivedUs + wallUs) / 1000,
    arrivedUs,
    tookUs: endedUs - arrivedUs,
    queuedUs: Math.max(0, sentUs - arrivedUs),
    events: toldEvents(record.events, arrivedUs),
    batch: record.batch === NONE ? null : explainedBatch(record, others),
  };
}

function explainedBatch(record: RunRecord, others: ExplainedBatch['others']): ExplainedBatch {
  const { batch, reason, worker, instance, instanceName, slot, requests, batchRows, timing } = record;
  return { number: batch, reason, worker, instance, instanceName, slot, requests, rows: batchRows, timing, others };
}
