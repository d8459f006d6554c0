import type { Options } from '@nereid/config';
import type { LogOptions } from '@nereid/runtime';
import { LOG_LEVEL, parseLogLine, renderLogLine } from './log-format.ts';

/** Takes text that ends in a line end. */
export type WriteText = (text: string) => void;

/** Which lines are written. */
export interface LogGate {
  readonly error: boolean;
  readonly warning: boolean;
  readonly info: boolean;
  /** 0 none, 1 debug lines, 2 and more trace lines too. */
  readonly verbose: number;
}

type LogFlags = Pick<Options, 'logLevel' | 'logVerbose' | 'logInfo' | 'logWarning' | 'logError'>;

/** `--log-level` closes what is below it and opens verbose lines; the other flags switch single levels, as Triton's. */
export function logGate(options: LogFlags): LogGate {
  const floor = LOG_LEVEL[options.logLevel];
  const verbose = { error: 0, warn: 0, info: 0, debug: 1, trace: 2 }[options.logLevel];
  return {
    error: options.logError,
    warning: options.logWarning && floor <= LOG_LEVEL.warn,
    info: options.logInfo && floor <= LOG_LEVEL.info,
    verbose: Math.max(options.logVerbose, verbose),
  };
}

/** The lowest level that can pass the gate, so that lines below it are never made. */
export function lowestLevel(gate: LogGate): LogOptions['level'] {
  if (gate.verbose >= 2) return 'trace';
  if (gate.verbose === 1) return 'debug';
  if (gate.info) return 'info';
  if (gate.warning) return 'warn';
  return gate.error ? 'error' : 'silent';
}

function passes(gate: LogGate, level: number): boolean {
  if (level >= LOG_LEVEL.error) return gate.error;
  if (level >= LOG_LEVEL.warn) return gate.warning;
  if (level >= LOG_LEVEL.info) return gate.info;
  return gate.verbose >= (level >= LOG_LEVEL.debug ? 1 : 2);
}

export interface LogDestinationOptions {
  readonly gate: LogGate;
  readonly output: Options['logOutput'];
  readonly format: Options['logFormat'];
  readonly pid: number;
  /** Gets lines of level info and below. */
  readonly low: WriteText;
  /** Gets warnings and errors. */
  readonly high: WriteText;
}

/** Where the log's JSON lines go: gated, rendered unless `output` is json, and parted by level as in Triton. */
export function logDestination(options: LogDestinationOptions): NonNullable<LogOptions['destination']> {
  return {
    write(line) {
      const record = parseLogLine(line);
      if (record === undefined) {
        options.high(line);
        return;
      }
      if (!passes(options.gate, record.level)) return;
      const text = options.output === 'json' ? line : `${renderLogLine(record, options.format, options.pid)}\n`;
      if (record.level >= LOG_LEVEL.warn) options.high(text);
      else options.low(text);
    },
  };
}
