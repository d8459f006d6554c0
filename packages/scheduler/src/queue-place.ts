import type { Expiring } from './expiry-heap.ts';
import type { QueuePolicy } from './queue-policy.ts';
import type { QueuedRequest } from './schedule.ts';

/** Where in its level a request waits. They are served in this order. */
export type Standing = typeof RETURNED | typeof FRESH | typeof DELAYED;
/** It was in a batch already, which was lost before it ran. */
export const RETURNED = 0;
export const FRESH = 1;
/** Its time is over, and its level's policy is to put it behind the others. */
export const DELAYED = 2;

/** Where a request waits. Links are undefined at the ends of its list. */
export interface QueuePlace<R extends QueuedRequest> extends Expiring {
  readonly request: R;
  readonly level: QueueLevel<R>;
  /** Infinite for never. */
  readonly expiresUs: number;
  standing: Standing;
  /** Rises along the lists of those that are fresh or delayed. */
  order: number;
  previous: QueuePlace<R> | undefined;
  next: QueuePlace<R> | undefined;
}

/** Requests of one level and one standing, linked, so that any of them leaves in one step. */
interface PlaceList<R extends QueuedRequest> {
  head: QueuePlace<R> | undefined;
  tail: QueuePlace<R> | undefined;
}

export interface QueueLevel<R extends QueuedRequest> {
  readonly number: number;
  readonly policy: QueuePolicy;
  /** By standing. */
  readonly lists: readonly [PlaceList<R>, PlaceList<R>, PlaceList<R>];
  length: number;
  /** Of those: past their time. */
  delayed: number;
}

export function createLevel<R extends QueuedRequest>(number: number, policy: QueuePolicy): QueueLevel<R> {
  const list = (): PlaceList<R> => ({ head: undefined, tail: undefined });
  return { number, policy, lists: [list(), list(), list()], length: 0, delayed: 0 };
}

/** The first of the level that stands so or later. */
export function firstFrom<R extends QueuedRequest>(
  { lists }: QueueLevel<R>,
  standing: number,
): QueuePlace<R> | undefined {
  if (standing <= RETURNED && lists[RETURNED].head !== undefined) return lists[RETURNED].head;
  if (standing <= FRESH && lists[FRESH].head !== undefined) return lists[FRESH].head;
  return standing <= DELAYED ? lists[DELAYED].head : undefined;
}

/** Puts the place into the list of its standing, behind another one there; undefined for its front. */
export function linkBehind<R extends QueuedRequest>(place: QueuePlace<R>, previous: QueuePlace<R> | undefined): void {
  const { level } = place;
  const list = level.lists[place.standing];
  const next = previous === undefined ? list.head : previous.next;
  place.previous = previous;
  place.next = next;
  if (previous === undefined) list.head = place;
  else previous.next = place;
  if (next === undefined) list.tail = place;
  else next.previous = place;
  level.length++;
  if (place.standing === DELAYED) level.delayed++;
}

export function unlink<R extends QueuedRequest>({ level, standing, previous, next }: QueuePlace<R>): void {
  const list = level.lists[standing];
  if (previous === undefined) list.head = next;
  else previous.next = next;
  if (next === undefined) list.tail = previous;
  else next.previous = previous;
  level.length--;
  if (standing === DELAYED) level.delayed--;
}

/** Whether the first is served before the second, or is the same. */
export function isUpTo<R extends QueuedRequest>(first: QueuePlace<R>, second: QueuePlace<R>): boolean {
  if (first.level !== second.level) return first.level.number < second.level.number;
  if (first.standing !== second.standing) return first.standing < second.standing;
  // Those that were returned stand in the order of their arrival; equals count as before each other.
  if (first.standing === RETURNED) return first.request.arrivedUs <= second.request.arrivedUs;
  return first.order <= second.order;
}
