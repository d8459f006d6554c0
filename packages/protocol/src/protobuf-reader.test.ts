import { describe, expect, it } from 'vitest';
import {
  protobufReader,
  readBytes,
  readTag,
  readText,
  readVarint,
  signedInteger,
  signedNumber,
  skipField,
  unsignedInteger,
} from './protobuf-reader.ts';

const reader = (...bytes: number[]) => protobufReader(Uint8Array.from(bytes));

describe('a varint', () => {
  it.each([
    [[0x00], 0n],
    [[0x7f], 127n],
    [[0x80, 0x01], 128n],
    [[0xff, 0xff, 0xff, 0xff, 0x0f], 0xffff_ffffn],
    [[0x80, 0x80, 0x80, 0x80, 0x10], 0x1_0000_0000n],
    [[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], (1n << 53n) - 1n],
    [[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], (1n << 63n) - 1n],
    [[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], -(1n << 63n)],
    [[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], -1n],
    // With more bytes than it needs.
    [[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 1n],
  ])('of the bytes %j is %d', (bytes, value) => {
    const at = reader(...bytes, 0x2a);
    readVarint(at);
    expect([signedInteger(at), unsignedInteger(at), at.at]).toEqual([value, BigInt.asUintN(64, value), bytes.length]);
    if (Number.isSafeInteger(Number(value))) expect(signedNumber(at)).toBe(Number(value));
  });

  it.each([
    ['nothing', [], 'it ends within a number at byte 0'],
    ['a byte that another should follow', [0x80], 'it ends within a number at byte 0'],
    ['eleven bytes', Array(11).fill(0x80), 'a number has more than 10 bytes at byte 0'],
  ])('is refused where there is %s', (_what, bytes, why) => {
    expect(() => readVarint(reader(...bytes))).toThrow(`the request message cannot be parsed: ${why}`);
  });
});

it.each([
  ['a field number of 0', [0x02]],
  ['a tag of more than 32 bits', [0xfa, 0xff, 0xff, 0xff, 0x7f]],
])('%s is refused', (_what, bytes) => {
  expect(() => readTag(reader(...bytes))).toThrow('a field has no valid number');
});

it('a length beyond the end is refused, however long it claims to be, before anything is taken', () => {
  expect(() => readBytes(reader(0x05, 1, 2))).toThrow('a field goes beyond the end');
  expect(() => readBytes(reader(0xff, 0xff, 0xff, 0xff, 0x0f))).toThrow('a field goes beyond the end');
  expect(() => readBytes(reader(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01))).toThrow(
    'a field goes beyond the end',
  );
});

it('bytes are a view on the message', () => {
  const message = Uint8Array.of(0, 2, 7, 8).subarray(1);
  const bytes = readBytes(protobufReader(message));
  expect([[...bytes], bytes.buffer, bytes.byteOffset]).toEqual([[7, 8], message.buffer, 2]);
});

it('text is UTF-8, short or long', () => {
  const text = (value: string) => reader(...[Buffer.byteLength(value)], ...Buffer.from(value));
  for (const value of ['', 'INPUT0', 'héllo', 'x'.repeat(100), 'é'.repeat(50)])
    expect(readText(text(value))).toBe(value);
  expect(() => readText(reader(2, 0xc3, 0x28))).toThrow('a text is no UTF-8');
  expect(() => readText(reader(100, ...Array(99).fill(0x61), 0xff))).toThrow('a text is no UTF-8');
});

describe('an unknown field is passed', () => {
  it.each([
    ['a number', [0x08, 0x80, 0x01]],
    ['64 bits', [0x09, 1, 2, 3, 4, 5, 6, 7, 8]],
    ['bytes', [0x0a, 2, 1, 2]],
    ['a group with groups in it', [0x0b, 0x08, 1, 0x13, 0x14, 0x0c]],
    ['32 bits', [0x0d, 1, 2, 3, 4]],
  ])('%s', (_what, bytes) => {
    const at = reader(...bytes);
    skipField(at, readTag(at));
    expect(at.at).toBe(bytes.length);
  });

  it.each([
    ['64 bits of which some are missing', [0x09, 1], 'it ends within a number'],
    ['a group without its end', [0x0b, 0x08, 1], 'a group has no end'],
    ['a group with the end of another', [0x0b, 0x14], 'a field has no valid wire type'],
    ['the end of a group', [0x0c], 'a field has no valid wire type'],
    ['a wire type that there is not', [0x0e], 'a field has no valid wire type'],
    ['groups without number', Array(1_000).fill(0x0b), 'groups nest deeper than 100'],
  ])('but not %s', (_what, bytes, why) => {
    const at = reader(...bytes);
    expect(() => skipField(at, readTag(at))).toThrow(why);
  });
});
