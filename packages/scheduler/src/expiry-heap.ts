/** What can expire. `heapIndex` belongs to the heap, -1 outside it. */
export interface Expiring {
  readonly expiresUs: number;
  /** The lesser goes first among equals. */
  readonly order: number;
  heapIndex: number;
}

/** Orders entries by their expiry; each step costs the logarithm of their number. */
export interface ExpiryHeap<E extends Expiring> {
  /** What expires first. */
  readonly first: E | undefined;
  add(entry: E): void;
  /** One that is not in it is ignored. */
  remove(entry: E): void;
}

const isBefore = (a: Expiring, b: Expiring): boolean =>
  a.expiresUs < b.expiresUs || (a.expiresUs === b.expiresUs && a.order < b.order);

export function createExpiryHeap<E extends Expiring>(): ExpiryHeap<E> {
  const entries: E[] = [];

  const put = (entry: E, index: number) => {
    entries[index] = entry;
    entry.heapIndex = index;
  };

  const rise = (entry: E, from: number) => {
    let index = from;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = entries[above];
      if (parent === undefined || isBefore(parent, entry)) break;
      put(parent, index);
      index = above;
    }
    put(entry, index);
  };

  const sink = (entry: E, from: number) => {
    let index = from;
    for (;;) {
      let below = 2 * index + 1;
      let child = entries[below];
      const right = entries[below + 1];
      if (right !== undefined && child !== undefined && isBefore(right, child)) {
        below++;
        child = right;
      }
      if (child === undefined || isBefore(entry, child)) break;
      put(child, index);
      index = below;
    }
    put(entry, index);
  };

  return {
    get first() {
      return entries[0];
    },
    add(entry) {
      rise(entry, entries.length);
    },
    remove(entry) {
      const index = entry.heapIndex;
      if (index < 0) return;
      entry.heapIndex = -1;
      const last = entries.pop();
      if (last === undefined || last === entry) return;
      // The last one takes its place, and goes whichever way it must.
      rise(last, index);
      sink(last, last.heapIndex);
    },
  };
}
