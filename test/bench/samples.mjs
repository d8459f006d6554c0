const HEAD_BYTES = 12;
const HEADER_LENGTH = 'inference-header-content-length';

/**
 * The answers that the load generator kept, as loadgen/main.go writes them.
 *
 * @param {Buffer} file
 * @returns {{ request: number, headers: Headers, body: Buffer }[]} `request`: which of the bodies was sent
 */
export function readSamples(file) {
  const samples = [];
  for (let at = 0; at < file.length; ) {
    const [request, header, size] = [0, 4, 8].map((offset) => file.readInt32LE(at + offset));
    const begin = at + HEAD_BYTES;
    at = begin + size;
    const headers = new Headers(header < 0 ? {} : { [HEADER_LENGTH]: `${header}` });
    samples.push({ request, headers, body: file.subarray(begin, at) });
  }
  return samples;
}
