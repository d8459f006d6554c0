import type { ChildProcess } from 'node:child_process';
import type { Clock, Timer } from '@nereid/runtime';

/** A model may take so long over SIGTERM, then SIGKILL follows. */
export const KILL_GRACE_MS = 1_000;
/** What a process leaves behind may keep its pipes open; they are read for so long after its end. */
export const LAST_WORDS_MS = 500;
const MS_IN_US = 1000;

export interface ProcessEnd {
  /** SIGTERM now and SIGKILL after the grace, to it and whatever it has started. */
  terminate(): void;
  /** Kills it at once for a reason that `ended` then tells. */
  fail(words: string): void;
}

/**
 * Sees to the end of a child process, however it comes. `ended` is called once, with why in words, after
 * what it wrote has been read; no timer, pipe or zombie is left then.
 */
export function watchEnd(child: ChildProcess, clock: Clock, ended: (words: string) => void): ProcessEnd {
  let words: string | undefined;
  let hasExited = false;
  let isOver = false;
  let grace: Timer | undefined;
  let lastWords: Timer | undefined;

  const over = (why: string) => {
    if (isOver) return;
    isOver = true;
    hasExited = true;
    grace?.cancel();
    lastWords?.cancel();
    for (const pipe of child.stdio) pipe?.destroy();
    ended(words ?? why);
  };

  const kill = (signal: NodeJS.Signals) => {
    // Past its exit another process may have its id.
    if (hasExited || child.pid === undefined) return;
    try {
      process.kill(-child.pid, signal);
    } catch {
      // It is gone, and its exit on the way.
    }
  };

  for (const pipe of child.stdio) pipe?.on('error', () => {});
  child.on('error', (error) => over(`its process cannot be started: ${error.message}`));
  child.on('exit', (code, signal) => {
    hasExited = true;
    grace?.cancel();
    const why =
      signal === null ? `its process ended with exit code ${code}` : `its process was ended by signal ${signal}`;
    child.on('close', () => over(why));
    lastWords = clock.at(clock.nowUs() + LAST_WORDS_MS * MS_IN_US, () => over(why));
  });

  return {
    terminate() {
      if (grace !== undefined || hasExited) return;
      kill('SIGTERM');
      grace = clock.at(clock.nowUs() + KILL_GRACE_MS * MS_IN_US, () => kill('SIGKILL'));
    },
    fail(why) {
      words ??= why;
      kill('SIGKILL');
    },
  };
}
