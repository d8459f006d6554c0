/**
 * The contract of every scheduling rule: a pure step over (state, event, time).
 * A state is made by its rule's factory, owned by one caller and changed only by `step`; no rule
 * reads a clock, a socket or a random number. Times are microseconds of a monotonic clock.
 */
import type { ErrorInfo } from '@nereid/protocol';
import type { BatchTimes } from './instance-depth.ts';

/** What makes a request a step of a sequence. */
export interface SequenceStep {
  /** Names the sequence, in place of the correlation id that another may have later (docs/protocol.md R12). */
  readonly session: string;
  readonly start: boolean;
  readonly end: boolean;
  /** Of a START: the live session of the same correlation id, which it ends early; it takes over its slot once that one's steps are done. */
  readonly replaces: string | undefined;
}

/** A request as the rules see it. */
export interface QueuedRequest {
  readonly id: string;
  /** Batch dimension, at least 1. */
  readonly rows: number;
  /** Equal for requests whose variable dimensions let them share a batch. */
  readonly shapeKey: string;
  readonly arrivedUs: number;
  /** As the client sent it: 1 is the highest, 0 asks for none. Above 2^53 neighbours are not told apart. */
  readonly priority: number;
  /** The client's own queue time-out, 0 for none. */
  readonly timeoutUs: number;
  /** Until then somebody waits for it, undefined for no end. Only its time in the queue is bounded by it. */
  readonly deadlineUs: number | undefined;
  /** A job: nobody waits for it at a door, so that only its deadline ends it and no queue time-out does. */
  readonly patient: boolean;
  /** Who sent it: a gateway, or an owner for its jobs. */
  readonly sender: string;
  /** Others that this sender was receiving for the model when it sent this one; told of models with `nereid.eager_batch`. */
  readonly coming: number;
  /** Undefined where the model keeps no sequences. */
  readonly sequence: SequenceStep | undefined;
  /** The worker that keeps tensors of it: of instances that are as free as each other, one there is taken. Undefined for none. */
  readonly near?: string | undefined;
  /** Of bulk work: it takes what is to spare, and nobody waits for it. False, if left out; rules for sequences do not tell it apart. */
  readonly background?: boolean;
}

/** An instance as the rules see it: `${worker}/${index}`. */
export type InstanceKey = string;

/** The worker that has the instance. */
export function workerOf(instance: InstanceKey): string {
  return instance.slice(0, instance.lastIndexOf('/'));
}

export type ScheduleEvent<R extends QueuedRequest = QueuedRequest> =
  | { readonly type: 'arrived'; readonly request: R }
  /**
   * A request whose batch did not run and is lost: it is first in its level, or session, and never refused. It decides
   * nothing by itself, so that those of one batch may share the next: another event follows the last of them. With a
   * START the session has not begun: it may go elsewhere.
   */
  | { readonly type: 'returned'; readonly request: R }
  /** A request that is no longer wanted; unknown ids are ignored (it may be executing). A step leaves with its session, which is told to be over. */
  | { readonly type: 'cancelled'; readonly id: string }
  /** The instance can take one more batch. */
  | { readonly type: 'instance-free'; readonly instance: InstanceKey }
  /**
   * The instance runs nothing and has a free place; `others`: so many more are like it. Told after each event as long as
   * background requests wait, of one instance after the other.
   */
  | { readonly type: 'instance-spare'; readonly instance: InstanceKey; readonly others: number }
  /** Forget the instance and all its free places. Sessions of which a step was sent keep its slots until they are over. */
  | { readonly type: 'instance-lost'; readonly instance: InstanceKey }
  /** No new sessions go there, and those that have its slots go on, until it is lost. May come before its first free place. */
  | { readonly type: 'instance-draining'; readonly instance: InstanceKey }
  /** So many requests of a batch have been answered, which ran for so long. Told who wants it. */
  | { readonly type: 'answered'; readonly requests: number; readonly runUs: number }
  /** An execution of so many rows took so long. Told who wants it; it decides nothing. */
  | { readonly type: 'ran'; readonly rows: number; readonly runUs: number }
  /**
   * How many requests of the queue's model run now, and what its batches take on average. Told who wants
   * it. It decides nothing by itself: another event follows.
   */
  | { readonly type: 'running'; readonly requests: number; readonly times: BatchTimes | undefined }
  /** A worker says that this session has that slot, which nobody here knew: of an earlier owner. */
  | { readonly type: 'bound'; readonly session: string; readonly instance: InstanceKey; readonly slot: number }
  /** A step has left its batch; `ended`: its session is over with it, and its slot is free. */
  | { readonly type: 'step-over'; readonly id: string; readonly ended: boolean }
  /** Whoever tells of steps has some of the session that wait for others first, or has none any more: so long it is not idle. */
  | { readonly type: 'session-held'; readonly session: string; readonly held: boolean }
  /** The session is over whatever it still had here, all of which is forgotten; its slot is free. */
  | { readonly type: 'session-over'; readonly session: string }
  /**
   * All that was sent before that time has come. Told first where messages wait in a mailbox, and after each `listen`:
   * a session is idle only once nothing can be under way that came before its time was over.
   */
  | { readonly type: 'heard'; readonly upToUs: number }
  /** Nothing more arrives: what waits need not wait for company. */
  | { readonly type: 'draining' }
  | { readonly type: 'time' };

