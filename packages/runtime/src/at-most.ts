/** Runs at most so many tasks at the same time, in the order in which they were asked for. */
export type AtMost = <T>(task: () => Promise<T>) => Promise<T>;

export function createAtMost(tasks_max: number): AtMost {
  const queue: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running >= tasks_max) await new Promise<void>((resolve) => queue.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      // The place goes on to the next in line, so that nobody overtakes it.
      const next = queue.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
