/**
 * What a mailbox's list in Redis holds: parcels, each of the frames that one sender pushed together. A parcel is how many
 * messages and how many bytes of frames had ever gone into the mailbox before it, as big-endian doubles that the script
 * puts there, and then each frame behind its length, a little-endian uint32. Redis and its clients take time for each
 * value, so a push of twenty small frames costs a fraction of what twenty values would.
 */

/** The two counters in front. */
export const PARCEL_COUNTERS_BYTES = 16;
/** The length before each frame. */
export const FRAME_LENGTH_BYTES = 4;
/** A larger frame has a parcel of its own. Redis reads the first parcel as a whole where a mailbox is nearly full. */
const PARCEL_BYTES_MAX = 65_536;
const PARCEL_FRAMES_MAX = 64;

/** The frames as parcels without counters: for each the number of its frames, then its bytes. */
export function packParcels(frames: readonly Uint8Array[]): (number | Buffer)[] {
  const packed: (number | Buffer)[] = [];
  let first = 0;
  let bytes = 0;
  for (const [index, { byteLength }] of frames.entries()) {
    const size = FRAME_LENGTH_BYTES + byteLength;
    if (index > first && (bytes + size > PARCEL_BYTES_MAX || index - first === PARCEL_FRAMES_MAX)) {
      packed.push(index - first, parcel(frames, first, index, bytes));
      first = index;
      bytes = 0;
    }
    bytes += size;
  }
  if (frames.length > first) packed.push(frames.length - first, parcel(frames, first, frames.length, bytes));
  return packed;
}

function parcel(frames: readonly Uint8Array[], first: number, end: number, bytes: number): Buffer {
  const packed = Buffer.allocUnsafe(bytes);
  let offset = 0;
  for (let index = first; index < end; index++) {
    const frame = frames[index];
    if (frame === undefined) break;
    packed.writeUInt32LE(frame.byteLength, offset);
    packed.set(frame, offset + FRAME_LENGTH_BYTES);
    offset += FRAME_LENGTH_BYTES + frame.byteLength;
  }
  return packed;
}

/** The frames of a parcel, as views on it; of one that is broken those before the break, and `whole` is false. */
export function readParcel(parcel: Buffer): { readonly frames: readonly Buffer[]; readonly whole: boolean } {
  const frames: Buffer[] = [];
  let offset = PARCEL_COUNTERS_BYTES;
  while (offset + FRAME_LENGTH_BYTES <= parcel.byteLength) {
    const end = offset + FRAME_LENGTH_BYTES + parcel.readUInt32LE(offset);
    if (end > parcel.byteLength) break;
    frames.push(parcel.subarray(offset + FRAME_LENGTH_BYTES, end));
    offset = end;
  }
  return { frames, whole: offset === parcel.byteLength };
}
