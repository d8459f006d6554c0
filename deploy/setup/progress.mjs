const STILL_AT_IT_MS = 5_000;

/** One line of progress. */
export function say(text) {
  console.log(`set-up: ${text}`);
}

/** "1.4 s" since a `performance.now()`. */
export function secondsSince(startMs) {
  return `${((performance.now() - startMs) / 1000).toFixed(1)} s`;
}

/** Runs one step that has something to do, and says what it did and how long it took. A `code` in its result is a program's. */
export async function step(doing, work) {
  const start = performance.now();
  // A slow step says what it is doing, so that nobody thinks that nothing happens.
  const timer = setTimeout(() => say(`${doing} …`), STILL_AT_IT_MS);
  try {
    const result = await work();
    say(`${doing}: ${(result?.code ?? 0) === 0 ? 'done' : 'failed'} (${secondsSince(start)})`);
    return result;
  } finally {
    clearTimeout(timer);
  }
}
