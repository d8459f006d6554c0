/** What an instance's thread or process knows of cancelled requests: of the batch that it runs and of those to come. */
import type { CancelOrder } from './instance-messages.ts';

/** The requests of one batch, by their position in it. */
export interface BatchCancels {
  isCancelled(position: number): boolean;
  /** True where nobody waits for any of a batch of so many requests. */
  areAll(requests: number): boolean;
  /** Aborted when the request is cancelled. Made when first asked for: most models never do. */
  signal(position: number): AbortSignal;
}

export interface InstanceCancels {
  /** One for a batch that is over does nothing; one may also come before its batch. */
  take(order: CancelOrder): void;
  /** The next batch, the one before it being over. Batches begin in the order of their sequence numbers. */
  begin(sequence: number): BatchCancels;
}

interface BegunBatch extends BatchCancels {
  cancel(position: number): void;
}

export function createInstanceCancels(): InstanceCancels {
  const early = new Map<number, Set<number>>();
  let begun = 0;
  let current: BegunBatch | undefined;
  return {
    take({ sequence, position }) {
      if (sequence === begun) current?.cancel(position);
      else if (sequence > begun) {
        const positions = early.get(sequence) ?? new Set();
        early.set(sequence, positions.add(position));
      }
    },
    begin(sequence) {
      begun = sequence;
      current = begunBatch(early.get(sequence));
      early.delete(sequence);
      return current;
    },
  };
}

function begunBatch(early: Set<number> | undefined): BegunBatch {
  let cancelled = early;
  let controllers: Map<number, AbortController> | undefined;
  return {
    cancel(position) {
      cancelled ??= new Set();
      cancelled.add(position);
      controllers?.get(position)?.abort();
    },
    isCancelled: (position) => cancelled?.has(position) === true,
    areAll: (requests) => cancelled?.size === requests,
    signal(position) {
      controllers ??= new Map();
      const known = controllers.get(position);
      if (known !== undefined) return known.signal;
      const controller = new AbortController();
      controllers.set(position, controller);
      if (cancelled?.has(position) === true) controller.abort();
      return controller.signal;
    },
  };
}
