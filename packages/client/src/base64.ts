/** Node's Buffer, where there is one: browsers have `btoa` and `atob` alone, which take many times as long. */
interface BufferClass {
  from(bytes: ArrayBufferLike, byteOffset: number, length: number): { toString(encoding: 'base64'): string };
  from(text: string, encoding: 'base64'): Uint8Array<ArrayBuffer>;
}

const NodeBuffer = (globalThis as { readonly Buffer?: BufferClass }).Buffer;
/** So many arguments every engine takes. */
const BLOCK = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  if (NodeBuffer !== undefined) {
    return NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  }
  let text = '';
  for (let start = 0; start < bytes.byteLength; start += BLOCK) {
    text += String.fromCharCode(...bytes.subarray(start, start + BLOCK));
  }
  return btoa(text);
}

/** The bytes of base64 text, in a buffer of their own. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  // Copied, since Node's small buffers share memory.
  if (NodeBuffer !== undefined) return new Uint8Array(NodeBuffer.from(text, 'base64'));
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
