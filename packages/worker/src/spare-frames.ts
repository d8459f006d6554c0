/** The frames of batches of at least so many bytes are used again. */
export const RETURNED_BYTES_MIN = 65_536;
/** Kept per instance: as many as an instance holds batches of one request at a time, rarely more. */
const SPARE_FRAMES_MAX = 4;
const SPARE_BYTES_MAX = 16_777_216;
/** A spare that is larger than this times what is needed would keep memory for nothing. */
const EXCESS_FACTOR = 2;

/**
 * Buffers for the frames of large batches. The pages of a fresh buffer are cleared one by one when
 * they are first written to, which takes three times as long as the copy itself.
 */
export interface SpareFrames {
  /** At least so many bytes, of which large ones are not cleared. */
  take(bytes: number): ArrayBuffer;
  /** One that nobody looks at any more. */
  give(frame: ArrayBuffer): void;
  readonly bytes: number;
}

export function createSpareFrames(): SpareFrames {
  const spares: ArrayBuffer[] = [];
  let held = 0;
  return {
    take(bytes) {
      if (bytes < RETURNED_BYTES_MIN) return new ArrayBuffer(bytes);
      const place = spares.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= bytes * EXCESS_FACTOR);
      const [spare] = place < 0 ? [] : spares.splice(place, 1);
      if (spare === undefined) return Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer;
      held -= spare.byteLength;
      return spare;
    },
    give(frame) {
      if (frame.byteLength < RETURNED_BYTES_MIN || frame.byteLength > SPARE_BYTES_MAX) return;
      spares.push(frame);
      held += frame.byteLength;
      // The oldest go first: what is asked for now may be of another size than it was.
      while (spares.length > SPARE_FRAMES_MAX || held > SPARE_BYTES_MAX) held -= spares.shift()?.byteLength ?? held;
    },
    get bytes() {
      return held;
    },
  };
}
