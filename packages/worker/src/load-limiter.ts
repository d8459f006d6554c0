/** Runs at most so many loads at the same time, in the order in which they were asked for. */
export type LoadLimiter = <T>(load: () => Promise<T>) => Promise<T>;

export function createLoadLimiter(loadsMax: number): LoadLimiter {
  const queue: (() => void)[] = [];
  let running = 0;
  return async (load) => {
    if (running >= loadsMax) await new Promise<void>((resolve) => queue.push(resolve));
    else running++;
    try {
      return await load();
    } finally {
      // The place goes on to the next in line, so that nobody overtakes it.
      const next = queue.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
