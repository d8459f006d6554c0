import { createWatchers } from './watchers.ts';

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
  const { tell: lost, watch } = createWatchers<void>();
  return {
    broke: (part) => void broken.add(part),
    works(part) {
      if (broken.delete(part) && broken.size === 0) lost();
    },
    lost,
    get broken() {
      return broken.size > 0;
    },
    watch,
  };
}
