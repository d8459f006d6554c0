import { describe, expect, it } from 'vitest';
import { bytesElements, encodeBytesElements } from './bytes-elements.ts';
import type { Datatype } from './datatype.ts';
import { type TensorValues, tensorFromValues, tensorValues, typedView } from './tensor-values.ts';

describe('a tensor of values', () => {
  it.each<[Datatype, TensorValues, TensorValues]>([
    ['BOOL', [true, false], Uint8Array.of(1, 0)],
    ['BOOL', Uint8Array.of(1, 0), Uint8Array.of(1, 0)],
    ['UINT8', [0, 255], Uint8Array.of(0, 255)],
    ['INT8', [-128n, 127n], Int8Array.of(-128, 127)],
    ['UINT16', [1, 65535], Uint16Array.of(1, 65535)],
    ['INT16', [-32768, 1], Int16Array.of(-32768, 1)],
    ['UINT32', [1, 4294967295], Uint32Array.of(1, 4294967295)],
    ['INT32', [-2147483648, 1], Int32Array.of(-2147483648, 1)],
    ['INT64', [-(1n << 63n), 1n], BigInt64Array.of(-(1n << 63n), 1n)],
    ['INT64', [5, -5], BigInt64Array.of(5n, -5n)],
    ['UINT64', [(1n << 64n) - 1n, 1n], BigUint64Array.of((1n << 64n) - 1n, 1n)],
    ['FP32', [0.1, Number.NaN], Float32Array.of(0.1, Number.NaN)],
    ['FP64', [0.1, -0], Float64Array.of(0.1, -0)],
    ['FP16', [1, -2], Uint16Array.of(0x3c00, 0xc000)],
    ['FP16', Float32Array.of(1, 65504), Uint16Array.of(0x3c00, 0x7bff)],
    ['FP16', Uint16Array.of(1, 2), Uint16Array.of(1, 2)],
    ['BF16', Float32Array.of(1, -2), Uint16Array.of(0x3f80, 0xc000)],
    ['BYTES', ['a', 'é☃'], [Uint8Array.of(0x61), Uint8Array.from(Buffer.from('é☃'))]],
    ['BYTES', [Uint8Array.of(0xff), Uint8Array.of()], [Uint8Array.of(0xff), Uint8Array.of()]],
  ])('%s %o gives them back', (datatype, values, expected) => {
    const tensor = tensorFromValues('X', datatype, [2], values);
    expect(tensor).toMatchObject({ name: 'X', datatype, shape: [2] });
    expect(tensorValues(tensor)).toEqual(expected);
  });

  it('takes the bytes of a fitting typed array without a copy', () => {
    const values = Float32Array.of(0, 1, 2).subarray(1);
    const { data } = tensorFromValues('X', 'FP32', [2], values);
    expect(data.buffer).toBe(values.buffer);
    expect(data.byteOffset).toBe(4);
  });

  it.each<[Datatype, number[], TensorValues, RegExp]>([
    ['FP32', [2], [1], /^tensor 'X': shape \[2\] needs 2 elements but there are 1$/],
    ['FP32', [2 ** 40, 2 ** 40], [1], /needs too many elements/],
    ['FP32', [-1, -1], [1], /^tensor 'X': shape must be an array of whole numbers/],
    ['FP32', [0.5, 2], [1], /shape must be an array of whole numbers/],
    ['FP32', [Number.NaN], [1], /shape must be an array of whole numbers/],
    ['FP32', ['1'] as never, [1], /shape must be an array of whole numbers/],
    ['FP32', 1 as never, [1], /shape must be an array of whole numbers/],
    ['FP32', [1], undefined as never, /data must be a typed array or an array/],
    ['FP32', [1], new Set([1]) as never, /data must be a typed array or an array/],
    ['fp32' as never, [1], Float32Array.of(1), /datatype is fp32; it must be one of BOOL, /],
    [undefined as never, [1], [1], /datatype is undefined; it must be one of BOOL, /],
    ['FP32', [1], Float64Array.of(1), /Float64Array does not hold FP32/],
    ['FP32', [1], ['1'], /"1" is no FP32 value/],
    ['UINT8', [1], [256], /256 is no UINT8 value/],
    ['UINT8', [1], [-1], /-1 is no UINT8 value/],
    ['INT32', [1], [1.5], /1.5 is no INT32 value/],
    ['INT64', [1], [1n << 63n], /9223372036854775808 is no INT64 value/],
    ['BOOL', [1], [1], /1 is no BOOL value/],
    ['BYTES', [1], [5], /5 is no BYTES value/],
    ['BYTES', [1], Uint8Array.of(1), /Uint8Array does not hold BYTES/],
  ])('%s %o of %o is refused', (datatype, shape, values, message) => {
    expect(() => tensorFromValues('X', datatype, shape, values)).toThrow(message);
  });
});

describe('a typed view', () => {
  it('copies only where the bytes are misaligned', () => {
    const bytes = new Uint8Array(12);
    bytes[4] = 7;
    const aligned = typedView({ name: 'X', datatype: 'INT32', shape: [2], data: bytes.subarray(4) });
    expect(aligned).toEqual(Int32Array.of(7, 0));
    expect(aligned.buffer).toBe(bytes.buffer);
    const misaligned = typedView({ name: 'X', datatype: 'INT32', shape: [2], data: bytes.subarray(3, 11) });
    expect(misaligned).toEqual(Int32Array.of(0x700, 0));
    expect(misaligned.buffer).not.toBe(bytes.buffer);
  });

  it('copies a misaligned Buffer too', () => {
    const view = typedView({ name: 'X', datatype: 'INT16', shape: [1], data: Buffer.from([0, 1, 2]).subarray(1) });
    expect(view).toEqual(Int16Array.of(0x201));
  });

  it('refuses broken elements', () => {
    expect(() => typedView({ name: 'X', datatype: 'INT32', shape: [1], data: new Uint8Array(5) })).toThrow(/5 bytes/);
  });
});

describe('BYTES elements', () => {
  it('are views on the data', () => {
    const data = encodeBytesElements(['a', Uint8Array.of(1, 2), '']);
    expect(data).toEqual(Uint8Array.of(1, 0, 0, 0, 0x61, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0));
    const elements = bytesElements(data);
    expect(elements).toEqual([Uint8Array.of(0x61), Uint8Array.of(1, 2), Uint8Array.of()]);
    expect(elements[1]?.buffer).toBe(data.buffer);
  });

  it.each([
    [[1, 0], /element 0 of BYTES tensor 'X' needs 4 bytes but only 2 are left/],
    [[1, 0, 0, 0, 9, 5, 0, 0, 0, 1], /element 1 of BYTES tensor 'X' needs 9 bytes but only 5 are left/],
    [[3, 3, 3, 3, 1, 1, 1], /needs 50529031 bytes but only 7 are left/],
  ])('%j do not add up', (bytes, message) => {
    expect(() => bytesElements(Uint8Array.from(bytes), 'X')).toThrow(message);
  });
});
