import { badOption } from '@nereid/config';
import { NereidError, type Parameters, type ParameterValue } from '@nereid/protocol';
import { RE2JS } from 're2js';
import type { Result } from './result.ts';

/** Of `--http-header-forward-pattern` or `--grpc-header-forward-pattern`. */
export type ForwardsHeader = (name: string) => boolean;

/** So many names are remembered; clients choose them, so there is no end to them. */
const NAMES_REMEMBERED_MAX = 1_024;
/** A longer name is not remembered, only matched. */
const NAME_REMEMBERED_CHARS_MAX = 128;

/**
 * The names of parameters that the protocol itself gives a meaning; a header that took one of them
 * would change how a request is scheduled or answered.
 */
const RESERVED = new Set([
  'sequence_id',
  'sequence_start',
  'sequence_end',
  'nereid_step',
  'nereid_journal',
  'priority',
  'timeout',
  'headers',
  'binary_data_output',
]);

/**
 * Whether a header of that name is passed on: RE2's syntax, the pattern may match a part of the name,
 * without regard to case unless the pattern says `(?-i)` (http_server.cc, RE2::PartialMatch). By a port
 * of RE2, whose time is bounded by the lengths of pattern and name: a RegExp that backtracks could be
 * made to run for ever by the names that a client chooses.
 */
export function compileForwardPattern(pattern: string, flag = 'http-header-forward-pattern'): Result<ForwardsHeader> {
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    return { ok: false, error: badOption(flag, `'${pattern}' is no RE2 expression (${why}); give e.g. X-Tenant-.*`) };
  }
  const known = new Map<string, boolean>();
  const forwards = (name: string): boolean => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const matches = compiled.matcher(name).find();
    if (name.length > NAME_REMEMBERED_CHARS_MAX) return matches;
    if (known.size === NAMES_REMEMBERED_MAX) known.clear();
    known.set(name, matches);
    return matches;
  };
  return { ok: true, value: forwards };
}

/**
 * The parameters with those of the headers that are passed on, each a string under the header's name
 * as it was sent. A header takes the place of a parameter of its name: what a proxy before the server
 * sets is not for its clients to change. `headers` has names and values in turn, each value's
 * characters its bytes, as Node has it. Throws INVALID_ARG for a name that the protocol reserves.
 */
export function withForwardedHeaders(
  parameters: Parameters,
  headers: readonly string[],
  forwards: ForwardsHeader,
): Parameters {
  let added: [string, ParameterValue][] | undefined;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (!forwards(name)) continue;
    checkName(name);
    added ??= [];
    added.push([name, Buffer.from(headers[at + 1] ?? '', 'latin1').toString()]);
  }
  // fromEntries defines members, so that a header named __proto__ is one like any other.
  return added === undefined ? parameters : Object.fromEntries([...Object.entries(parameters), ...added]);
}

/** As Triton 2.73 has it; 2.51 let a header be such a parameter. */
function checkName(name: string): void {
  const lower = name.toLowerCase();
  if (!RESERVED.has(lower) && !lower.startsWith('triton_')) return;
  throw new NereidError(
    'INVALID_ARG',
    `header '${name}' can not be forwarded: the parameter of that name is reserved; send it under another name, ` +
      'or narrow the pattern of --http-header-forward-pattern (--grpc-header-forward-pattern)',
    { field: name },
  );
}
