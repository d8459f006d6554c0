// Texts out of what ocr_recogniser answers.
// PROBABILITIES: FP32 [n, steps, 6625]; TEXT: BYTES [n, 1], UTF-8; SCORE: FP32 [n, 1], from 0 to 1.
import { readFile } from 'node:fs/promises';
import { decodeLine, readCharacters } from './ctc.mjs';

const encoder = new TextEncoder();
let characters;

export async function initialize() {
  characters = readCharacters(await readFile(new URL('../characters.txt', import.meta.url), 'utf8'));
}

/** One response per request, in order. A request may itself be a batch. */
export function execute(requests) {
  return requests.map(({ inputs }) => {
    const { shape, data } = inputs.get('PROBABILITIES');
    const [rows] = shape;
    const size = data.length / Math.max(1, rows);
    const lines = Array.from({ length: rows }, (_, row) =>
      decodeLine(data.subarray(row * size, (row + 1) * size), characters),
    );
    return {
      outputs: {
        TEXT: { datatype: 'BYTES', shape: [rows, 1], data: lines.map(({ text }) => encoder.encode(text)) },
        SCORE: { datatype: 'FP32', shape: [rows, 1], data: Float32Array.from(lines, ({ score }) => score) },
      },
    };
  });
}
