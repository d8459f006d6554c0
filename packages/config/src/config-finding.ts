import { type ErrorCode, errorInfo, NereidError } from '@nereid/protocol';
import { type ConfigText, configPosition } from './config-positions.ts';

/** Something that is wrong with a model, or worth knowing. */
export interface ConfigFinding {
  readonly level: 'error' | 'warning';
  readonly code: ErrorCode;
  /** Without its position. */
  readonly message: string;
  /** The path of the field at fault, as `input[0].dims`. */
  readonly field?: string;
  /** Where it stands, where that is known. */
  readonly at?: { readonly file: string; readonly line: number; readonly column: number };
}

/** What was thrown as a finding. `text`: the config that was read, undefined where none could be. */
export function configFinding(error: unknown, text: ConfigText | undefined): ConfigFinding {
  const { code, message, field } = errorInfo(error);
  const told = text?.source === undefined ? undefined : toldPosition(message, text.source);
  const found = { level: 'error', code, ...(field === undefined ? {} : { field }) } as const;
  if (told !== undefined) return { ...found, message: told.message, at: told.at };
  const position = field === undefined || text === undefined ? undefined : configPosition(text, field);
  if (position === undefined || text === undefined) return { ...found, message };
  const [line, column] = position.split(':').map(Number);
  return { ...found, message, at: { file: text.source, line: line ?? 1, column: column ?? 1 } };
}

/** The texts of the parsers begin with their position. */
function toldPosition(message: string, file: string) {
  if (!message.startsWith(`${file}:`)) return undefined;
  const match = /^(\d+):(\d+): ([\s\S]*)$/.exec(message.slice(file.length + 1));
  if (match === null) return undefined;
  return { message: match[3] ?? '', at: { file, line: Number(match[1]), column: Number(match[2]) } };
}

/** The same as an error that ends in the position, `… (config.pbtxt:3:7)`; one that tells it already stays as it is. */
export function locatedError(error: unknown, text: ConfigText | undefined, reason?: string): NereidError {
  const info = errorInfo(error);
  const position =
    info.field === undefined || text === undefined || info.message.startsWith(`${text.source}:`)
      ? undefined
      : configPosition(text, info.field);
  const message = position === undefined ? info.message : `${info.message} (${text?.source}:${position})`;
  return new NereidError(info.code, message, {
    cause: error,
    ...(info.field === undefined ? {} : { field: info.field }),
    ...(reason === undefined ? (info.reason === undefined ? {} : { reason: info.reason }) : { reason }),
  });
}
