import type { Result } from '@nereid/gateway';
import { NereidError } from '@nereid/protocol';

/** What was read of a setting; throws the error where it cannot be used. */
export function settingValue<T>(read: Result<T>): T {
  if (read.ok) return read.value;
  const { code, message, ...detail } = read.error;
  throw new NereidError(code, message, detail);
}
