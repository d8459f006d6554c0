/** What `GET /nereid/v1/explain/{id}` answers with, and what stays with a job of its last runs. Times are milliseconds. */
import type {
  ExplainedBatch,
  ExplainedCall,
  ExplainedError,
  ExplainedEvent,
  ExplainedRequest,
  ExplainedRun,
  ExplainedState,
} from './explained.ts';

export interface ExplainedEventJson {
  /** Since the request came to that process. */
  readonly after_ms: number;
  readonly what: string;
}

export interface ExplainedErrorJson {
  readonly code: string;
  readonly message: string;
  readonly reason?: string;
}

interface ExplainedSeenJson {
  /** Who tells. */
  readonly process: string;
  /** When it came there, ISO 8601. */
  readonly arrived: string;
  readonly took_ms: number;
  readonly state: ExplainedState;
  readonly error?: ExplainedErrorJson | undefined;
  /** What happened to it beside its plain way, the first 16. */
  readonly events?: readonly ExplainedEventJson[] | undefined;
}

/** How whoever waited for its answer saw it. */
export interface ExplainedCallJson extends ExplainedSeenJson {
  readonly door: string;
  /** The coordinator that it was sent to last. */
  readonly owner?: string;
  readonly sends: number;
  /** Answers of a stream. */
  readonly answers?: number;
  readonly cached?: true;
}

export interface ExplainedBatchJson {
  readonly number: number;
  readonly close_reason?: string | undefined;
  readonly worker: string;
  readonly instance: string;
  readonly slot?: number | undefined;
  readonly requests: number;
  readonly rows: number;
  /** In the worker, until the batch began. Absent while it runs. */
  readonly wait_ms?: number | undefined;
  readonly input_ms?: number | undefined;
  readonly infer_ms?: number | undefined;
  readonly output_ms?: number | undefined;
  /** The others in it that are still known, 64 at most. */
  readonly others: readonly { readonly id: string; readonly request_id?: string }[];
}

/** How its model's owner saw it. */
export interface ExplainedRunJson extends ExplainedSeenJson {
  readonly id: string;
  readonly request_id?: string | undefined;
  readonly trace_id?: string | undefined;
  readonly job?: string | undefined;
  readonly model: string;
  readonly version: string;
  readonly epoch: number;
  readonly rows: number;
  readonly priority?: number | undefined;
  /** What it found at its arrival: waiting, those of them that went before it, and in batches. */
  readonly found: { readonly waiting: number; readonly ahead: number; readonly running: number };
  /** Until its last batch was sent. */
  readonly queued_ms: number;
  readonly copies?: number | undefined;
  readonly losses?: number | undefined;
  readonly session?: string | undefined;
  readonly batch?: ExplainedBatchJson | undefined;
}

/** One request, by all that know of it. */
export interface ExplainedRequestJson {
  /** The token under which the cluster knows it: the header `Nereid-Request-Id`. */
  readonly id: string;
  /** The client's own. */
  readonly request_id?: string;
  readonly trace_id?: string;
  readonly model: string;
  readonly version?: string;
  readonly sequence_id?: number | string;
  /** Of an inner call: the request that it was made for, and the ensemble's step. */
  readonly parent?: string;
  readonly step?: number;
  readonly job?: string;
  /** As the first that saw it: when it came, how long it took in all, and its outcome. */
  readonly arrived: string;
  readonly took_ms: number;
  readonly state: ExplainedState;
  readonly error?: ExplainedErrorJson;
  readonly call?: ExplainedCallJson;
  /** At each owner that had it, the newest first. */
  readonly runs: readonly ExplainedRunJson[];
  /** What was called for it, in order. */
  readonly calls: readonly ExplainedRequestJson[];
}

/** A job as its queue has it. */
export interface ExplainedJobJson {
  readonly id: string;
  readonly state: string;
  readonly attempts: number;
  readonly created: string;
  readonly started?: string;
  readonly finished?: string;
  readonly failed_reason?: string;
}

export interface ExplainedJson {
  /** The newest first. */
  readonly requests: readonly ExplainedRequestJson[];
  /** Where the id is that of a job. */
  readonly job?: ExplainedJobJson;
  /** There are more than were told. */
  readonly more: boolean;
  /** Processes that did not answer in time: what only they know is missing. */
  readonly unanswered: readonly string[];
}

const US_IN_MS = 1000;
const NS_IN_MS = 1_000_000;

export function callJson(call: ExplainedCall): ExplainedCallJson {
  const { door, owner, sends, answers, cached } = call;
  return {
    ...seenJson(call),
    door,
    ...(owner === '' ? {} : { owner }),
    sends,
    ...(answers === 0 ? {} : { answers }),
    ...(cached ? { cached } : {}),
  };
}

