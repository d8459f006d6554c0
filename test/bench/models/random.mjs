/**
 * Numbers that look random and are the same each time (mulberry32), evenly between -1 and 1.
 *
 * @param {number} seed
 * @param {number} count
 * @returns {Float32Array}
 */
export function randomValues(seed, count) {
  let state = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 31 - 1;
  });
}
