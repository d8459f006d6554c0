// Lines of text as the recogniser wants them.
import { scaledPlanes } from './images.mjs';

const HEIGHT = 48;
/** Widths are multiples of it: few different shapes. */
const WIDTH_STEP = 32;
/** A longer line is squeezed. */
const WIDTH_MAX = 3_200;
const NORM = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] };

/** The width that a part of a picture has once it is as high as the recogniser wants. */
function lineWidth({ width, height }) {
  return Math.min(WIDTH_MAX, Math.max(1, Math.round((width * HEIGHT) / height)));
}

/**
 * Lines in one tensor, the recogniser's input: FP32 [lines, 3, 48, width]. Narrower ones are filled up with grey at
 * their right.
 *
 * @param {readonly { image: object, part: { left: number, top: number, width: number, height: number } }[]} lines
 */
export function lineTensor(lines) {
  const widths = lines.map(({ part }) => lineWidth(part));
  const width = Math.ceil(Math.max(1, ...widths) / WIDTH_STEP) * WIDTH_STEP;
  const data = new Float32Array(lines.length * 3 * HEIGHT * width);
  for (const [index, { image, part }] of lines.entries()) {
    const own = widths[index];
    const planes = scaledPlanes(image, part, { width: own, height: HEIGHT }, NORM);
    for (let row = 0; row < 3 * HEIGHT; row += 1)
      data.set(planes.subarray(row * own, (row + 1) * own), (index * 3 * HEIGHT + row) * width);
  }
  return { datatype: 'FP32', shape: [lines.length, 3, HEIGHT, width], data };
}
