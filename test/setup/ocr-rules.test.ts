import { expect, test } from 'vitest';
import { textBoxes } from '../../deploy/models/ocr/boxes.mjs';
import { decodeLine, readCharacters } from '../../deploy/models/ocr/ctc.mjs';

const CHARACTERS = readCharacters('a\nb\r\n');

/** One step for each class, of which it is quite sure. */
const steps = (...classes: readonly number[]) =>
  Float32Array.from(classes.flatMap((best) => [0, 1, 2, 3].map((index) => (index === best ? 0.75 : 0))));

test.each([
  ['nothing', [], ''],
  ['no character at all', [0, 0, 0], ''],
  ['one character over several steps', [0, 1, 1, 1, 0], 'a'],
  ['the same one twice', [1, 0, 1], 'aa'],
  ['one behind the other', [1, 2, 2, 1], 'aba'],
  ['the space, which is the last class', [1, 3, 2], 'a b'],
])('the text of a line: %s', (_what, classes, text) => {
  expect(decodeLine(steps(...classes), CHARACTERS)).toEqual({ text, score: text === '' ? 0 : 0.75 });
});

const SIZE = 64;
type Area = readonly [left: number, top: number, width: number, height: number];

/** A map with these areas of text, each of the same likelihood. */
function mapOf(areas: readonly Area[], value: number) {
  const data = new Float32Array(SIZE * SIZE);
  for (const [left, top, width, height] of areas) {
    for (let y = top; y < top + height; y += 1) data.fill(value, y * SIZE + left, y * SIZE + left + width);
  }
  return { width: SIZE, height: SIZE, data };
}

const boxesOf = (areas: readonly Area[], value = 0.9, scale = 1) =>
  textBoxes(mapOf(areas, value), { width: SIZE * scale, height: SIZE * scale }).map(
    ({ left, top, width, height }): Area => [left, top, width, height],
  );

// Of an area of 20 by 4 each side is moved out by 1.6 times 80 over 48: 2.7.
test.each([
  ['one line', [[20, 20, 20, 4]], 0.9, 1, [[17, 17, 26, 10]]],
  ['in the pixels of the picture', [[20, 20, 20, 4]], 0.9, 2, [[34, 34, 52, 20]]],
  ['within the picture', [[0, 0, 20, 4]], 0.9, 1, [[0, 0, 23, 7]]],
  ['one that is too unlikely', [[20, 20, 20, 4]], 0.5, 1, []],
  ['one that is too thin', [[20, 20, 20, 2]], 0.9, 1, []],
  [
    'row by row, from left to right',
    [
      [34, 11, 20, 4],
      [4, 40, 20, 4],
      [4, 12, 20, 4],
    ],
    0.9,
    1,
    [
      [1, 9, 26, 10],
      [31, 8, 26, 10],
      [1, 37, 26, 10],
    ],
  ],
] as const)('boxes: %s', (_what, areas, value, scale, boxes) => {
  expect(boxesOf(areas, value, scale)).toEqual(boxes);
});
