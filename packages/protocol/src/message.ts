/**
 * The messages between gateway, coordinator and worker.
 * A process has one mailbox named by its id. Within a process a message is passed by reference;
 * to another process `message-codec.ts` turns it into a frame.
 */
import type { CarriedOutcome, CarriedRequest } from './blob.ts';
import type { CachedMessage } from './cached-message.ts';
import type { ControlMessage } from './control-message.ts';
import type { ErrorInfo } from './error.ts';
import type { KeptMessage, PutMessage } from './kept-messages.ts';
import type { OfLoad } from './of-load.ts';
import type { QuestionMessage } from './question-messages.ts';
import type { VersionState } from './version-state.ts';

/** `gw-…`, `co-…`, `wk-…`: a role and random letters, new at each start. */
export type ProcessId = string;

/** A fencing epoch; compared as (number, owner). */
export interface Epoch {
  readonly number: number;
  readonly owner: ProcessId;
}

export interface ModelMessage {
  readonly model: string;
  readonly epoch: Epoch;
}

/** gateway → owner: run this request and answer to `replyTo`. */
export interface InferMessage extends ModelMessage {
  readonly kind: 'infer';
  /** `{gateway id}:{g}`. */
  readonly id: string;
  /** Rises over all requests of the gateway. */
  readonly g: number;
  /** The gateway's smallest g without a final outcome. */
  readonly low: number;
  /** g of the nearest earlier unfinished request of this correlation id here, else 0. */
  readonly prev: number;
  /** Id of the sequence's START request, null where not known or not a sequence. */
  readonly session: string | null;
  /** The client's own step number (`nereid_step`), -1 for none. */
  readonly step: number;
  /** How often this request has been sent, from 1. */
  readonly sends: number;
  /** Time left until its deadline, 0 for none. */
  readonly msLeft: number;
  readonly replyTo: ProcessId;
  readonly request: CarriedRequest;
  /** Requests for the model that the gateway is still receiving, where the model's batches are closed early and there are any. */
  readonly coming?: number;
}

/**
 * What an owner is told beyond the deadline of a request: its caller then cancels it, with an error of the caller's door.
 * Only where that cancel is lost does the owner end it (docs/protocol.md R24).
 */
export const DEADLINE_SLACK_MS = 200;

/** gateway → owner: nobody waits for this request any more. */
export interface CancelMessage extends ModelMessage {
  readonly kind: 'cancel';
  readonly id: string;
  readonly g: number;
  readonly low: number;
  readonly session: string | null;
}

/** not the owner → gateway: that was meant for another epoch; `known` is the newest seen. */
export interface StaleMessage {
  readonly kind: 'stale';
  readonly model: string;
  readonly id: string;
  readonly known: Epoch | null;
}

/** owner → gateway: the step named the wrong session; nothing was executed. */
export interface MovedMessage {
  readonly kind: 'moved';
  readonly model: string;
  readonly id: string;
  readonly sent: string | null;
  readonly current: string | null;
}

/** owner → replyTo: a worker did not find the request's data; nothing was executed (docs/protocol.md R29). */
export interface MissingMessage {
  readonly kind: 'missing';
  readonly model: string;
  readonly id: string;
}

/** In which order owners bound sessions to slots: the higher one holds (docs/protocol.md R21). */
export interface Bind {
  /** Number of the owner's epoch. */
  readonly epoch: number;
  readonly n: number;
}

/** What a worker is told of a sequence's step beside its request, its session and its slot. */
export interface StepOrder {
  readonly bind: Bind;
  /** The first three as in the sender's `infer`. */
  readonly g: number;
  readonly low: number;
  readonly prev: number;
  /** The client's own step number, -1 for none. */
  readonly number: number;
}

export interface ExecuteEntry<R = CarriedRequest> {
  readonly id: string;
  readonly replyTo: ProcessId;
  readonly request: R;
  readonly session: string | null;
  /** Sequence slot, -1 for none. */
  readonly slot: number;
  /** Absent where the model keeps no sequences. */
  readonly step?: StepOrder;
}

