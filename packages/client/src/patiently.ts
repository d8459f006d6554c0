import { NereidError } from './error.ts';
import { type CallOptions, sleep } from './http.ts';

/** How long a server is let wait for an answer, and how much longer the call may take. */
const WAIT_MS = 30_000;
const CALL_SLACK_MS = 30_000;
/** Between two looks where the server does not wait. */
const LOOK_MS = 1_000;

/** Asks until there is something to give, or the time is over, which `what` is then said not to be over in. */
export async function patiently<T>(
  what: string,
  { signal, timeoutMs = 0, retry }: CallOptions,
  ask: (call: CallOptions, waitMs: number) => Promise<T | undefined>,
): Promise<T> {
  const endMs = timeoutMs === 0 ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
  while (true) {
    const begunMs = Date.now();
    const waitMs = Math.max(0, Math.min(WAIT_MS, Math.ceil(endMs - begunMs)));
    const found = await ask({ signal, timeoutMs: waitMs + CALL_SLACK_MS, retry }, waitMs);
    if (found !== undefined) return found;
    const nowMs = Date.now();
    if (nowMs >= endMs) {
      throw new NereidError('UNAVAILABLE', `${what} is not over after ${timeoutMs} ms`, { reason: 'timeout' });
    }
    // One that stops answers at once.
    if (nowMs - begunMs < waitMs) await sleep(Math.min(LOOK_MS, endMs - nowMs), signal);
  }
}
