// MessagePack of a map from short names to bytes, which is all that a request with tensors needs.

const FIXMAP = 0x80;
const FIXSTR = 0xa0;
const NAME_BYTES_MAX = 31;
const BIN_SIZES = { 196: 1, 197: 2, 198: 4 };
const BIN32 = 0xc6;

/** @param {[string, Uint8Array][]} entries at most 15, with names of at most 31 bytes */
export function packBytes(entries) {
  const parts = [Buffer.of(FIXMAP | entries.length)];
  for (const [name, bytes] of entries) {
    const head = Buffer.alloc(5);
    head[0] = BIN32;
    head.writeUInt32BE(bytes.length, 1);
    parts.push(Buffer.of(FIXSTR | name.length), Buffer.from(name), head, bytes);
  }
  return Buffer.concat(parts);
}

/** @returns {Map<string, Buffer>} */
export function unpackBytes(packed) {
  const entries = new Map();
  let at = 1;
  for (let left = packed[0] & 0x0f; left > 0; left -= 1) {
    const nameEnd = at + 1 + (packed[at] & NAME_BYTES_MAX);
    const name = packed.toString('utf8', at + 1, nameEnd);
    const lengthBytes = BIN_SIZES[packed[nameEnd]];
    if (lengthBytes === undefined) throw new Error(`${name} is not bytes`);
    at = nameEnd + 1 + lengthBytes;
    const size = packed.readUIntBE(nameEnd + 1, lengthBytes);
    entries.set(name, packed.subarray(at, at + size));
    at += size;
  }
  return entries;
}
