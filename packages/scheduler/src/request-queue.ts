import { NereidError } from '@nereid/protocol';
import type { QueuedRequest } from './schedule.ts';

/** A place in the queue. Links are undefined at the ends. */
export interface QueueNode<R> {
  readonly request: R;
  previous: QueueNode<R> | undefined;
  next: QueueNode<R> | undefined;
}

/**
 * FIFO with removal from the middle, each step O(1). A linked list and not a Map alone: a Map whose
 * oldest keys are deleted one by one walks over their holes at each look at its head.
 */
export interface RequestQueue<R extends QueuedRequest> {
  readonly length: number;
  readonly head: QueueNode<R> | undefined;
  /** Throws INTERNAL for an id that already waits: the caller must have dropped it. */
  append(request: R): QueueNode<R>;
  remove(id: string): QueueNode<R> | undefined;
  shift(): R | undefined;
}

export function createRequestQueue<R extends QueuedRequest>(): RequestQueue<R> {
  const byId = new Map<string, QueueNode<R>>();
  let head: QueueNode<R> | undefined;
  let tail: QueueNode<R> | undefined;

  const unlink = (node: QueueNode<R>) => {
    if (node.previous === undefined) head = node.next;
    else node.previous.next = node.next;
    if (node.next === undefined) tail = node.previous;
    else node.next.previous = node.previous;
    byId.delete(node.request.id);
  };

  return {
    get length() {
      return byId.size;
    },
    get head() {
      return head;
    },
    append(request) {
      if (byId.has(request.id)) throw new NereidError('INTERNAL', `request ${request.id} already waits`);
      const node: QueueNode<R> = { request, previous: tail, next: undefined };
      if (tail === undefined) head = node;
      else tail.next = node;
      tail = node;
      byId.set(request.id, node);
      return node;
    },
    remove(id) {
      const node = byId.get(id);
      if (node !== undefined) unlink(node);
      return node;
    },
    shift() {
      const first = head;
      if (first !== undefined) unlink(first);
      return first?.request;
    },
  };
}
