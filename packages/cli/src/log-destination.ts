import type { Options } from '@nereid/config';
import type { LogOptions, LogSettings } from '@nereid/runtime';
import { LOG_LEVEL, parseLogLine, renderLogLine } from './log-format.ts';

/** Takes text that ends in a line end. */
export type WriteText = (text: string) => void;

type LogFlags = Pick<Options, 'logLevel' | 'logVerbose' | 'logInfo' | 'logWarning' | 'logError' | 'logFormat'>;

/**
 * What the flags begin with: `--log-level` closes what is below it and opens verbose lines; the other
 * flags switch single levels, as Triton's.
 */
export function startLogSettings(options: LogFlags): LogSettings {
  const floor = LOG_LEVEL[options.logLevel];
  const verbose = { error: 0, warn: 0, info: 0, debug: 1, trace: 2 }[options.logLevel];
  return {
    error: options.logError,
    warning: options.logWarning && floor <= LOG_LEVEL.warn,
    info: options.logInfo && floor <= LOG_LEVEL.info,
    verboseLevel: Math.max(options.logVerbose, verbose),
    format: options.logFormat,
  };
}

/** The lowest level that these settings let pass, so that lines below it are never made. */
export function lowestLevel({ info, warning, error, verboseLevel }: LogSettings): LogOptions['level'] {
  if (verboseLevel >= 2) return 'trace';
  if (verboseLevel === 1) return 'debug';
  if (info) return 'info';
  if (warning) return 'warn';
  return error ? 'error' : 'silent';
}

function passes(settings: LogSettings, level: number): boolean {
  if (level >= LOG_LEVEL.error) return settings.error;
  if (level >= LOG_LEVEL.warn) return settings.warning;
  if (level >= LOG_LEVEL.info) return settings.info;
  return settings.verboseLevel >= (level >= LOG_LEVEL.debug ? 1 : 2);
}

export interface LogDestinationOptions {
  /** Asked at each line. */
  readonly settings: () => LogSettings;
  readonly output: Options['logOutput'];
  readonly pid: number;
  /** Gets lines of level info and below. */
  readonly low: WriteText;
  /** Gets warnings and errors. */
  readonly high: WriteText;
}

/** Where the log's JSON lines go: by the settings, rendered unless `output` is json, and parted by level as in Triton. */
export function logDestination(options: LogDestinationOptions): NonNullable<LogOptions['destination']> {
  return {
    write(line) {
      const record = parseLogLine(line);
      if (record === undefined) {
        options.high(line);
        return;
      }
      const settings = options.settings();
      if (!passes(settings, record.level)) return;
      const text = options.output === 'json' ? line : `${renderLogLine(record, settings.format, options.pid)}\n`;
      if (record.level >= LOG_LEVEL.warn) options.high(text);
      else options.low(text);
    },
  };
}
