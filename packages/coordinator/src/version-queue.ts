import type {
  CancelMessage,
  DoneMessage,
  EndedSession,
  Epoch,
  ErrorInfo,
  InferMessage,
  InstanceDescription,
  ProcessId,
  ResponseMessage,
  SlotDescription,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { BatchTimes, QueuedRequest, Scheduler, WaitingAhead, WaitingLevel } from '@nereid/scheduler';
import type { Mailbox } from '@nereid/transport';
import type { AnswerOrder } from './answer-order.ts';
import type { ModelStatistics } from './model-statistics.ts';
import type { NotedEntry, RunNotes } from './run-notes.ts';
import type { BatchSource } from './sent-batch.ts';
import type { SequenceRow } from './sequence-list.ts';
import type { KnownSequence } from './session-book.ts';

/** A request from its arrival until its outcome. */
export interface OwnedRequest extends QueuedRequest {
  readonly message: InferMessage;
  /** Public id of its job, '' for none. */
  readonly job: string;
  /** What it found at its arrival in its queue, see ExplainedRun. */
  foundWaiting: number;
  foundAhead: number;
  foundRunning: number;
}

/** Of a model that keeps sequences. */
export interface SequenceParts {
  /** Each request is a sequence by itself. */
  readonly iterative: boolean;
  /** Every worker that was asked has said what it holds, or is gone (docs/protocol.md R9). */
  readonly described: () => boolean;
  /** Roles are processes of their own: what others send waits in a mailbox. */
  readonly apart: boolean;
}

export interface QueueParts extends BatchSource {
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly scheduler: Scheduler<OwnedRequest>;
  /** Batches that an instance holds at a time, running and waiting in its worker, by what one takes on average. */
  readonly instanceDepth: (means: BatchTimes | undefined) => number;
  readonly statistics: ModelStatistics;
  /** Requests may get several answers, of which statistics are kept one by one. */
  readonly decoupled: boolean;
  /** What becomes of requests is noted there. */
  readonly notes: RunNotes;
  /** Of what waits here, what goes before a request. */
  readonly waitingAhead: WaitingAhead;
  /** Answers the request's gateway in place of a worker. */
  readonly answer: (message: InferMessage, error: ErrorInfo) => void;
  /** Keeps answers in the order in which their requests are sent out; undefined where they go as they come. */
  readonly order: AnswerOrder | undefined;
  /** Undefined where the model keeps no sequences. */
  readonly sequences?: SequenceParts | undefined;
  /** Called when the last request has got its outcome, and when the last sequence is over. */
  readonly idle: () => void;
  /** Whether the model's lease is surely held; asked before each batch (docs/protocol.md R5). */
  readonly holdsLease: () => boolean;
  /** Called in place of a dispatch where it is not. */
  readonly leaseLost: () => void;
}

/** What a worker says that it holds of the version. */
export interface HeldByWorker {
  readonly instances: readonly InstanceDescription[];
  /** Ids of the requests of the model that it runs, whoever sent them. */
  readonly running: ReadonlySet<string>;
  /** The batch last sent when the question was put; undefined where nobody asked. */
  readonly sentUpTo: number | undefined;
  /** It ends the sequences that it has, and is given nothing else. */
  readonly draining: boolean;
  readonly slots: readonly SlotDescription[];
  readonly ended: readonly EndedSession[];
}

/**
 * The requests of one model version, from arrival to outcome.
 *
 * A request is *queued* from `arrive`, held by the scheduler; then *running*, part of one batch
 * that a worker holds; then over, and its id forgotten. Queued requests end here: refused,
 * cancelled, or past their deadline. Running ones end with their batch's `done`; the worker has
 * answered the gateway by then. Where a batch is lost with its worker its requests are queued once
 * more, since nobody answered them, and fail if that happens again.
 *
 * A running request that is cancelled is still in its batch, whose worker is told of it: it does not
 * run the request if it can help it, and in any case ends it as cancelled.
 *
 * A step of a sequence goes where its sequence is, and its errors end that: what becomes of it decides the desk
 * (session-desk.ts).
 *
 * A request that a worker runs already in a batch of an earlier owner is running *elsewhere*, which
 * ends with that batch's `done`. It is queued again when its worker no longer lists it.
 */
export interface VersionQueue {
  readonly waiting: number;
  /** Lines of batches, and what is called for them, that wait beside those. */
  readonly background: number;
  /** Requests in batches that workers hold. */
  readonly running: number;
  /** Accepted and not yet executing: waiting here, or in a worker behind another batch. */
  readonly pending: number;
  /** When the oldest waiting request came; undefined where none waits. */
  readonly oldestArrivedUs: number | undefined;
  /** Of those waiting, see Scheduler. */
  readonly levels: Iterable<WaitingLevel>;
  /** Requests without an outcome, in order of arrival. Read when somebody looks. */
  readonly entries: Iterable<NotedEntry> & { get(id: string): NotedEntry | undefined };
  /** Sequences that live. Read when somebody looks. */
  readonly sequences: Iterable<SequenceRow>;
  /** Whether it is queued or running here. */
  knows(id: string): boolean;
  /** Whether the request is known here; what a copy of it says that is news is taken from it. */
  takesCopy(message: InferMessage): boolean;
  /** The step's sequence, where that is known here. */
  finds(message: InferMessage): KnownSequence | undefined;
  /** The session of that id that goes on here. */
  sequenceOf(correlationId: bigint | string): string | undefined;
  arrive(request: OwnedRequest): void;
  /** Nobody waits for the request any more. False where it is not known here. */
  cancel(message: CancelMessage): boolean;
  /** Ends the sequence of that session, if it lives here: its steps that wait get the error, and its slot is free. */
  evict(session: string, error: ErrorInfo): void;
  /** What a worker says that it holds of this version, all of it. */
  describe(worker: ProcessId, held: HeldByWorker): void;
  /** Sends nothing more to the worker until it is described again; its batches go on. */
  withdraw(worker: ProcessId): void;
  /** As `withdraw`, but for the steps of sequences that the worker has. */
  drainWorker(worker: ProcessId): void;
  workerGone(worker: ProcessId): void;
  /** When the batch that is out longest at that worker was sent; undefined where none is. */
  outSinceUs(worker: ProcessId): number | undefined;
  done(message: DoneMessage): void;
  /** An answer to keep in its order; false where it is for others, or need not wait. */
  answered(message: ResponseMessage): boolean;
  /** The worker refused the batch unseen: its requests are queued again. */
  undelivered(batch: number, sent: Epoch): void;
  /** All that was sent to this owner before that time has come. */
  heard(upToUs: number): void;
  /** Nothing more arrives: what waits is sent without waiting for company. */
  drain(): void;
  /** Gives up every request that is queued here, for another queue; of sequences none. */
  draw(): readonly OwnedRequest[];
  /** Ends every queued request (that fits) with that error, but for steps of sequences that have a slot. */
  failQueued(error: ErrorInfo, fits?: (request: OwnedRequest) => boolean): void;
  /** Ends all and drops all timers; batches still out are no longer waited for. */
  close(error: ErrorInfo): void;
  /** Drops all without an answer: another owner will get every request again. */
  abandon(): void;
}
