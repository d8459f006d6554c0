import type { ErrorInfo } from '@nereid/protocol';

/** The `reason` of an error about an option that only its user could judge: a file, a pattern, a list. */
export const BAD_OPTION = 'bad_option';

/** The error for the flag of that name; `why` says what is wrong and what to give. The command ends with status 2. */
export function badOption(flag: string, why: string): ErrorInfo {
  return { code: 'INVALID_ARG', message: `--${flag}: ${why}`, field: flag, reason: BAD_OPTION };
}
