/** Chunks that an instance's thread has sent and its worker has not taken yet; more wait in the model. */
export const WINDOW_CHUNKS_MAX = 64;
/** Of outputs; the chunk that passes it is still sent. */
export const WINDOW_BYTES_MAX = 8_388_608;
/** The worker says what it has taken after so many chunks or bytes, so that not each chunk costs a message. */
export const TAKEN_CHUNKS_MIN = 16;
export const TAKEN_BYTES_MIN = 1_048_576;

export interface ChunkWindow {
  sent(bytes: number): void;
  taken(chunks: number, bytes: number): void;
  /** Undefined where a chunk may be sent now, else resolves when it is worth to ask again. */
  room(): Promise<void> | undefined;
}

/**
 * Holds a model that answers faster than its worker can pass on: without it what it sends would pile
 * up between the two threads without a bound.
 */
export function createChunkWindow(): ChunkWindow {
  let chunks = 0;
  let bytes = 0;
  let waiting: (() => void)[] = [];
  return {
    sent(size) {
      chunks++;
      bytes += size;
    },
    taken(takenChunks, takenBytes) {
      chunks -= takenChunks;
      bytes -= takenBytes;
      const woken = waiting;
      waiting = [];
      for (const wake of woken) wake();
    },
    room() {
      if (chunks < WINDOW_CHUNKS_MAX && bytes < WINDOW_BYTES_MAX) return undefined;
      return new Promise((resolve) => waiting.push(resolve));
    },
  };
}

export interface TakenChunks {
  /** A chunk of so many bytes has been passed on. */
  add(bytes: number): void;
}

/** The worker's side: `tell` is called once enough has been taken since the last time. */
export function createTakenChunks(tell: (chunks: number, bytes: number) => void): TakenChunks {
  let chunks = 0;
  let bytes = 0;
  return {
    add(size) {
      chunks++;
      bytes += size;
      if (chunks < TAKEN_CHUNKS_MIN && bytes < TAKEN_BYTES_MIN) return;
      tell(chunks, bytes);
      chunks = 0;
      bytes = 0;
    },
  };
}
