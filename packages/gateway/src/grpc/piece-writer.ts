import { constants, type ServerHttp2Stream } from 'node:http2';
import type { CallBytes } from './call-bytes.ts';

/** So much of an answer is handed to Node at a time, in pieces of half of it at most: each that goes out shows that the client reads. */
const HANDED_BYTES_MAX = 2_097_152;
const PIECE_BYTES_MAX = HANDED_BYTES_MAX / 2;
/** With more than that on its way the client does not keep up. */
const KEEPING_UP_BYTES_MAX = 65_536;

/** Writes the answer of one call as fast as its client reads, and cuts the call of one who does not read at all. */
export interface PieceWriter {
  /** In order. Gives a promise where the client does not keep up; it resolves when it does, or has left. */
  write(pieces: readonly Uint8Array[]): Promise<void> | undefined;
  /** Calls back once all that was written is handed over. */
  afterAll(callback: () => void): void;
}

export function createPieceWriter(
  stream: ServerHttp2Stream,
  account: CallBytes,
  unread_timeout_ms: number,
): PieceWriter {
  const queue: Uint8Array[] = [];
  let handed = 0;
  let last: (() => void) | undefined;
  let stalled: NodeJS.Timeout | undefined;
  let keepsUp: Promise<void> | undefined;
  let tellKeepsUp: (() => void) | undefined;
  let watched = false;

  const taken = (bytes: number) => {
    handed -= bytes;
    account.release(bytes);
    handOver();
    if (handed === 0) unwatch();
    else stalled?.refresh();
    if (handed < KEEPING_UP_BYTES_MAX && queue.length === 0) settle();
  };

  const handOver = () => {
    while (queue.length > 0 && handed < HANDED_BYTES_MAX && !stream.destroyed && !stream.closed) {
      const piece = queue.shift() ?? new Uint8Array(0);
      handed += piece.byteLength;
      stream.write(piece, () => taken(piece.byteLength));
    }
    if (queue.length > 0 || last === undefined) return;
    const callback = last;
    last = undefined;
    callback();
  };

  const settle = () => {
    tellKeepsUp?.();
    keepsUp = undefined;
    tellKeepsUp = undefined;
  };

  const unwatch = () => {
    clearTimeout(stalled);
    stalled = undefined;
  };

  /** From the first byte that waits: a client can leave as little as that untaken in many calls. */
  const watch = () => {
    if (stalled !== undefined) return;
    stalled = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), unread_timeout_ms);
    stalled.unref();
    if (watched) return;
    watched = true;
    stream.once('close', () => {
      unwatch();
      settle();
    });
  };

  const wait = () => {
    keepsUp ??= new Promise((resolve) => {
      tellKeepsUp = resolve;
    });
    return keepsUp;
  };

  return {
    write(pieces) {
      for (const piece of pieces) {
        account.add(piece.byteLength);
        for (let from = 0; from < piece.byteLength; from += PIECE_BYTES_MAX) {
          queue.push(piece.byteLength <= PIECE_BYTES_MAX ? piece : piece.subarray(from, from + PIECE_BYTES_MAX));
        }
      }
      stream.cork();
      handOver();
      stream.uncork();
      if (handed > 0) watch();
      return handed < KEEPING_UP_BYTES_MAX && queue.length === 0 ? undefined : wait();
    },
    afterAll(callback) {
      last = callback;
      handOver();
    },
  };
}
