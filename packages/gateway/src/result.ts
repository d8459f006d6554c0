import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';

/** What was asked for, or why not: how services tell both doors, and settings those who read them. */
export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: ErrorInfo };

/** What `run` gives, or the NereidError that it throws; anything else is thrown on. */
export async function resultOf<T>(run: () => Promise<T>): Promise<Result<T>> {
  try {
    return { ok: true, value: await run() };
  } catch (thrown) {
    if (thrown instanceof NereidError) return { ok: false, error: errorInfo(thrown) };
    throw thrown;
  }
}
