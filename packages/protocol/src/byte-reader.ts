/** Reads bytes that come in chunks of any size. */
export interface ByteReader {
  /** Exactly so many; undefined where they end before. Holds no more than have come. */
  take(bytes: number): Promise<Buffer | undefined>;
  /** Those before the next line feed, which is dropped; undefined where none is within so many, or they end before. */
  line(bytesMax: number): Promise<Buffer | undefined>;
  /** Whether none are left. */
  ended(): Promise<boolean>;
}

const LINE_FEED = 0x0a;

export function byteReader(chunks: AsyncIterator<Uint8Array>): ByteReader {
  let parts: Buffer[] = [];
  let held = 0;

  /** False at the end. */
  async function more(): Promise<boolean> {
    const { value, done } = await chunks.next();
    if (done === true) return false;
    parts.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    held += value.byteLength;
    return true;
  }

  async function take(bytes: number): Promise<Buffer | undefined> {
    while (held < bytes) {
      if (!(await more())) return undefined;
    }
    const all = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    parts = [all.subarray(bytes)];
    held -= bytes;
    return all.subarray(0, bytes);
  }

  async function line(bytesMax: number): Promise<Buffer | undefined> {
    let before = 0;
    for (let index = 0; before <= bytesMax; index++) {
      if (index === parts.length && !(await more())) return undefined;
      const part = parts[index] as Buffer;
      const end = part.indexOf(LINE_FEED);
      if (end >= 0 && before + end <= bytesMax) return (await take(before + end + 1))?.subarray(0, -1);
      before += part.byteLength;
    }
    return undefined;
  }

  async function ended(): Promise<boolean> {
    while (held === 0) {
      if (!(await more())) return true;
    }
    return false;
  }

  return { take, line, ended };
}
