import { createExpiryHeap } from './expiry-heap.ts';
import { createLinkedList } from './linked-list.ts';
import type { QueuedRequest } from './schedule.ts';
import type { Lane } from './sequence-session.ts';

/** Sequences that wait for a slot, by the arrival of their STARTs. Each step costs at most the logarithm of their number, but that one put back passes those before it. */
export interface SequenceBacklog<R extends QueuedRequest> {
  readonly first: Lane<R> | undefined;
  /** At the end. */
  add(lane: Lane<R>): void;
  /** In front of those whose START came later: it had a slot already. */
  putBack(lane: Lane<R>): void;
  /** One that is not in it is ignored. */
  remove(lane: Lane<R>): void;
  /** To be called when a session of the lane has another time-out, or has left it. */
  retime(lane: Lane<R>): void;
  /** When the next lane's time is over, infinite for never. */
  readonly nextExpiryUs: number;
  /** The lane whose time is over, if there is one. */
  expired(nowUs: number): Lane<R> | undefined;
}

export function createSequenceBacklog<R extends QueuedRequest>(): SequenceBacklog<R> {
  const lanes = createLinkedList<Lane<R>>();
  const expiring = createExpiryHeap<Lane<R>>();

  const retime = (lane: Lane<R>) => {
    let expiresUs = Number.POSITIVE_INFINITY;
    for (const { timeoutUs } of lane.sessions) expiresUs = Math.min(expiresUs, timeoutUs);
    if (expiresUs === lane.expiresUs && lane.heapIndex >= 0) return;
    expiring.remove(lane);
    lane.expiresUs = expiresUs;
    if (expiresUs !== Number.POSITIVE_INFINITY) expiring.add(lane);
  };

  return {
    get first() {
      return lanes.first?.value;
    },
    add(lane) {
      lane.link = lanes.push(lane);
      retime(lane);
    },
    putBack(lane) {
      let next = lanes.first;
      while (next !== undefined && next.value.startedUs <= lane.startedUs) next = next.next;
      lane.link = lanes.insertBefore(lane, next);
      retime(lane);
    },
    remove(lane) {
      if (lane.link === undefined) return;
      lanes.remove(lane.link);
      lane.link = undefined;
      expiring.remove(lane);
    },
    retime,
    get nextExpiryUs() {
      return expiring.first?.expiresUs ?? Number.POSITIVE_INFINITY;
    },
    expired(nowUs) {
      const { first } = expiring;
      return first !== undefined && first.expiresUs <= nowUs ? first : undefined;
    },
  };
}
