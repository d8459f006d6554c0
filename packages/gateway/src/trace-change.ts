import { TRACE_LEVELS, TRACE_RANGES, type TraceLevel } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { TraceChange } from './trace-scopes.ts';

/** A request for other settings, as a door reads it: each is given, null to be cleared, or undefined. Throws INVALID_ARG. */
export interface TraceAsked {
  has(name: string): boolean;
  levels(name: string): readonly string[] | null | undefined;
  text(name: string): string | null | undefined;
}

const FILE_REFUSED = 'trace file location can not be updated through network protocol';
const INTEGER = /^\s*[+-]?\d+$/;

/**
 * Reads the settings in Triton's order, with its texts (http_server.cc, HandleTrace). Unknown names and
 * levels are left out. Throws UNSUPPORTED for the file, INVALID_ARG for what cannot be read.
 */
export function readTraceChange(asked: TraceAsked): TraceChange {
  if (asked.has('trace_file')) throw new NereidError('UNSUPPORTED', FILE_REFUSED, { field: 'trace_file' });
  const levels = readLevels(asked.levels('trace_level'));
  const rate = readNumber(asked, 'trace_rate', TRACE_RANGES.rate);
  const count = readNumber(asked, 'trace_count', TRACE_RANGES.count);
  const logFrequency = readNumber(asked, 'log_frequency', TRACE_RANGES.logFrequency);
  return {
    ...(levels === undefined ? {} : { levels }),
    ...(rate === undefined ? {} : { rate }),
    ...(count === undefined ? {} : { count }),
    ...(logFrequency === undefined ? {} : { logFrequency }),
  };
}

/** A list that names no level that there is changes nothing. */
function readLevels(names: readonly string[] | null | undefined): readonly TraceLevel[] | null | undefined {
  if (names === undefined || names === null) return names;
  if (names.includes('OFF')) {
    if (names.length === 1) return [];
    throw wrong('trace_level', "Expect only one trace level 'OFF' is specified");
  }
  const levels = TRACE_LEVELS.filter((level) => names.includes(level));
  return levels.length === 0 ? undefined : levels;
}

function readNumber(
  asked: TraceAsked,
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | null | undefined {
  const text = asked.text(name);
  if (text === undefined || text === null) return text;
  if (!INTEGER.test(text)) throw wrong(name, `Unable to parse '${name}', got: ${text}`);
  const value = Number(text);
  if (value >= min && value <= max) return value;
  // Below its least value a count has words of its own, as long as it is a number of 32 bits.
  if (min < 0 && value < min && value >= -max - 1) {
    throw wrong(name, `Unable to parse '${name}'. Expecting value >= ${min}, got:${text}`);
  }
  throw wrong(name, `Unable to parse '${name}', value is out of range [ ${min}, ${max} ], got: ${text}`);
}

function wrong(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}
