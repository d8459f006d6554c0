import type { Clock } from '@nereid/runtime';

/** Of one output. Beyond it a process that writes without an end would fill the log's memory and its worker's time. */
export const LINES_PER_SECOND_MAX = 1_000;
const SECOND_US = 1_000_000;

export interface LineLimit {
  take(line: string): void;
  /** No line follows. */
  end(): void;
}

/** Passes on so many lines a second; of others it says how many they were. */
export function createLineLimit(clock: Clock, pass: (line: string) => void): LineLimit {
  let secondEndsUs = Number.NEGATIVE_INFINITY;
  let passed = 0;
  let leftOut = 0;
  const tellLeftOut = () => {
    if (leftOut > 0) pass(`${leftOut} more lines were left out`);
    leftOut = 0;
  };
  return {
    take(line) {
      const nowUs = clock.nowUs();
      if (nowUs >= secondEndsUs) {
        tellLeftOut();
        secondEndsUs = nowUs + SECOND_US;
        passed = 0;
      }
      if (passed < LINES_PER_SECOND_MAX) {
        passed++;
        pass(line);
      } else leftOut++;
    },
    end: tellLeftOut,
  };
}
