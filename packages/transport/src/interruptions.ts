/** Notes which parts of a lane are broken and calls back when all work again. */
export interface Interruptions {
  broke(part: object): void;
  works(part: object): void;
  /** Something was lost though nothing is broken. */
  lost(): void;
  /** True while any part is broken. */
  readonly broken: boolean;
  watch(listener: () => void): () => void;
}

export function createInterruptions(): Interruptions {
  const broken = new Set<object>();
  const listeners = new Set<() => void>();
  const lost = () => {
    queueMicrotask(() => {
      for (const listener of [...listeners]) if (listeners.has(listener)) listener();
    });
  };
  return {
    broke: (part) => void broken.add(part),
    works(part) {
      if (broken.delete(part) && broken.size === 0) lost();
    },
    lost,
    get broken() {
      return broken.size > 0;
    },
    watch(listener) {
      const own = () => listener();
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}
