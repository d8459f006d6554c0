// Pictures for neural nets: decoded from PNG or JPEG, and parts of them scaled and normalised.
import jpeg from 'jpeg-js';
import { PNG } from 'pngjs';

/** A small file can hold a huge picture. */
const MEGAPIXELS_MAX = 25;
const JPEG_MEMORY_MAX_MIB = 512;
const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const JPEG_SIGNATURE = [0xff, 0xd8, 0xff];
/** How such files begin in base64, which goes into JSON. */
const BASE64_BEGINS = ['iVBORw0KGgo', '/9j/'].map((text) => [...Buffer.from(text)]);
/** The width and height of a PNG stand behind its signature and the header of its first chunk. */
const PNG_SIZE_AT = 16;
const WHITE = 255;

/**
 * A picture as RGBA, 8 bits each. Throws INVALID_ARG for what is none.
 *
 * @param {Uint8Array} bytes a PNG or JPEG file, or one in base64
 * @returns {{ width: number, height: number, data: Uint8Array }}
 */
export function decodeImage(bytes) {
  const isBase64 = BASE64_BEGINS.some((begin) => beginsWith(bytes, begin));
  const file = isBase64 ? Buffer.from(Buffer.from(bytes).toString('latin1'), 'base64') : bytes;
  if (beginsWith(file, PNG_SIGNATURE)) return decoded('PNG', () => decodePng(file));
  if (beginsWith(file, JPEG_SIGNATURE)) return decoded('JPEG', () => decodeJpeg(file));
  throw invalid('IMAGE is neither a PNG nor a JPEG file');
}

const beginsWith = (bytes, begin) => begin.every((byte, index) => bytes[index] === byte);

function decodePng(file) {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const pixels = bytes.readUInt32BE(PNG_SIZE_AT) * bytes.readUInt32BE(PNG_SIZE_AT + 4);
  if (pixels > MEGAPIXELS_MAX * 1e6) throw new Error(`it has more than ${MEGAPIXELS_MAX} megapixels`);
  return PNG.sync.read(bytes);
}

function decodeJpeg(file) {
  const limits = { maxResolutionInMP: MEGAPIXELS_MAX, maxMemoryUsageInMB: JPEG_MEMORY_MAX_MIB };
  return jpeg.decode(file, { useTArray: true, formatAsRGBA: true, ...limits });
}

function decoded(format, decode) {
  try {
    return decode();
  } catch (cause) {
    throw invalid(`IMAGE is no ${format} file that can be read: ${cause.message}`);
  }
}

function invalid(message) {
  return Object.assign(new Error(message), { code: 'INVALID_ARG' });
}

/**
 * A part of a picture in another size, as the planes blue, green and red, each `(value / 255 - mean) / deviation`:
 * what PaddleOCR's nets were trained with. Every target pixel is the mean of the pixels that it covers, near ones
 * weighing more. What is transparent is white.
 *
 * @param {{ width: number, height: number, data: Uint8Array }} image
 * @param {{ left: number, top: number, width: number, height: number }} part inside the picture
 * @param {{ width: number, height: number }} size
 * @param {{ mean: readonly number[], deviation: readonly number[] }} norm of blue, green and red
 */
export function scaledPlanes(image, part, size, { mean, deviation }) {
  const columns = taps(part.left, part.width, size.width);
  const rows = taps(part.top, part.height, size.height);
  const planes = new Float32Array(3 * size.width * size.height);
  for (const [plane, channel] of [2, 1, 0].entries()) {
    const narrow = scaledRows(image, part, channel, columns);
    const out = planes.subarray(plane * size.width * size.height, (plane + 1) * size.width * size.height);
    const offset = mean[plane];
    const factor = 1 / deviation[plane];
    for (const [y, { first, weights }] of rows.entries()) {
      for (let x = 0; x < size.width; x += 1) {
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap += 1)
          sum += weights[tap] * narrow[(first - part.top + tap) * size.width + x];
        out[y * size.width + x] = (sum / 255 - offset) * factor;
      }
    }
  }
  return planes;
}

/** One channel of the part's rows, scaled to the target's width. */
function scaledRows({ width, data }, part, channel, columns) {
  const scaled = new Float32Array(part.height * columns.length);
  for (let y = 0; y < part.height; y += 1) {
    const row = (part.top + y) * width;
    for (const [x, { first, weights }] of columns.entries()) {
      let sum = 0;
      for (let tap = 0; tap < weights.length; tap += 1) {
        const at = (row + first + tap) * 4;
        const alpha = data[at + 3] / 255;
        sum += weights[tap] * (data[at + channel] * alpha + WHITE * (1 - alpha));
      }
      scaled[y * columns.length + x] = sum;
    }
  }
  return scaled;
}

/** Of which source pixels, from `first` on, each target pixel is made, and how much of each. */
function taps(from, size, target) {
  const step = size / target;
  const reach = Math.max(1, step);
  return Array.from({ length: target }, (_, index) => {
    const centre = from + (index + 0.5) * step - 0.5;
    const first = Math.max(from, Math.ceil(centre - reach));
    const last = Math.min(from + size - 1, Math.floor(centre + reach));
    const weights = Array.from({ length: last - first + 1 }, (_weight, tap) =>
      Math.max(0, 1 - Math.abs(first + tap - centre) / reach),
    );
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}
