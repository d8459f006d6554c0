import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';

/** What a service says to both doors. */
export type ServiceResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: ErrorInfo };

/** What `run` gives, or the NereidError that it throws; anything else is thrown on. */
export async function serviceResult<T>(run: () => Promise<T>): Promise<ServiceResult<T>> {
  try {
    return { ok: true, value: await run() };
  } catch (thrown) {
    if (thrown instanceof NereidError) return { ok: false, error: errorInfo(thrown) };
    throw thrown;
  }
}
