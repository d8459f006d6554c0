/** Starts parts in order and stops those that started in reverse order. */
export interface Lifecycle {
  /** Runs `start`, then remembers `stop` for later. A failed start stops what came before. */
  add<T>(name: string, start: () => Promise<T>, stop: (started: T) => Promise<void>): Promise<T>;
  /** Stops all, last first; each is tried even where one fails. Idempotent. */
  stop(): Promise<void>;
}

export function createLifecycle(): Lifecycle {
  const stops: { readonly name: string; readonly stop: () => Promise<void> }[] = [];
  let stopping: Promise<void> | undefined;

  const stopAll = async () => {
    const failures: unknown[] = [];
    for (let part = stops.pop(); part !== undefined; part = stops.pop()) {
      try {
        await part.stop();
      } catch (cause) {
        failures.push(new Error(`stopping ${part.name} failed`, { cause }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'stopping failed');
  };

  const stop = () => {
    stopping ??= stopAll();
    return stopping;
  };

  return {
    async add(name, start, stopPart) {
      try {
        const started = await start();
        stops.push({ name, stop: () => stopPart(started) });
        return started;
      } catch (failure) {
        await stop();
        throw failure;
      }
    },
    stop,
  };
}
