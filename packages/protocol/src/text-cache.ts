const SLOTS = 1_024;
const TEXT_BYTES_MAX = 48;
const ASCII_MAX = 0x7f;
const HASH_FACTOR = 31;

/** Texts by their bytes, so that one that comes again is neither decoded nor kept twice. */
export interface TextCache {
  /** The UTF-8 text at that place. */
  text(bytes: Buffer, start: number, end: number): string;
}

/** Holds SLOTS texts of TEXT_BYTES_MAX ASCII characters at most; a newer one takes the place of an older. */
export function createTextCache(): TextCache {
  const slots: string[] = new Array<string>(SLOTS).fill('');
  return {
    text(bytes, start, end) {
      if (end - start > TEXT_BYTES_MAX) return bytes.toString('utf8', start, end);
      let hash = 0;
      for (let index = start; index < end; index++) hash = (Math.imul(hash, HASH_FACTOR) + (bytes[index] ?? 0)) | 0;
      const slot = (hash ^ (hash >>> 10)) & (SLOTS - 1);
      const known = slots[slot] ?? '';
      if (isText(known, bytes, start, end)) return known;
      const text = bytes.toString('utf8', start, end);
      // One of other characters has fewer of them than bytes, and is not compared.
      if (text.length === end - start) slots[slot] = text;
      return text;
    },
  };
}

function isText(text: string, bytes: Buffer, start: number, end: number): boolean {
  if (text.length !== end - start) return false;
  for (let index = start; index < end; index++) {
    const byte = bytes[index] ?? 0;
    if (byte > ASCII_MAX || text.charCodeAt(index - start) !== byte) return false;
  }
  return true;
}
