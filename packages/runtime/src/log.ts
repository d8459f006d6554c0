import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

export interface LogOptions {
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** Bound to every line, e.g. the process id and role. */
  readonly bindings?: Readonly<Record<string, string>>;
  /** Where lines go; standard error by default, so that standard output stays the caller's. */
  readonly destination?: DestinationStream;
}

/** A JSON log (pino). Errors under `err`, request ids under `request_id`, models under `model`. */
export function createLog(options: LogOptions): Log {
  return pino(
    { level: options.level, base: { ...options.bindings } },
    options.destination ?? pino.destination({ dest: 2, sync: false }),
  );
}
