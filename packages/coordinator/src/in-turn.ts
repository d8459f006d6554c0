export interface Turns {
  /** Runs tasks of one key one after another, those of different keys side by side. */
  run<T>(key: string, task: () => Promise<T>): Promise<T>;
  /** Whether a task of that key runs or waits. */
  busy(key: string): boolean;
  /** Resolves once no task is left, however they ended. */
  settled(): Promise<void>;
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return {
    async run(key, task) {
      const before = last.get(key);
      const turn = (async () => {
        // How the one before ended is told to its own caller.
        if (before !== undefined) await Promise.allSettled([before]);
        return task();
      })();
      last.set(key, turn);
      try {
        return await turn;
      } finally {
        if (last.get(key) === turn) last.delete(key);
      }
    },
    busy: (key) => last.has(key),
    async settled() {
      while (last.size > 0) await Promise.allSettled([...last.values()]);
    },
  };
}