/** owner → worker: run these requests as one batch on that instance. */
export interface ExecuteMessage extends ModelMessage, OfLoad {
  readonly kind: 'execute';
  readonly version: string;
  /** Rises over all batches of this owner's epoch. */
  readonly batch: number;
  readonly instance: number;
  readonly entries: readonly ExecuteEntry[];
}

/**
 * worker or owner → gateway: an answer, or one chunk of it. Where an execution ends after its last
 * answer is sent, its end comes alone: a success without outputs that is `last` (Triton's empty
 * final response).
 */
export interface ResponseMessage {
  readonly kind: 'response';
  readonly model: string;
  readonly id: string;
  readonly outcome: CarriedOutcome;
  /** Names the execution, so that chunks of two runs are never mixed; of an owner's own answer see refused-execution.ts. */
  readonly execution: string;
  /** From 0, without gaps within an execution. */
  readonly chunk: number;
  readonly last: boolean;
  /** Of the batch that it ran in, with the last answer to an inner call. */
  readonly timing?: BatchTiming;
}

/**
 * `error` carries why; a `cancelled` request may have run, its answer is dropped; the others say that nothing was executed.
 * In frames each is its position here, for ever: a new one goes to the end.
 */
export const ENTRY_RESULTS = [
  'ok',
  'error',
  'cancelled',
  /** It runs already. */
  'duplicate',
  /** A step that was done before and whose answer is not kept any more, or whose state is gone. The session is over. */
  'lost',
  /** A step whose earlier one is missing. */
  'gap',
  /** Its worker takes no more, or does not have the step's session. */
  'noslot',
  'blob',
  /** A step that was done before: its kept answer was sent once more. */
  'replayed',
  /** A step of an iterative sequence that is to run once more; nothing was answered yet. */
  'again',
  /** A numbered step that is not due: answered with an error, its session goes on. */
  'refused',
] as const;
export type EntryResult = (typeof ENTRY_RESULTS)[number];

export interface DoneEntry {
  readonly id: string;
  readonly result: EntryResult;
  readonly error: ErrorInfo | null;
}

/** Phases of one batch in nanoseconds, as Triton's statistics part them (extension_statistics.md). */
export interface BatchTiming {
  /** From the worker's receipt to the start of the batch. */
  readonly waitNs: number;
  readonly inputNs: number;
  readonly inferNs: number;
  readonly outputNs: number;
}

/** An answer that is an error, a stream that has no more, and one that was cancelled. In frames each is its position here, for ever. */
export const OTHER_RESPONSES = ['fail', 'empty', 'cancel'] as const;
export type OtherResponseKind = (typeof OTHER_RESPONSES)[number];

/** Answers with outputs at one position in the streams of a batch: sums over its requests. */
export interface AnswerTimes {
  readonly count: number;
  /** From the answer before it (of the first one, from the batch's run) until the model gave it. */
  readonly inferNs: number;
  readonly outputNs: number;
}

/** What came, or was missing, in place of an answer with outputs. */
export interface OtherResponse {
  readonly index: number;
  readonly how: OtherResponseKind;
  /** Since the answer before it; of a cancelled stream, since it was told so. */
  readonly ns: number;
}

/** Times of the answers of a decoupled model's batch, by their position from 0, nanoseconds. */
export interface ResponseTimes {
  readonly answers: readonly AnswerTimes[];
  readonly others: readonly OtherResponse[];
}

/** worker → owner: the batch is over and the instance can take another. */
export interface DoneMessage extends ModelMessage, OfLoad {
  readonly kind: 'done';
  readonly version: string;
  readonly worker: ProcessId;
  readonly batch: number;
  readonly instance: number;
  readonly timing: BatchTiming;
  /** False where the batch never reached the model: it counts as no execution. */
  readonly executed: boolean;
  readonly entries: readonly DoneEntry[];
  /** Absent where each request got one answer: its times are those of the batch. */
  readonly responses?: ResponseTimes;
}

/** worker → sender: your epoch is not the highest that I have seen. */
export interface RefusedMessage {
  readonly kind: 'refused';
  readonly model: string;
  readonly batch: number;
  readonly sent: Epoch;
  readonly highest: Epoch;
}

