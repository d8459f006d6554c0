import type { Expiring } from './expiry-heap.ts';
import { createLinkedList, type Link, type LinkedList } from './linked-list.ts';
import type { QueuedRequest } from './schedule.ts';
import type { SequenceInstance } from './sequence-instances.ts';

/** One sequence, from its first step here until it is over. */
export interface Session<R extends QueuedRequest> {
  readonly id: string;
  readonly lane: Lane<R>;
  /** Steps that wait, in their order. */
  readonly steps: LinkedList<R>;
  /** The step that is out in a batch. */
  inFlight: string | undefined;
  /** A step has been sent to its slot's instance, which keeps it from then on: it cannot go elsewhere. */
  begun: boolean;
  /** Steps of it wait elsewhere, so that it is not idle. */
  held: boolean;
  /** When its START came. */
  readonly startedUs: number;
  /** When the last step came, or it got its slot, whichever was later. */
  activeUs: number;
  /** Of the steps that came while it was in the backlog, the earliest end of their time-outs; infinite for none. */
  timeoutUs: number;
  /** Where it stands among those that may get idle; undefined in the backlog, and where its time is over but steps of it are not. */
  idleLink: Link<Session<R>> | undefined;
}

/**
 * What a slot or a place in the backlog holds: a session, and behind it those that have ended it early with a START
 * for the same correlation id, each of which takes over once the steps of the one before are over.
 */
export interface Lane<R extends QueuedRequest> extends Expiring {
  readonly sessions: Session<R>[];
  /** Undefined in the backlog, and for one that is over. */
  slot: { readonly instance: SequenceInstance<R>; readonly number: number } | undefined;
  /** In the backlog. */
  link: Link<Lane<R>> | undefined;
  /** A step of its first session is with the instance's steps that may go. */
  offered: boolean;
  /** When the START came that it waits for a slot with: the backlog's order. */
  startedUs: number;
  /** In the backlog: when all of it is refused, infinite for never. */
  expiresUs: number;
}

/** `order` rises. */
export function createLane<R extends QueuedRequest>(startedUs: number, order: number): Lane<R> {
  return {
    sessions: [],
    slot: undefined,
    link: undefined,
    offered: false,
    startedUs,
    expiresUs: Number.POSITIVE_INFINITY,
    order,
    heapIndex: -1,
  };
}

/** Adds a session at the end of the lane. */
export function createSession<R extends QueuedRequest>(id: string, lane: Lane<R>, startedUs: number): Session<R> {
  const session: Session<R> = {
    id,
    lane,
    steps: createLinkedList<R>(),
    inFlight: undefined,
    begun: false,
    held: false,
    startedUs,
    activeUs: startedUs,
    timeoutUs: Number.POSITIVE_INFINITY,
    idleLink: undefined,
  };
  lane.sessions.push(session);
  return session;
}

/** Nothing of it waits or runs. */
export function isQuiet<R extends QueuedRequest>({ steps, inFlight }: Session<R>): boolean {
  return steps.length === 0 && inFlight === undefined;
}
