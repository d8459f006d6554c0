/** Listeners that are called back in microtasks of their own, never inside the call that tells them. */
export interface Watchers<T> {
  tell(value: T): void;
  /** Returns how to stop. Each call is a registration of its own, also of the same function. */
  watch(listener: (value: T) => void): () => void;
}

export function createWatchers<T>(): Watchers<T> {
  const listeners = new Set<(value: T) => void>();
  return {
    tell(value) {
      queueMicrotask(() => {
        // A copy: a listener may stop itself or add another; one that was stopped is not called again.
        for (const listener of [...listeners]) if (listeners.has(listener)) listener(value);
      });
    },
    watch(listener) {
      const own = (value: T) => listener(value);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}
