import { NereidError } from './error.ts';

/** With a query of those that have a value. */
export function withQuery(path: string, values: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined) query.set(name, String(value));
  return query.size === 0 ? path : `${path}?${query}`;
}

/** What all pages have, one page after the other; `ask` is given what the one before said to go on with. */
export async function* eachOf<T>(
  ask: (after: string | undefined) => Promise<{ readonly found: readonly T[]; readonly next?: string | undefined }>,
): AsyncGenerator<T, void, void> {
  let after: string | undefined;
  do {
    const { found, next } = await ask(after);
    yield* found;
    after = next;
  } while (after !== undefined);
}

/** A call whose answer is not needed where the server gives it that status. */
export async function unlessStatus(status: number, call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (thrown) {
    if (!(thrown instanceof NereidError) || thrown.status !== status) throw thrown;
  }
}
