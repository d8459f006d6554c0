import { isUtf8 } from 'node:buffer';
import { LIMITS } from '@nereid/config';
import { type ErrorInfo, REDIS_FULL } from '@nereid/protocol';
import type { BulkStore, NewBulk } from '@nereid/transport';
import type { SubmittedBulk } from './bulk.ts';
import type { JobAdmission } from './job-admission.ts';

/** Lines that are put down together: as many as an owner reads at a time. */
const CHUNK_LINES_MAX = 256;
const CHUNK_BYTES_MAX = 262_144;

const TOO_LARGE = 413;
/** Of a file that is refused no more is read. */
const DISCARD_BYTES_MAX = 2 * LIMITS.bulk_bytes_max;
const NEWLINE = 0x0a;
const BOM = '\ufeff';

type Refused = Extract<SubmittedBulk, { readonly ok: false }>;

export interface BulkFile {
  /** So many at least; 0 where nothing is known. */
  readonly bytes: number;
  readonly parts: AsyncIterable<Uint8Array>;
}

export interface UploadParts {
  readonly store: Pick<BulkStore, 'open' | 'put' | 'commit' | 'remove'>;
  readonly admission: JobAdmission;
}

/**
 * Puts the lines of a batch into Redis as they come, so that a gateway holds one chunk of each upload, and commits it once
 * all are there. Redis is to have room for the whole file before any of it is read, and for each chunk before that is written.
 * What goes wrong before the commit leaves nothing that anybody sees.
 */
export async function uploadLines(parts: UploadParts, batch: NewBulk, file: BulkFile): Promise<SubmittedBulk> {
  if (file.bytes > LIMITS.bulk_bytes_max) return fileTooLarge();
  const error = await parts.admission.outlook(file.bytes);
  if (error !== undefined) return { ok: false, error };
  let submitted: SubmittedBulk | undefined;
  try {
    submitted = await readLines(parts, batch, file.parts);
    return submitted;
  } finally {
    // Its room is for others at once; where Redis does not answer, it is forgotten in ten minutes.
    if (submitted?.ok !== true) await parts.store.remove(batch.id).catch(() => {});
  }
}

async function readLines(
  { store, admission }: UploadParts,
  batch: NewBulk,
  bytes: AsyncIterable<Uint8Array>,
): Promise<SubmittedBulk> {
  let chunk: string[] = [];
  let chunkBytes = 0;
  let chunks = 0;
  let count = 0;
  let refused: Refused | undefined;

  const put = async (): Promise<Refused | undefined> => {
    if (chunk.length === 0) return undefined;
    const error = await admission.refusal(chunkBytes);
    if (error !== undefined) return { ok: false, error };
    const done = await store.put(batch.id, chunks++, count - chunk.length, chunk);
    chunk = [];
    chunkBytes = 0;
    return done === 'put' ? undefined : notPut(done);
  };

  const opened = await store.open(batch);
  if (opened !== 'put') refused = notPut(opened);
  for await (const line of linesOf(bytes)) {
    // What follows is read and thrown away, so that the client reads the answer.
    if (refused !== undefined) continue;
    if (!line.ok) {
      refused = line;
      continue;
    }
    if (count === LIMITS.bulk_lines_max) {
      refused = tooLarge(`a batch has up to ${LIMITS.bulk_lines_max} lines; send the others as another one`);
      continue;
    }
    chunk.push(line.text);
    count++;
    chunkBytes += line.text.length;
    if (chunk.length >= CHUNK_LINES_MAX || chunkBytes >= CHUNK_BYTES_MAX) refused = await put();
  }
  refused ??= await put();
  if (refused !== undefined) return refused;
  if (count === 0) return wrong('the file has no lines: give one request a line');
  const record = await store.commit(batch.id, count);
  return record === undefined ? notPut('gone') : { ok: true, record };
}

type Line = { readonly ok: true; readonly text: string } | Refused;

/** Lines that have anything in them; ends with the first that cannot be taken, and then reads on without a word. */
async function* linesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  let number = 0;
  let total = 0;
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let over = false;

  const lineOf = (last: Uint8Array): Line | undefined => {
    number++;
    const line = held.length === 0 ? last : Buffer.concat([...held, last]);
    held = [];
    heldBytes = 0;
    if (!isUtf8(line)) return wrong(`line ${number} is not UTF-8`);
    const text = Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString('utf8').trim();
    const plain = number === 1 && text.startsWith(BOM) ? text.slice(1) : text;
    return plain === '' ? undefined : { ok: true, text: plain };
  };

  for await (const part of bytes) {
    total += part.byteLength;
    if (over && total > DISCARD_BYTES_MAX) return;
    if (over) continue;
    let from = 0;
    for (let at = part.indexOf(NEWLINE); at >= 0 && !over; at = part.indexOf(NEWLINE, from)) {
      const line =
        heldBytes + at - from > LIMITS.bulk_line_bytes_max ? longLine(number + 1) : lineOf(part.subarray(from, at));
      from = at + 1;
      over = line?.ok === false;
      if (line !== undefined) yield line;
    }
    if (over) continue;
    const rest = part.subarray(from);
    if (rest.byteLength > 0) held.push(rest);
    heldBytes += rest.byteLength;
    const refused =
      total > LIMITS.bulk_bytes_max
        ? fileTooLarge()
        : heldBytes > LIMITS.bulk_line_bytes_max
          ? longLine(number + 1)
          : undefined;
    if (refused === undefined) continue;
    over = true;
    held = [];
    yield refused;
  }
  const line = over || heldBytes === 0 ? undefined : lineOf(new Uint8Array(0));
  if (line !== undefined) yield line;
}

function fileTooLarge(): Refused {
  return tooLarge(`a batch has up to ${LIMITS.bulk_bytes_max} bytes; send the others as another one`);
}

function longLine(number: number): Refused {
  return tooLarge(`line ${number} has more than ${LIMITS.bulk_line_bytes_max} bytes`);
}

function wrong(message: string): Refused {
  return { ok: false, error: { code: 'INVALID_ARG', message } };
}

function tooLarge(message: string): Refused {
  return { ok: false, error: { code: 'INVALID_ARG', message }, status: TOO_LARGE };
}

function notPut(why: 'gone' | 'full'): Refused {
  const error: ErrorInfo =
    why === 'full'
      ? {
          code: 'UNAVAILABLE',
          message:
            'Redis has no memory left (maxmemory): send the file again once jobs have ended or results have expired',
          reason: REDIS_FULL,
        }
      : { code: 'UNAVAILABLE', message: 'the upload was forgotten before its end: send it again' };
  return { ok: false, error };
}
