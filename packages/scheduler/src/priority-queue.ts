import { NereidError } from '@nereid/protocol';
import { createExpiryHeap } from './expiry-heap.ts';
import { createQueueLevels } from './queue-levels.ts';
import {
  DELAYED,
  FRESH,
  firstFrom,
  isUpTo,
  linkBehind,
  type QueueLevel,
  type QueuePlace,
  RETURNED,
  unlink,
} from './queue-place.ts';
import { expiryUs, levelOf, type QueuePolicies } from './queue-policy.ts';
import type { QueuedRequest, WaitingLevel } from './schedule.ts';

export interface PriorityQueueOptions {
  readonly policies: QueuePolicies;
  /** Requests that may wait, in all levels together. */
  readonly queue_max: number;
}

/**
 * What waits, in the order in which it is served: level by level, the highest first. Within a level
 * those first that were in a batch which was lost, then the others by arrival, last those whose time
 * is over and whose level's policy is to delay them, by the time when they were put there
 * (scheduler_utils.cc, PriorityQueue). A step costs no more the more requests wait, but for the
 * logarithm where levels or time-outs are in use.
 */
export interface PriorityQueue<R extends QueuedRequest> {
  readonly length: number;
  readonly head: QueuePlace<R> | undefined;
  /** The levels in which somebody waits, from the highest on. */
  levels(): Iterable<WaitingLevel>;
  /** What is served behind it. */
  after(place: QueuePlace<R>): QueuePlace<R> | undefined;
  /**
   * False where the queue or the request's level is full. Throws INTERNAL for an id that already
   * waits: the caller must have dropped it.
   */
  arrive(request: R): boolean;
  /**
   * Takes a request back whose batch was lost. It has met its time-out and its level's bound when it was
   * dispatched, so neither is held against it now.
   */
  giveBack(request: R): void;
  remove(id: string): void;
  shift(): R | undefined;
  /** When the next request's time is over, infinite for never. */
  readonly nextExpiryUs: number;
  /** Sees to all whose time is over: those that are to be refused leave and are returned. */
  expire(nowUs: number): readonly R[];
  /** From now on changes up to this place are noticed, undefined for none. */
  watch(upTo: QueuePlace<R> | undefined): void;
  /** False once a request came or left up to the watched place. */
  readonly intact: boolean;
}

const NONE: readonly never[] = [];

export function createPriorityQueue<R extends QueuedRequest>(options: PriorityQueueOptions): PriorityQueue<R> {
  const { policies, queue_max } = options;
  const byId = new Map<string, QueuePlace<R>>();
  const levels = createQueueLevels<R>(policies);
  const expiring = createExpiryHeap<QueuePlace<R>>();
  let watched: QueuePlace<R> | undefined;
  let intact = true;
  let entered = 0;

  const changed = (place: QueuePlace<R>) => {
    if (watched !== undefined && isUpTo(place, watched)) intact = false;
  };

  const put = (place: QueuePlace<R>, previous: QueuePlace<R> | undefined) => {
    place.order = ++entered;
    linkBehind(place, previous);
    changed(place);
  };

  const enter = (place: QueuePlace<R>, previous: QueuePlace<R> | undefined) => {
    const { level, request } = place;
    byId.set(request.id, place);
    put(place, previous);
    if (level.length === 1) levels.filled(level);
    if (place.expiresUs !== Number.POSITIVE_INFINITY) expiring.add(place);
  };

  const leave = (place: QueuePlace<R>) => {
    changed(place);
    unlink(place);
    if (place.level.length === 0) levels.emptied(place.level);
    expiring.remove(place);
    byId.delete(place.request.id);
  };

  /** Behind all others of its level. */
  const delay = (place: QueuePlace<R>) => {
    changed(place);
    unlink(place);
    expiring.remove(place);
    place.standing = DELAYED;
    put(place, place.level.lists[DELAYED].tail);
  };

  const first = () => (levels.first === undefined ? undefined : firstFrom(levels.first, RETURNED));

  const levelFor = (request: R): QueueLevel<R> => {
    if (byId.has(request.id)) throw new NereidError('INTERNAL', `request ${request.id} already waits`);
    return levels.get(levelOf(policies, request.priority));
  };

  return {
    get length() {
      return byId.size;
    },
    get head() {
      return first();
    },
    *levels() {
      for (let level = levels.first; level !== undefined; level = levels.after(level)) {
        yield { level: level.number, waiting: level.length, delayed: level.delayed };
      }
    },
    after(place) {
      const { next, level, standing } = place;
      const within = next ?? firstFrom(level, standing + 1);
      if (within !== undefined) return within;
      const below = levels.after(level);
      return below === undefined ? undefined : firstFrom(below, RETURNED);
    },
    arrive(request) {
      if (byId.size >= queue_max) return false;
      const level = levelFor(request);
      const { size_max } = level.policy;
      if (size_max !== undefined && level.length >= size_max) return false;
      enter(placeOf(request, level, FRESH, expiryUs(level.policy, request)), level.lists[FRESH].tail);
      return true;
    },
    giveBack(request) {
      const level = levelFor(request);
      let previous = level.lists[RETURNED].tail;
      // Batches may be lost the other way round than they were sent.
      while (previous !== undefined && previous.request.arrivedUs > request.arrivedUs) previous = previous.previous;
      enter(placeOf(request, level, RETURNED, Number.POSITIVE_INFINITY), previous);
    },
    remove(id) {
      const place = byId.get(id);
      if (place !== undefined) leave(place);
    },
    shift() {
      const head = first();
      if (head !== undefined) leave(head);
      return head?.request;
    },
    get nextExpiryUs() {
      return expiring.first?.expiresUs ?? Number.POSITIVE_INFINITY;
    },
    expire(nowUs) {
      let refused: R[] | undefined;
      for (;;) {
        const place = expiring.first;
        if (place === undefined || place.expiresUs > nowUs) return refused ?? NONE;
        if (place.level.policy.action === 'delay') {
          delay(place);
        } else {
          leave(place);
          refused ??= [];
          refused.push(place.request);
        }
      }
    },
    watch(upTo) {
      watched = upTo;
      intact = true;
    },
    get intact() {
      return intact;
    },
  };
}

function placeOf<R extends QueuedRequest>(
  request: R,
  level: QueueLevel<R>,
  standing: typeof RETURNED | typeof FRESH,
  expiresUs: number,
): QueuePlace<R> {
  return { request, level, standing, expiresUs, heapIndex: -1, order: 0, previous: undefined, next: undefined };
}
