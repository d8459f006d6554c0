// Boxes of lines of text out of the detector's map, which says of each pixel how likely it belongs to text.

const PIXEL_MIN = 0.3;
/** The mean over a box's pixels of the map. */
const BOX_MIN = 0.6;
const SIDE_MIN = 3;
/** The net was taught lines that are shrunk: each side is moved out by area times this over circumference. */
const GROWTH = 1.6;
const BOXES_MAX = 1_000;

/**
 * One box per connected region, upright, in the pixels of a picture of `width` by `height`; in reading order. Of
 * slanted text a box holds more than the text.
 *
 * @param {{ width: number, height: number, data: Float32Array }} map of the whole picture
 * @param {{ width: number, height: number }} image
 * @returns {{ left: number, top: number, width: number, height: number }[]}
 */
export function textBoxes(map, image) {
  const found = regions(map).filter(
    ({ left, top, right, bottom, sum, count }) =>
      Math.min(right - left, bottom - top) + 1 >= SIDE_MIN && sum / count >= BOX_MIN,
  );
  return inReadingOrder(found.slice(0, BOXES_MAX).map((region) => grownBox(region, map, image)));
}

/** Regions of neighbouring pixels (also across corners), with their bounds, count and sum. */
function regions({ width, height, data }) {
  const seen = new Uint8Array(data.length);
  const found = [];
  for (let start = 0; start < data.length; start += 1) {
    if (seen[start] === 1 || data[start] < PIXEL_MIN) continue;
    const region = { left: width, top: height, right: 0, bottom: 0, sum: 0, count: 0 };
    const open = [start];
    seen[start] = 1;
    while (open.length > 0) {
      const at = open.pop();
      const x = at % width;
      const y = (at - x) / width;
      widen(region, x, y, data[at]);
      for (let ny = Math.max(0, y - 1); ny <= Math.min(height - 1, y + 1); ny += 1) {
        for (let nx = Math.max(0, x - 1); nx <= Math.min(width - 1, x + 1); nx += 1) {
          const next = ny * width + nx;
          if (seen[next] === 1 || data[next] < PIXEL_MIN) continue;
          seen[next] = 1;
          open.push(next);
        }
      }
    }
    found.push(region);
  }
  return found;
}

function widen(region, x, y, value) {
  region.left = Math.min(region.left, x);
  region.right = Math.max(region.right, x);
  region.top = Math.min(region.top, y);
  region.bottom = Math.max(region.bottom, y);
  region.sum += value;
  region.count += 1;
}

function grownBox({ left, top, right, bottom }, map, image) {
  const width = right - left + 1;
  const height = bottom - top + 1;
  const grow = (width * height * GROWTH) / (2 * (width + height));
  const [x0, x1] = between(left - grow, right + 1 + grow, image.width / map.width, image.width);
  const [y0, y1] = between(top - grow, bottom + 1 + grow, image.height / map.height, image.height);
  return { left: x0, top: y0, width: x1 - x0, height: y1 - y0 };
}

function between(low, high, scale, end) {
  return [Math.max(0, Math.floor(low * scale)), Math.min(end, Math.ceil(high * scale))];
}

/** Row by row, and in a row from left to right; boxes are in one row where the middle of one is within the other. */
function inReadingOrder(boxes) {
  const rows = [];
  for (const box of boxes.toSorted((one, other) => one.top - other.top)) {
    const middle = box.top + box.height / 2;
    const row = rows.find(({ top, bottom }) => middle >= top && middle < bottom);
    if (row === undefined) rows.push({ top: box.top, bottom: box.top + box.height, boxes: [box] });
    else row.boxes.push(box);
  }
  return rows.flatMap((row) => row.boxes.toSorted((one, other) => one.left - other.left));
}
