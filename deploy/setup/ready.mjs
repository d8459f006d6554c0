import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 30;

/**
 * Asks a server until it is ready.
 *
 * @param {string} url the server's, without a slash at its end
 * @param {() => boolean} hasEnded whether its process is gone
 * @returns {Promise<boolean>} false where it ended, or is not ready after the limit
 */
export function becomesReady(url, hasEnded, limitMs) {
  return becomesOk(`${url}/v2/health/ready`, hasEnded, limitMs);
}

/** The same of a server of any kind: `url` is the whole address that answers 2xx once it is ready. */
export async function becomesOk(url, hasEnded, limitMs) {
  for (const start = performance.now(); performance.now() - start < limitMs; await delay(POLL_MS)) {
    if (hasEnded()) return false;
    const response = await fetch(url).catch(() => undefined);
    await response?.arrayBuffer();
    if (response?.ok) return true;
  }
  return false;
}
