import { type Clock, settledWithin } from '@nereid/runtime';

/** Nothing came for a while, and more will. */
export interface Quiet {
  readonly type: 'quiet';
}

const QUIET: Quiet = { type: 'quiet' };

/**
 * What comes, and a sign of life each time nothing came for so long: clients and what is between take a silent
 * connection for dead. Who leaves early waits until the events have ended.
 */
export async function* withQuiet<T>(
  events: AsyncGenerator<T, void, undefined>,
  clock: Clock,
  everyMs: number,
): AsyncGenerator<T | Quiet, void, undefined> {
  let next = events.next();
  try {
    while (true) {
      if (!(await settledWithin(next, everyMs, clock))) {
        yield QUIET;
        continue;
      }
      const came = await next;
      if (came.done === true) return;
      yield came.value;
      next = events.next();
    }
  } finally {
    // What it rejects with has been thrown, or nobody waits for it any more.
    next.catch(() => {});
    await events.return();
  }
}
