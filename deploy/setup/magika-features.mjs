import { isUtf8 } from 'node:buffer';

// What the Python package does before it asks its model standard_v3_3: config.min.json and
// magika.py, _extract_features_from_seekable.
const BLOCK_SIZE_BYTES = 4096;
const BEGIN_SIZE = 1024;
const END_SIZE = 1024;
const PADDING_TOKEN = 256;
const MEANINGFUL_BYTES_MIN = 8;
/** What Python's bytes.strip() takes off: space, \t, \n, \v, \f, \r. */
const WHITESPACE = new Set([32, 9, 10, 11, 12, 13]);

/**
 * The model's input for the content of a file, INT32 [2048]: the first 1024 bytes after leading whitespace and the
 * last 1024 before trailing whitespace, of the first and last 4096; padded at the far side.
 *
 * @param {Uint8Array} content
 * @returns {{ features: Int32Array } | { answer: string }} `answer` where there is too little for the model
 */
export function magikaFeatures(content) {
  if (content.length === 0) return { answer: 'empty' };
  if (content.length < MEANINGFUL_BYTES_MIN) return { answer: textOrUnknown(content) };
  const block = Math.min(BLOCK_SIZE_BYTES, content.length);
  const begin = withoutLeadingWhitespace(content.subarray(0, block)).subarray(0, BEGIN_SIZE);
  const end = withoutTrailingWhitespace(content.subarray(content.length - block));
  const features = new Int32Array(BEGIN_SIZE + END_SIZE).fill(PADDING_TOKEN);
  features.set(begin, 0);
  const last = end.subarray(Math.max(0, end.length - END_SIZE));
  features.set(last, features.length - last.length);
  if (begin.length < MEANINGFUL_BYTES_MIN) return { answer: textOrUnknown(content.subarray(0, block)) };
  return { features };
}

/** The label with the highest score, the first one of equals. */
export function bestLabel(scores, labels) {
  let best = 0;
  for (let index = 1; index < scores.length; index += 1) if (scores[index] > scores[best]) best = index;
  return { label: labels[best], score: scores[best] };
}

function withoutLeadingWhitespace(bytes) {
  let start = 0;
  while (start < bytes.length && WHITESPACE.has(bytes[start])) start += 1;
  return bytes.subarray(start);
}

function withoutTrailingWhitespace(bytes) {
  let end = bytes.length;
  while (end > 0 && WHITESPACE.has(bytes[end - 1])) end -= 1;
  return bytes.subarray(0, end);
}

function textOrUnknown(bytes) {
  return isUtf8(bytes) ? 'txt' : 'unknown';
}
