import { type ErrorInfo, NereidError } from '@nereid/protocol';

/** What was read of a setting; throws the error where it cannot be used. */
export function settingValue<T>(
  read: { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: ErrorInfo },
): T {
  if (read.ok) return read.value;
  const { code, message, ...detail } = read.error;
  throw new NereidError(code, message, detail);
}
