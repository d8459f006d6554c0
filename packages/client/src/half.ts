/** FP16 and BF16 to FP32 and back. Bits go in and come out as unsigned 16-bit integers. */

const SIGN = 0x8000;
/** FP16: 5 bits of exponent, biased by 15, and 10 of fraction; BF16 is the upper half of FP32. */
const HALF_INFINITY = 0x7c00;
const HALF_FRACTION_BITS = 10;
const FLOAT_FRACTION_BITS = 23;
const DROPPED_BITS = FLOAT_FRACTION_BITS - HALF_FRACTION_BITS;
/** Difference of the two biases, 127 and 15. */
const BIAS = 112;
const BF16_QUIET = 0x0040;
const HALF_QUIET = 0x0200;
const HALF_SMALLEST_NORMAL = 0x0400;
const HALF_SMALLEST = 2 ** -24;

/** FP16 bits as FP32; exact, a NaN keeps its fraction. */
export function fp16ToFp32(halves: Uint16Array): Float32Array<ArrayBuffer> {
  const result = new Float32Array(halves.length);
  const bits = new Uint32Array(result.buffer);
  for (let index = 0; index < halves.length; index++) {
    const half = halves[index] as number;
    const magnitude = half & 0x7fff;
    if (magnitude < HALF_SMALLEST_NORMAL) {
      result[index] = half & SIGN ? magnitude * -HALF_SMALLEST : magnitude * HALF_SMALLEST;
    } else {
      // Infinity and NaN have the greatest exponent in both.
      const rebias = magnitude >= HALF_INFINITY ? 2 * BIAS : BIAS;
      bits[index] = ((half & SIGN) << 16) | ((magnitude << DROPPED_BITS) + (rebias << FLOAT_FRACTION_BITS));
    }
  }
  return result;
}

/** FP32 as FP16 bits, to the nearest, ties to even; what is too great becomes infinity. */
export function fp32ToFp16(floats: Float32Array): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const result = new Uint16Array(floats.length);
  for (let index = 0; index < bits.length; index++) result[index] = halfBits(bits[index] as number);
  return result;
}

function halfBits(float: number): number {
  const sign = (float >>> 16) & SIGN;
  const magnitude = float & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | HALF_INFINITY | HALF_QUIET | ((magnitude >> DROPPED_BITS) & 0x3ff);
  const exponent = (magnitude >> FLOAT_FRACTION_BITS) - BIAS;
  if (exponent >= 0x1f) return sign | HALF_INFINITY;
  if (exponent > 0) {
    const kept = (exponent << HALF_FRACTION_BITS) | ((magnitude >> DROPPED_BITS) & 0x3ff);
    // A carry out of the fraction rightly raises the exponent, up to infinity.
    return sign | (kept + roundUp(magnitude, DROPPED_BITS));
  }
  const shift = DROPPED_BITS + 1 - exponent;
  if (shift > FLOAT_FRACTION_BITS + 1) return sign;
  const fraction = (magnitude & 0x7fffff) | 0x800000;
  return sign | ((fraction >> shift) + roundUp(fraction, shift));
}

/** 1 where cutting `dropped` low bits rounds up: above half, or half and what is kept is odd. */
function roundUp(bits: number, dropped: number): number {
  const half = 1 << (dropped - 1);
  const rest = bits & ((1 << dropped) - 1);
  const odd = (bits >> dropped) & 1;
  return rest > half || (rest === half && odd === 1) ? 1 : 0;
}

/** BF16 bits as FP32; exact. */
export function bf16ToFp32(bfloats: Uint16Array): Float32Array<ArrayBuffer> {
  const result = new Float32Array(bfloats.length);
  const bits = new Uint32Array(result.buffer);
  for (let index = 0; index < bfloats.length; index++) bits[index] = (bfloats[index] as number) << 16;
  return result;
}

/** FP32 as BF16 bits, to the nearest, ties to even; a NaN stays one. */
export function fp32ToBf16(floats: Float32Array): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const result = new Uint16Array(floats.length);
  for (let index = 0; index < bits.length; index++) {
    const float = bits[index] as number;
    const nan = (float & 0x7fffffff) > 0x7f800000;
    result[index] = nan ? (float >>> 16) | BF16_QUIET : (float >>> 16) + roundUp(float, 16);
  }
  return result;
}
