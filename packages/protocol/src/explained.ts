/** What processes tell of requests that they have seen (GET /nereid/v1/explain), as it travels between them. */
import type { ParentCall } from './infer.ts';
import type { BatchTiming, ProcessId } from './message.ts';
import { ownText } from './own-text.ts';

/** Characters of each text that is kept of a request: its client's id, an error's text. */
export const EXPLAINED_TEXT_MAX = 256;
/** Of one request: what happened to it beside its plain way. */
const EXPLAINED_EVENTS_MAX = 16;
/** Others of its batch that are named. */
export const EXPLAINED_OTHERS_MAX = 64;
/** A request that took longer is remembered for longer. */
export const EXPLAINED_SLOW_US = 1_000_000;
/** Requests that one process tells of at a time. */
export const EXPLAINED_TOLD_MAX = 200;

/** What became of a request; `left`: it went elsewhere, or came back to be sent again, without an outcome. */
export const EXPLAINED_STATES = ['waiting', 'running', 'ok', 'error', 'left'] as const;
export type ExplainedState = (typeof EXPLAINED_STATES)[number];

export interface ExplainedEvent {
  /** Since the request came there, microseconds. */
  readonly afterUs: number;
  readonly what: string;
}

export interface ExplainedError {
  readonly code: string;
  readonly message: string;
  /** '' for none. */
  readonly reason: string;
}

/** A request as one process has seen it. */
export interface ExplainedRequest {
  /** Who tells. */
  readonly process: ProcessId;
  /** `{caller}:{g}`, as in messages: what is one for all that tell of the request. */
  readonly id: string;
  /** The client's own id, '' for none. */
  readonly requestId: string;
  readonly model: string;
  /** The caller's is the one asked for, '' for the greatest; the owner's is the one that ran. */
  readonly version: string;
  /** The id of its trace, 32 hexadecimal digits; '' for none. */
  readonly trace: string;
  /** Of an inner call. */
  readonly parent: ParentCall | null;
  /** 0n or '' for none. */
  readonly correlationId: bigint | string;
  /** When it came there, wall clock, milliseconds. */
  readonly arrivedMs: number;
  /** The same by the clock of who tells, which is exact: it tells two looks at one record from two records. */
  readonly arrivedUs: number;
  /** Until its outcome, or until now, microseconds. */
  readonly tookUs: number;
  readonly state: ExplainedState;
  readonly error: ExplainedError | null;
  readonly events: readonly ExplainedEvent[];
}

/** By whoever waits for its answer: a gateway, or what calls for an ensemble or a model. */
export interface ExplainedCall extends ExplainedRequest {
  /** How it came: `http`, `grpc`, `embedded`, or `inner` for calls that the cluster makes. */
  readonly door: string;
  /** To which it was sent last, '' for none. */
  readonly owner: ProcessId;
  readonly sends: number;
  /** Of a stream: answers that came. */
  readonly answers: number;
  /** It was answered from the response cache, and never sent. */
  readonly cached: boolean;
}

/** The batch that it was in last. */
export interface ExplainedBatch {
  readonly number: number;
  /** Why it was closed, as scheduler/schedule has it. */
  readonly reason: string;
  readonly worker: ProcessId;
  readonly instance: number;
  /** '' where its worker has not said. */
  readonly instanceName: string;
  /** Of a step of a sequence, else -1. */
  readonly slot: number;
  readonly requests: number;
  readonly rows: number;
  /** Null while it runs. */
  readonly timing: BatchTiming | null;
  /** Those that are still known. */
  readonly others: readonly { readonly id: string; readonly requestId: string }[];
}

