import { type DestinationStream, type Logger, pino } from 'pino';

/** Take no children of it: a child keeps the level of its making, whatever is set later. */
export type Log = Logger;

export interface LogOptions {
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** Bound to every line, e.g. the process id and role. */
  readonly bindings?: Readonly<Record<string, string>>;
  /** Where lines go; standard error by default, so that standard output stays the caller's. */
  readonly destination?: DestinationStream;
}

/** What of a log can be changed while it is written (Triton's docs/protocol/extension_logging.md). */
export interface LogSettings {
  readonly info: boolean;
  readonly warning: boolean;
  readonly error: boolean;
  /** 0 none, 1 debug lines, 2 and more trace lines too. */
  readonly verboseLevel: number;
  /** How a text line begins. */
  readonly format: 'default' | 'ISO8601';
}

/** A log whose settings can be changed. */
export interface LogControl {
  /** The file that it is appended to; '' for none. */
  readonly file: string;
  /** What it began with. */
  readonly start: LogSettings;
  /** Takes effect with the next line. */
  apply(settings: LogSettings): void;
}

/** A JSON log (pino). Errors under `err`, request ids under `request_id`, models under `model`. */
export function createLog(options: LogOptions): Log {
  return pino(
    { level: options.level, base: { ...options.bindings } },
    options.destination ?? pino.destination({ dest: 2, sync: false }),
  );
}
