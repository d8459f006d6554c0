import { type Clock, pause } from '@nereid/runtime';

/** Between two tries while Redis does not answer. */
export const RETRY_MS = 200;

/** Repeats the step until it is done, or until `again` says of a failure that it is not to be tried again: undefined. */
export async function untilDone<T>(
  clock: Clock,
  step: () => Promise<T>,
  again: (failure: unknown) => boolean | Promise<boolean>,
): Promise<T | undefined> {
  for (;;) {
    try {
      return await step();
    } catch (failure) {
      if (!(await again(failure))) return undefined;
      await pause(clock, RETRY_MS);
    }
  }
}