/** Why a batch was closed. */
export type CloseReason =
  /** No dynamic batching. */
  | 'single'
  /** It holds as many rows as it may, or the next request does not fit. */
  | 'full'
  /** It has a preferred size. */
  | 'preferred'
  /** Its oldest request has waited for the queue delay. */
  | 'delay'
  /** The next request has another shape. */
  | 'shape'
  /** No delay is set and an instance is free. */
  | 'free'
  /** One of its requests must end soon. */
  | 'deadline'
  /** Nobody else can come in time. */
  | 'alone'
  /** The queue drains. */
  | 'drain'
  /** The model's own rule closed it. */
  | 'strategy'
  /** It is all background: its instance had nothing else to do. */
  | 'spare';

/** Why a rule ended a session: nothing came for it for too long; it waited for a slot for too long. */
export type SessionClose = 'idle' | 'timeout';

/** A session as its rule has it. */
export interface WaitingSession {
  readonly session: string;
  /** Undefined in the backlog. */
  readonly place: { readonly instance: InstanceKey; readonly slot: number } | undefined;
  /** Steps that wait here. */
  readonly waiting: number;
  readonly lastArrivedUs: number;
}

export type Decision<R extends QueuedRequest = QueuedRequest> =
  | {
      readonly type: 'dispatch';
      readonly instance: InstanceKey;
      readonly batch: readonly R[];
      readonly reason: CloseReason;
      /** Of steps: each one's slot. */
      readonly slots?: readonly number[];
    }
  | { readonly type: 'reject'; readonly request: R; readonly error: ErrorInfo }
  /** The rule has ended the session; what it had waiting was rejected before. */
  | { readonly type: 'closed'; readonly session: string; readonly why: SessionClose }
  /** Say `heard` once all has come that was sent until now. */
  | { readonly type: 'listen' }
  /** Send a `time` event at that time; replaces an earlier wish, and is void once nothing waits and `needsWake` is not true. */
  | { readonly type: 'wake'; readonly atUs: number };

/** What waits at one priority level. */
export interface WaitingLevel {
  /** 1 is the highest; 0 where all wait in one. */
  readonly level: number;
  readonly waiting: number;
  /** Of those: past their time-out, behind the others of their level. */
  readonly delayed: number;
}

export interface Scheduler<R extends QueuedRequest = QueuedRequest> {
  step(event: ScheduleEvent<R>, nowUs: number): readonly Decision<R>[];
  /** Which events about others, who may come, it has a use for: each costs a step. None, if left out. */
  readonly wants?: { readonly answered: boolean; readonly running: boolean; readonly ran?: boolean };
  /** Requests queued and not yet dispatched, but for those in the background. */
  readonly waiting: number;
  /** Background requests queued and not yet dispatched. None, if left out. */
  readonly background?: number;
  /** The last wish for a wake stands though nothing waits: sessions may get idle. False, if left out. */
  readonly needsWake?: boolean;
  /** Where there are levels or delayed requests: the levels in which somebody waits, from the highest on. Read when somebody looks. */
  readonly levels?: Iterable<WaitingLevel>;
  /** Of a rule for sequences: all that live. Read when somebody looks. */
  readonly sessions?: Iterable<WaitingSession>;
}
