/** The slots of one instance by their numbers, from 0. Memory is for those that were in use together, not for all that there may be. */
export interface SlotNumbers {
  /** Undefined where none is free. */
  readonly lowestFree: number | undefined;
  /** Any number, also one beyond those that there are: a worker may say that it is in use. */
  take(slot: number): void;
  give(slot: number): void;
}

export function createSlotNumbers(slots: number): SlotNumbers {
  const taken = new Set<number>();
  /** Free ones below `fresh`, the lowest first (a binary heap); some may have been taken again since. */
  const given: number[] = [];
  /** This and all above have not been in use, but for those in `taken`. */
  let fresh = 0;

  const swap = (a: number, b: number) => {
    const [first, second] = [given[a], given[b]];
    if (first === undefined || second === undefined) return;
    given[a] = second;
    given[b] = first;
  };

  const isLower = (a: number, b: number) => (given[a] ?? Infinity) < (given[b] ?? Infinity);

  const push = (slot: number) => {
    let index = given.push(slot) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (!isLower(index, above)) break;
      swap(index, above);
      index = above;
    }
  };

  const pop = () => {
    swap(0, given.length - 1);
    given.pop();
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const lower = isLower(left + 1, left) ? left + 1 : left;
      if (!isLower(lower, index)) break;
      swap(lower, index);
      index = lower;
    }
  };

  return {
    get lowestFree() {
      for (let lowest = given[0]; lowest !== undefined; lowest = given[0]) {
        if (!taken.has(lowest)) return lowest;
        pop();
      }
      while (taken.has(fresh)) fresh++;
      return fresh < slots ? fresh : undefined;
    },
    take(slot) {
      taken.add(slot);
    },
    give(slot) {
      if (taken.delete(slot) && slot < Math.min(fresh, slots)) push(slot);
    },
  };
}
