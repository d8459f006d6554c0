import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';
import type { LogSettings } from '@nereid/runtime';
import type { LogChanges } from './log-settings.ts';

/** A request for other settings, as a door reads it: each is given or undefined. Throws with the door's texts. */
export interface LogAsked {
  has(name: string): boolean;
  flag(name: string): boolean | undefined;
  verboseLevel(): number | undefined;
  format(): LogSettings['format'] | undefined;
}

/** Triton's text; the file is shown only. */
const FILE_REFUSED = 'log file location can not be updated through network protocol';

const FLAGS = [
  ['log_info', 'info'],
  ['log_warning', 'warning'],
  ['log_error', 'error'],
] as const;

type Writable = { -readonly [Name in keyof LogSettings]?: LogSettings[Name] };

/**
 * The settings up to the first that is wrong, in Triton's order (http_server.cc, HandleLogging), and what
 * is wrong with that: those before it hold all the same.
 */
export function readLogChange(asked: LogAsked): {
  readonly changes: LogChanges;
  readonly error: ErrorInfo | undefined;
} {
  const changes: Writable = {};
  try {
    readInto(changes, asked);
    return { changes, error: undefined };
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return { changes, error: errorInfo(thrown) };
  }
}

function readInto(changes: Writable, asked: LogAsked): void {
  if (asked.has('log_file')) throw new NereidError('UNSUPPORTED', FILE_REFUSED, { field: 'log_file' });
  for (const [name, key] of FLAGS) {
    const value = asked.flag(name);
    if (value !== undefined) changes[key] = value;
  }
  const level = asked.verboseLevel();
  if (level !== undefined) changes.verboseLevel = level;
  const format = asked.format();
  if (format !== undefined) changes.format = format;
}
