// Reads a page: finds the lines of text with ocr_detector, cuts each out of the picture and reads it with
// ocr_recogniser. How many lines there are turns out only on the way, which no ensemble can express: so this model calls
// the others itself.
// IMAGE: BYTES [1], a PNG or JPEG file, or such a file in base64. For each line, in reading order: TEXT: BYTES [lines],
// UTF-8; SCORE: FP32 [lines], from 0 to 1; BOX: INT32 [lines, 4], left, top, width and height in pixels.
import { readFile } from 'node:fs/promises';
import { textBoxes } from './boxes.mjs';
import { decodeLine, readCharacters } from './ctc.mjs';
import { decodeImage, scaledPlanes } from './images.mjs';
import { lineTensor } from './lines.mjs';

/** The detector's sides are multiples of 32; a larger picture is looked at in this size, and read in its own. */
const SIDE_STEP = 32;
const SIDE_MAX = 960;
const NORM = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
/** Lines that are read at a time: enough for some instances, and few enough for a page of a thousand. */
const CALLS_MAX = 8;

const encoder = new TextEncoder();
let context;
let characters;

export async function initialize(start) {
  context = start.context;
  characters = readCharacters(await readFile(new URL('../characters.txt', import.meta.url), 'utf8'));
}

/** One response per request, in order. */
export function execute(requests) {
  return Promise.all(requests.map((request) => readPage(request).catch((error) => error)));
}

async function readPage(request) {
  const image = decodeImage(request.inputs.get('IMAGE').data[0]);
  const boxes = await findLines(image, request);
  const lines = await inParallel(boxes, CALLS_MAX, (part) => readLine({ image, part }, request));
  return {
    outputs: {
      TEXT: { datatype: 'BYTES', shape: [lines.length], data: lines.map(({ text }) => encoder.encode(text)) },
      SCORE: { datatype: 'FP32', shape: [lines.length], data: Float32Array.from(lines, ({ score }) => score) },
      BOX: {
        datatype: 'INT32',
        shape: [boxes.length, 4],
        data: Int32Array.from(boxes.flatMap(({ left, top, width, height }) => [left, top, width, height])),
      },
    },
  };
}

async function findLines(image, request) {
  const scale = Math.min(1, SIDE_MAX / Math.max(image.width, image.height));
  const side = (pixels) => Math.max(1, Math.round((pixels * scale) / SIDE_STEP)) * SIDE_STEP;
  const size = { width: side(image.width), height: side(image.height) };
  const whole = { left: 0, top: 0, width: image.width, height: image.height };
  const data = scaledPlanes(image, whole, size, NORM);
  const x = { datatype: 'FP32', shape: [1, 3, size.height, size.width], data };
  // With the request: its cancel ends the call, and its trace has it.
  const { outputs } = await context.infer('ocr_detector', { inputs: { x } }, { request });
  return textBoxes({ ...size, data: outputs['sigmoid_0.tmp_0'].data }, image);
}

async function readLine(line, request) {
  const { outputs } = await context.infer('ocr_recogniser', { inputs: { x: lineTensor([line]) } }, { request });
  return decodeLine(outputs['softmax_11.tmp_0'].data, characters);
}

/** `work` on all items, on `limit` at a time; the results in the items' order. */
async function inParallel(items, limit, work) {
  const results = Array(items.length);
  const open = items.entries();
  const worker = async () => {
    for (const [index, item] of open) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
  return results;
}
