/** So many chunks are joined into one piece: a body of one-byte chunks costs bytes, not objects. */
const CHUNKS_PER_PIECE = 1024;

/** A body that is announced as shorter mostly comes in one chunk. */
const GATHERED_BYTES_MIN = 65_536;
/** A client can make the server set aside so much for the one byte that it sends. */
const GATHERED_BYTES_MAX = 16_777_216;

/** The bytes of a body as they come. */
export interface BodyBytes {
  /** Node hands over each chunk as a copy of its own. */
  add(chunk: Buffer): void;
  /** All of them in one; nothing is to be added any more. */
  end(): Uint8Array;
  drop(): void;
}

/**
 * `announced` is the length by the header, 0 where it is not known. What is large and announced is
 * copied into its place while the chunk is in the cache still, and the chunk is free at once.
 * All else is joined at the end; a body of one chunk is used as it is.
 */
export function createBodyBytes(announced: number): BodyBytes {
  let pieces: Buffer[] = [];
  let chunks: Buffer[] = [];
  let gathers = announced >= GATHERED_BYTES_MIN && announced <= GATHERED_BYTES_MAX;
  let whole: Buffer | undefined;
  let filled = 0;

  /** More has come than was announced, which Node's own parser would not hand over. */
  const giveUpGathering = () => {
    gathers = false;
    if (whole !== undefined) pieces.push(whole.subarray(0, filled));
    whole = undefined;
  };

  const join = () => {
    const [first, second] = chunks;
    if (pieces.length === 0 && second === undefined) return first ?? new Uint8Array(0);
    return Buffer.concat([...pieces, ...chunks]);
  };

  return {
    add(chunk) {
      if (gathers && filled + chunk.length > announced) giveUpGathering();
      if (gathers) {
        whole ??= Buffer.allocUnsafeSlow(announced);
        whole.set(chunk, filled);
        filled += chunk.length;
        return;
      }
      chunks.push(chunk);
      if (chunks.length === CHUNKS_PER_PIECE) {
        pieces.push(Buffer.concat(chunks));
        chunks = [];
      }
    },
    end: () => whole?.subarray(0, filled) ?? join(),
    drop() {
      pieces = [];
      chunks = [];
      whole = undefined;
    },
  };
}
