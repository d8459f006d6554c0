import { describe, expect, it } from 'vitest';
import { bf16ToFp32, fp16ToFp32, fp32ToBf16, fp32ToFp16 } from './half.ts';

const ALL = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits);

/** IEEE 754 binary16 by its definition. */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

describe('FP16', () => {
  it('to FP32 is exact for every half', () => {
    expect(Array.from(fp16ToFp32(ALL))).toEqual(Array.from(ALL, half));
  });

  it('comes back with the same bits, but that a NaN is quiet', () => {
    const quiet = ALL.map((bits) => ((bits & 0x7fff) > 0x7c00 ? bits | 0x200 : bits));
    expect(fp32ToFp16(fp16ToFp32(ALL))).toEqual(quiet);
  });

  it('rounds to the nearest between every two halves, ties to even', () => {
    for (let bits = 0; bits < 0x7bff; bits++) {
      const [low, high] = [half(bits), half(bits + 1)];
      const middle = (low + high) / 2;
      const step = (high - low) / 8;
      const even = bits % 2 === 0 ? bits : bits + 1;
      const rounded = fp32ToFp16(Float32Array.of(middle - step, middle, middle + step, -middle));
      expect(rounded).toEqual(Uint16Array.of(bits, even, bits + 1, even | 0x8000));
    }
  });

  it('becomes infinity from 65520 on and 0 up to half the smallest', () => {
    const floats = Float32Array.of(65519.996, 65520, 1e30, -Infinity, 2 ** -25, 2 ** -25 * 1.001, 1e-45);
    expect(fp32ToFp16(floats)).toEqual(Uint16Array.of(0x7bff, 0x7c00, 0x7c00, 0xfc00, 0, 1, 0));
  });
});

describe('BF16', () => {
  it('to FP32 is the upper half, and comes back', () => {
    const floats = bf16ToFp32(ALL);
    const bits = new Uint32Array(floats.buffer);
    expect(bits.every((word, index) => word === index * 0x10000)).toBe(true);
    const quiet = ALL.map((word) => ((word & 0x7fff) > 0x7f80 ? word | 0x40 : word));
    expect(fp32ToBf16(floats)).toEqual(quiet);
  });

  it.each([
    [0x3f800000, 0x3f80],
    [0x3f807fff, 0x3f80],
    [0x3f808000, 0x3f80],
    [0x3f808001, 0x3f81],
    [0x3f818000, 0x3f82],
    [0x7f7fffff, 0x7f80],
    [0xff800000, 0xff80],
    [0x7f800001, 0x7fc0],
    [0x80000001, 0x8000],
  ])('%i rounds to %i', (float, bits) => {
    expect(fp32ToBf16(new Float32Array(Uint32Array.of(float).buffer))).toEqual(Uint16Array.of(bits));
  });
});
