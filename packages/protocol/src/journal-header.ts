/** The first line of a journal file: JSON that says what was recorded (docs/replay-files.md). */
import { NereidError } from './error.ts';
import { WALL_MS_MAX } from './protocol-limits.ts';
import { RECORDING_STATES, type Recording, type RecordingKind } from './recorded.ts';

const FORMAT = 'nereid-journal';
/** Written into every file; files of this version are read. */
const VERSION = 1;
const KINDS: readonly RecordingKind[] = ['sequence', 'request'];
const NAME_BYTES_MAX = 255;
const UINT64 = /^[0-9]{1,20}$/;

/** A line without its end. */
export function encodeJournalHeader(recording: Recording): string {
  const { model, version, configSha256, steps, id, kind, correlationId, requestId, state, bytes } = recording;
  return JSON.stringify({
    format: FORMAT,
    version: VERSION,
    model,
    version_of_model: version,
    config_sha256: configSha256,
    steps,
    ...{ id, kind, state, bytes },
    // Any JSON reader keeps a text; an object tells it from an id that is one.
    ...(kind === 'request'
      ? {}
      : { sequence_id: typeof correlationId === 'bigint' ? { uint64: String(correlationId) } : correlationId }),
    request_id: requestId,
    worker: recording.worker,
    started_ms: recording.startedMs,
    last_ms: recording.lastMs,
    content_hash: recording.contentHash,
  });
}

/** Throws INVALID_ARG where it is no header of a journal file, or that of a later version. */
export function decodeJournalHeader(line: string): Recording {
  const header = parsed(line);
  if (header.format !== FORMAT) throw noFile();
  if (header.version !== VERSION) {
    throw new NereidError(
      'INVALID_ARG',
      `the journal file is of version ${JSON.stringify(header.version)} and this build reads version ${VERSION}: import it with a later build`,
      { field: 'body' },
    );
  }
  return {
    id: text(header, 'id'),
    model: modelName(header),
    version: text(header, 'version_of_model'),
    kind: oneOf(header, 'kind', KINDS),
    correlationId: header.kind === 'request' ? 0n : sequenceId(header.sequence_id),
    requestId: text(header, 'request_id'),
    state: oneOf(header, 'state', RECORDING_STATES),
    steps: count(header, 'steps'),
    bytes: count(header, 'bytes'),
    startedMs: time(header, 'started_ms'),
    lastMs: time(header, 'last_ms'),
    worker: text(header, 'worker'),
    configSha256: text(header, 'config_sha256'),
    contentHash: text(header, 'content_hash'),
    imported: true,
  };
}

/** What is wrong with a file that was whole once. */
export function brokenFile(why: string, cause?: unknown): NereidError {
  const text = `the journal file is broken: ${why}. Copy it again, or export the recording again`;
  return new NereidError('INVALID_ARG', text, { field: 'body', cause });
}

export function noFile(): NereidError {
  return new NereidError('INVALID_ARG', "this is no journal file: give one that 'nereid replay export' has written", {
    field: 'body',
  });
}

type Header = Readonly<Record<string, unknown>>;

function parsed(line: string): Header {
  try {
    const header: unknown = JSON.parse(line);
    if (typeof header === 'object' && header !== null) return header as Header;
  } catch {
    // Told below.
  }
  throw noFile();
}

function sequenceId(value: unknown): bigint | string {
  if (typeof value === 'string') return value;
  const { uint64 } = (value ?? {}) as { readonly uint64?: unknown };
  const read = typeof uint64 === 'string' && UINT64.test(uint64) ? BigInt(uint64) : undefined;
  if (read !== undefined && BigInt.asUintN(64, read) === read) return read;
  return wrong('sequence_id', 'a text, or an object with the text of an integer of 64 bits as uint64');
}

function text(header: Header, name: string): string {
  const value = header[name];
  return typeof value === 'string' ? value : wrong(name, 'a text');
}

/** Of a folder's name: it stands in ids, keys and paths. */
function modelName(header: Header): string {
  const name = text(header, 'model');
  const isName = name !== '' && Buffer.byteLength(name) <= NAME_BYTES_MAX && !/\p{Surrogate}/u.test(name);
  return isName ? name : wrong('model', `a name of 1 to ${NAME_BYTES_MAX} bytes`);
}

function number(header: Header, name: string): number {
  const value = header[name];
  // JSON has infinities, too: 1e999.
  return Number.isFinite(value) ? (value as number) : wrong(name, 'a number');
}

function time(header: Header, name: string): number {
  const value = number(header, name);
  return Math.abs(value) <= WALL_MS_MAX ? value : wrong(name, 'a time');
}

function count(header: Header, name: string): number {
  const value = number(header, name);
  return Number.isSafeInteger(value) && value >= 0 ? value : wrong(name, 'a whole number');
}

function oneOf<T extends string>(header: Header, name: string, values: readonly T[]): T {
  return values.find((value) => value === header[name]) ?? wrong(name, values.join(' or '));
}

function wrong(name: string, what: string): never {
  throw brokenFile(`'${name}' of its header must be ${what}`);
}
