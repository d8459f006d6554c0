/** Triton's log lines (common/src/logging.cc) rendered from the log's JSON lines. Times are UTC, as there. */
import type { LogSettings } from '@nereid/runtime';

type LineFormat = LogSettings['format'];

/** Levels as pino numbers them. */
export const LOG_LEVEL = { trace: 10, debug: 20, info: 30, warn: 40, error: 50 } as const;

export interface LogRecord {
  readonly level: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly msg: string;
  /** Whatever else the line carries, e.g. `request_id`. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Fields that every line of a process carries; the text form leaves them to the JSON form. */
const PROCESS_FIELDS: ReadonlySet<string> = new Set(['node', 'pid', 'process', 'role']);
/** A field of ours: lines to print unquoted under the message, as Triton prints its tables. */
const TABLE_FIELD = 'table';
const COMPONENT_FIELD = 'component';

/** A JSON line of the log, or undefined where it is none. */
export function parseLogLine(line: string): LogRecord | undefined {
  let content: unknown;
  try {
    content = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof content !== 'object' || content === null) return undefined;
  const { level, time, msg, ...fields } = content as Record<string, unknown>;
  if (typeof level !== 'number' || typeof time !== 'number') return undefined;
  return { level, time, msg: typeof msg === 'string' ? msg : '', fields };
}

/** Verbose lines are `I` too, as in Triton. */
function levelLetter(level: number): string {
  if (level >= LOG_LEVEL.error) return 'E';
  return level >= LOG_LEVEL.warn ? 'W' : 'I';
}

function preamble(record: LogRecord, format: LineFormat, pid: number): string {
  const letter = levelLetter(record.level);
  // 2026-11-29T11:15:47.733Z
  const iso = new Date(record.time).toISOString();
  const component = record.fields[COMPONENT_FIELD];
  const place = `${pid} ${typeof component === 'string' ? component : 'nereid'}]`;
  if (format === 'ISO8601') return `${iso.slice(0, 19)}Z ${letter} ${place}`;
  // The clock has milliseconds; the last three digits stand for Triton's microseconds.
  return `${letter}${iso.slice(5, 7)}${iso.slice(8, 10)} ${iso.slice(11, 23)}000 ${place}`;
}

function fieldText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? String(value);
  const { stack, message } = value as { stack?: unknown; message?: unknown };
  // What is no Error has an empty one.
  if (typeof stack === 'string' && stack !== '') return JSON.stringify(stack);
  return JSON.stringify(typeof message === 'string' ? message : value);
}

/** `I1129 11:15:47.733910 13498 nereid] "text" request_id="7"`, without the line's end. */
export function renderLogLine(record: LogRecord, format: LineFormat, pid: number): string {
  const head = preamble(record, format, pid);
  const table = record.fields[TABLE_FIELD];
  if (typeof table === 'string') return `${head} ${record.msg}\n${table}`;
  const fields = Object.entries(record.fields)
    .filter(([name]) => !PROCESS_FIELDS.has(name) && name !== COMPONENT_FIELD)
    .map(([name, value]) => ` ${name}=${fieldText(value)}`);
  return `${head} ${JSON.stringify(record.msg)}${fields.join('')}`;
}