/**
 * One literal, as each job's end makes one: put together of parts it takes ten times as long. JSON leaves out what is
 * undefined.
 */
export function runJson(run: ExplainedRun): ExplainedRunJson {
  const { requestId, trace, job, error, events, priority, copies, losses, session, batch } = run;
  return {
    process: run.process,
    arrived: new Date(run.arrivedMs).toISOString(),
    took_ms: ms(run.tookUs / US_IN_MS),
    state: run.state,
    error: error === null ? undefined : errorJson(error),
    events: events.length === 0 ? undefined : events.map(eventJson),
    id: run.id,
    request_id: requestId === '' ? undefined : requestId,
    trace_id: trace === '' ? undefined : trace,
    job: job === '' ? undefined : job,
    model: run.model,
    version: run.version,
    epoch: run.epoch,
    rows: run.rows,
    priority: priority === 0 ? undefined : priority,
    found: { waiting: run.waiting, ahead: run.ahead, running: run.running },
    queued_ms: ms(run.queuedUs / US_IN_MS),
    copies: copies === 0 ? undefined : copies,
    losses: losses === 0 ? undefined : losses,
    session: session === '' ? undefined : session,
    batch: batch === null ? undefined : batchJson(batch),
  };
}

/** What is the same of a request wherever it is told, as its first words. */
export function requestHead(
  request: ExplainedCall | ExplainedRun,
): Omit<ExplainedRequestJson, 'call' | 'runs' | 'calls'> {
  const { id, requestId, trace, model, version, correlationId, parent } = request;
  const { arrived, took_ms, state, error } = seenJson(request);
  const job = 'job' in request ? request.job : '';
  return {
    ...{ id, ...namesJson({ requestId, trace, job }), model },
    ...(version === '' ? {} : { version }),
    ...(correlationId === 0n || correlationId === '' ? {} : { sequence_id: sequenceIdJson(correlationId) }),
    ...(parent === null ? {} : { parent: parent.id }),
    ...(parent === null || parent.step < 0 ? {} : { step: parent.step }),
    ...{ arrived, took_ms, state, ...(error === undefined ? {} : { error }) },
  };
}

/** Whole numbers and texts are different ids; a number that JSON readers would round is told as text. */
export function sequenceIdJson(id: bigint | string): number | string {
  if (typeof id === 'string') return id;
  return id <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(id) : String(id);
}

function namesJson({
  requestId,
  trace,
  job,
}: {
  readonly requestId: string;
  readonly trace: string;
  readonly job: string;
}) {
  return {
    ...(requestId === '' ? {} : { request_id: requestId }),
    ...(trace === '' ? {} : { trace_id: trace }),
    ...(job === '' ? {} : { job }),
  };
}

function seenJson({ process, arrivedMs, tookUs, state, error, events }: ExplainedRequest): ExplainedSeenJson {
  return {
    process,
    arrived: new Date(arrivedMs).toISOString(),
    took_ms: ms(tookUs / US_IN_MS),
    state,
    ...(error === null ? {} : { error: errorJson(error) }),
    ...(events.length === 0 ? {} : { events: events.map(eventJson) }),
  };
}

function errorJson({ code, message, reason }: ExplainedError): ExplainedErrorJson {
  return reason === '' ? { code, message } : { code, message, reason };
}

function eventJson({ afterUs, what }: ExplainedEvent): ExplainedEventJson {
  return { after_ms: ms(afterUs / US_IN_MS), what };
}

function batchJson(batch: ExplainedBatch): ExplainedBatchJson {
  const { reason, slot, timing } = batch;
  return {
    number: batch.number,
    close_reason: reason === '' ? undefined : reason,
    worker: batch.worker,
    instance: batch.instanceName || String(batch.instance),
    slot: slot < 0 ? undefined : slot,
    requests: batch.requests,
    rows: batch.rows,
    wait_ms: timing === null ? undefined : ms(timing.waitNs / NS_IN_MS),
    input_ms: timing === null ? undefined : ms(timing.inputNs / NS_IN_MS),
    infer_ms: timing === null ? undefined : ms(timing.inferNs / NS_IN_MS),
    output_ms: timing === null ? undefined : ms(timing.outputNs / NS_IN_MS),
    others: batch.others.map(({ id, requestId }) => (requestId === '' ? { id } : { id, request_id: requestId })),
  };
}

/** To the microsecond; what two clocks measured may differ by less than nothing. */
function ms(value: number): number {
  return Math.max(0, Math.round(value * 1000) / 1000);
}