/** By its model's owner. */
export interface ExplainedRun extends ExplainedRequest {
  /** Number of the epoch. */
  readonly epoch: number;
  /** Public id of its job, '' for none. */
  readonly job: string;
  readonly rows: number;
  /** As the client sent it, 0 for none. */
  readonly priority: number;
  /** Found waiting at its arrival; and those of them in its level or a higher one. */
  readonly waiting: number;
  readonly ahead: number;
  /** Found in batches at its arrival. */
  readonly running: number;
  /** Copies of it that came while it was known. */
  readonly copies: number;
  /** Batches that were lost with it. */
  readonly losses: number;
  /** Until its last batch was sent, or its end, or now, microseconds. */
  readonly queuedUs: number;
  /** '' where it is no step of a sequence. */
  readonly session: string;
  readonly batch: ExplainedBatch | null;
}

/** gateway → every gateway, coordinator and caller: tell me what you know of these requests. */
export interface ExplainMessage {
  readonly kind: 'explain';
  /** `{gateway id}:e{n}`. */
  readonly id: string;
  /** A token, a client's id, a job's public id, or the id of a trace; '' for none. */
  readonly about: string;
  /** And the calls that were made for requests of these tokens. */
  readonly parents: readonly string[];
  /** How many to tell at most, the newest first. */
  readonly limit: number;
}

/** Answers `explain`. */
export interface ExplainedMessage {
  readonly kind: 'explained';
  readonly id: string;
  readonly process: ProcessId;
  readonly calls: readonly ExplainedCall[];
  readonly runs: readonly ExplainedRun[];
  /** There were more. */
  readonly more: boolean;
}

/** As it is noted where it happens: by the clock of whoever notes it. Most requests have none. */
export interface NotedEvent {
  readonly atUs: number;
  readonly what: string;
}

/** Notes that something happened to a request; of very many the first ones are kept. */
export function noteEvent(request: { events: NotedEvent[] | undefined }, atUs: number, what: string): void {
  request.events ??= [];
  if (request.events.length < EXPLAINED_EVENTS_MAX) request.events.push({ atUs, what });
}

export function toldEvents(events: readonly NotedEvent[] | undefined, arrivedUs: number): readonly ExplainedEvent[] {
  return (events ?? []).map(({ atUs, what }) => ({ afterUs: atUs - arrivedUs, what }));
}

/** By what a request is found. */
export interface ExplainedNames {
  readonly id: string;
  readonly requestId: string;
  readonly job?: string;
  readonly trace: string;
  readonly parent: ParentCall | null;
}

/** Those that a question is about, as many as may be told. */
export function explained<R extends ExplainedNames>(
  requests: Iterable<R>,
  question: Pick<ExplainMessage, 'about' | 'parents' | 'limit'>,
): { readonly told: readonly R[]; readonly more: boolean } {
  const isAbout = explains(question);
  const most = Math.min(question.limit, EXPLAINED_TOLD_MAX);
  const told: R[] = [];
  for (const request of requests) {
    if (!isAbout(request)) continue;
    if (told.length === most) return { told, more: true };
    told.push(request);
  }
  return { told, more: false };
}

/** Whether a question is about a request. */
function explains({ about, parents }: Pick<ExplainMessage, 'about' | 'parents'>): (names: ExplainedNames) => boolean {
  const named = keptText(about);
  const made = new Set(parents);
  return ({ id, requestId, job, trace, parent }) => {
    if (parent !== null && made.has(parent.id)) return true;
    return named !== '' && (named === id || named === requestId || named === job || named === trace);
  };
}

/** So much of a text as is kept. */
export function keptText(text: string): string {
  return text.length <= EXPLAINED_TEXT_MAX ? text : ownText(text.slice(0, EXPLAINED_TEXT_MAX));
}

/** The id of a sequence. */
export function keptId(id: bigint | string): bigint | string {
  return typeof id === 'string' ? keptText(id) : id;
}

export function keptError(error: {
  readonly code: string;
  readonly message: string;
  readonly reason?: string;
}): ExplainedError {
  return { code: error.code, message: ownText(keptText(error.message)), reason: keptText(error.reason ?? '') };
}