/** owner → worker: tell me what you hold of this model. */
export interface DescribeMessage extends ModelMessage {
  readonly kind: 'describe';
  readonly askedAt: number;
}

/** owner → itself: comes back behind all that others had sent to it. */
export interface EchoMessage {
  readonly kind: 'echo';
  readonly model: string;
  /** By its own clock. */
  readonly sentUs: number;
}

export interface InstanceDescription {
  /** Position among this worker's instances of the version. */
  readonly index: number;
  /** `<group>_<k>`, as Triton names it. */
  readonly name: string;
  /** False while its thread or process is being started again. */
  readonly ready: boolean;
  /** Loaded, but never scheduled. */
  readonly passive: boolean;
  /** Of a model that keeps sequences: it is given up once those that it has are over. Absent for false. */
  readonly leaving?: boolean;
  /** Batches that it holds, running and waiting. */
  readonly batches: readonly number[];
}

/** The highest g that was applied, by the process that sent it. */
export type StepMarks = readonly (readonly [sender: ProcessId, g: number])[];

/** A sequence that has a slot of an instance. */
export interface SlotDescription {
  readonly instance: number;
  readonly slot: number;
  readonly session: string;
  readonly correlationId: bigint | string;
  readonly bind: Bind;
  readonly marks: StepMarks;
  /** Applied so far. */
  readonly steps: number;
}

/** A sequence that ended and is remembered for a while, so that its steps are not taken for those of another. */
export interface EndedSession {
  readonly session: string;
  readonly correlationId: bigint | string;
  readonly marks: StepMarks;
  readonly steps: number;
  /** Its state is gone in the middle of it. */
  readonly lost: boolean;
}

export interface VersionDescription extends OfLoad {
  readonly version: string;
  readonly state: VersionState;
  /** `<Code label>: <text>` of a failed load, UNLOADED, or ''. */
  readonly reason: string;
  readonly instances: readonly InstanceDescription[];
  /** Ids of the requests being executed. */
  readonly running: readonly string[];
  /** Of the files that it was loaded from, see ControlMessage; absent where it is of none. */
  readonly contentHash?: string;
  /** Of a model that keeps sequences: what it holds and what it remembers. */
  readonly slots?: readonly SlotDescription[];
  readonly ended?: readonly EndedSession[];
}

/** A request that may get several answers, and the execution that gives them. */
export interface RunningStream {
  readonly id: string;
  readonly execution: string;
}

/** worker → owner: what it holds of this model; answers `describe` and tells each change unasked (askedAt 0). */
export interface DescribedMessage {
  readonly kind: 'described';
  readonly model: string;
  readonly worker: ProcessId;
  readonly askedAt: number;
  readonly versions: readonly VersionDescription[];
  /** Of those running: what a decoupled model runs. */
  readonly streams: readonly RunningStream[];
  readonly draining: boolean;
}

/** owner → gateway: a worker said that it still runs these (docs/protocol.md R27). */
export interface RunningMessage {
  readonly kind: 'running';
  readonly model: string;
  readonly streams: readonly RunningStream[];
}

/** owner → worker: give this sequence's slot back. */
export interface FreeMessage extends ModelMessage {
  readonly kind: 'free';
  readonly session: string;
}

export type Message =
  | InferMessage
  | CancelMessage
  | StaleMessage
  | MovedMessage
  | MissingMessage
  | ExecuteMessage
  | ResponseMessage
  | DoneMessage
  | RefusedMessage
  | DescribeMessage
  | EchoMessage
  | DescribedMessage
  | FreeMessage
  | ControlMessage
  | RunningMessage
  | QuestionMessage
  | CachedMessage
  | KeptMessage
  | PutMessage;

export type MessageKind = Message['kind'];

/** Negative, zero or positive as `a` is lower, equal or higher than `b`. */
export function compareEpochs(a: Epoch, b: Epoch): number {
  if (a.number !== b.number) return a.number - b.number;
  return a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : 0;
}
