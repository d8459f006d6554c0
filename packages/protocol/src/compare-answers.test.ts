import { describe, expect, test } from 'vitest';
import { type ComparedAnswer, compareStep } from './compare-answers.ts';
import type { Tolerance } from './compare-elements.ts';
import type { Datatype } from './datatype.ts';
import type { RecordedAnswer, RecordedTensor } from './recorded.ts';
import { sha256 } from './sha256.ts';
import { type TensorValues, tensorFromValues } from './tensor-values.ts';

const answer = (...outputs: RecordedTensor[]): RecordedAnswer => ({ ok: true, parameters: {}, outputs });
const failure = (code: 'INTERNAL' | 'UNAVAILABLE', message: string): RecordedAnswer => ({
  ok: false,
  error: { code, message },
});
const tensor = (datatype: Datatype, values: TensorValues, shape = [(values as { length: number }).length]) =>
  tensorFromValues('OUT', datatype, shape, values);
const compare = (a: readonly RecordedAnswer[], b: readonly ComparedAnswer[], tolerance: Tolerance = 'exact') =>
  compareStep({ step: 7, answers: a }, b, tolerance);
const NEAR = { atol: 0.01, rtol: 0.1 };
const bits = (...values: number[]) => Uint16Array.from(values);
const floatBits = (...values: number[]) => new Float32Array(Uint32Array.from(values).buffer);

describe('elements that differ', () => {
  test.each([
    ['BOOL', [true, false], [true, true], { index: [1], recorded: false, replayed: true, differing: 1, elements: 2 }],
    ['BOOL', bytes(1), bytes(2), { index: [0], recorded: 1, replayed: 2 }],
    ['UINT8', [1, 255], [1, 0], { recorded: 255, replayed: 0, largest: 255 }],
    ['INT8', [-128], [127], { recorded: -128, replayed: 127, largest: 255 }],
    ['UINT16', [1], [3], { recorded: 1, replayed: 3, largest: 2 }],
    ['INT16', [-1], [3], { recorded: -1, replayed: 3, largest: 4 }],
    ['UINT32', [4_294_967_295], [0], { recorded: 4_294_967_295, replayed: 0, largest: 4_294_967_295 }],
    ['INT32', [1, 2, 3], [1, 4, 9], { index: [1], recorded: 2, replayed: 4, differing: 2, elements: 3, largest: 6 }],
    ['UINT64', [2n ** 64n - 1n], [0n], { recorded: '18446744073709551615', replayed: '0' }],
    ['INT64', [9007199254740993n], [9007199254740992n], { recorded: '9007199254740993', largest: '1' }],
    ['FP16', bits(0x3c00, 0x7e00), bits(0x3c00, 0xc000), { index: [1], recorded: 'NaN', replayed: -2 }],
    ['BF16', bits(0x3f80), bits(0x4000), { recorded: 1, replayed: 2, largest: 1 }],
    ['FP32', [0], [-0], { recorded: 0, replayed: '-0', largest: 0 }],
    ['FP32', floatBits(0x7fc00000), floatBits(0x7fc00001), { recorded: 'NaN', replayed: 'NaN of other bits' }],
    ['FP64', [1, Infinity], [1, 5], { index: [1], recorded: 'Infinity', replayed: 5, largest: 'Infinity' }],
    ['BYTES', ['a', 'ü'], ['a', 'u'], { index: [1], recorded: 'ü', replayed: 'u', differing: 1, elements: 2 }],
    ['BYTES', [bytes(255, 0)], ['x'], { recorded: { base64: '/wA=' }, replayed: 'x' }],
  ] as const)('of %s: %s and %s', (datatype, a, b, expected) => {
    const found = compare([answer(tensor(datatype, a))], [answer(tensor(datatype, b))]);
    expect(found).toMatchObject({ step: 7, kind: 'value', output: 'OUT', ...expected });
    expect(JSON.parse(JSON.stringify(found))).toEqual(found);
    expect(compare([answer(tensor(datatype, a))], [answer(tensor(datatype, a))])).toBeUndefined();
  });

  test('of a long text is shown where it differs', () => {
    const [was, is] = [tensor('BYTES', ['x'.repeat(999)]), tensor('BYTES', [`${'x'.repeat(500)}y`])];
    expect(compare([answer(was)], [answer(is)])).toMatchObject({
      recorded: `…${'x'.repeat(256)}…`,
      replayed: `…${'x'.repeat(64)}y`,
    });
  });

  test.each([
    [[2, 3], 4, [1, 1]],
    [[1, 2, 3], 5, [0, 1, 2]],
    [[6, 1], 0, [0, 0]],
  ])('have an index of the shape %j', (shape, position, index) => {
    const values = [0, 0, 0, 0, 0, 0];
    const [was, is] = [tensor('INT32', values, shape), tensor('INT32', values.with(position, 1), shape)];
    expect(compare([answer(was)], [answer(is)])).toMatchObject({ index });
  });

  test('are found where data do not begin at a multiple of their size', () => {
    const misaligned = Uint8Array.of(9, 1, 0, 0, 0, 2, 0, 0, 0).subarray(1);
    const was = { ...tensor('INT32', [1, 2]), data: misaligned };
    expect(compare([answer(was)], [answer(tensor('INT32', [1, 2]))])).toBeUndefined();
    expect(compare([answer(was)], [answer(tensor('INT32', [1, 3]))])).toMatchObject({ index: [1], recorded: 2 });
  });

  test.each([
    ['of another length', 'FP32', bytes(0, 0, 0, 0), bytes(1), { recorded: '4 bytes', replayed: '1 bytes' }],
    ['that are no whole elements', 'FP32', bytes(0), bytes(255), { recorded: '\0', replayed: { base64: '/w==' } }],
    ['that are no BYTES', 'BYTES', bytes(9, 0), bytes(9, 0, 0), { recorded: '2 bytes', replayed: '3 bytes' }],
  ] as const)('are told of data %s', (_of, datatype, a, b, expected) => {
    const plain = { name: 'OUT', datatype, shape: [1] };
    const found = compare([answer({ ...plain, data: a })], [answer({ ...plain, data: b })], NEAR);
    expect(found).toMatchObject({ kind: 'value', index: [], ...expected });
  });
});

describe('with tolerances', () => {
  test.each([
    ['the absolute one', 'FP32', [0, 1], [0.0099, 1], true],
    ['the relative one, of what was recorded', 'FP32', [100], [110], true],
    ['both together', 'FP64', [1], [1.109], true],
    ['more than both', 'FP64', [1], [1.111], false],
    ['0 and -0', 'FP32', [0], [-0], true],
    ['NaN of whatever bits', 'FP32', floatBits(0x7fc00000), floatBits(0x7fc00001), true],
    ['NaN and a number', 'FP32', [Number.NaN], [1], false],
    ['an infinity and a number', 'FP32', [Number.POSITIVE_INFINITY], [1], false],
    ['a number and an infinity', 'FP32', [1], [Number.POSITIVE_INFINITY], false],
    ['infinities', 'FP64', [Number.POSITIVE_INFINITY, 1], [Number.POSITIVE_INFINITY, 1.05], true],
    ['infinities of other signs', 'FP64', [Number.POSITIVE_INFINITY], [Number.NEGATIVE_INFINITY], false],
    ['FP16', 'FP16', bits(0x3c00), bits(0x3c01), true],
    ['BF16', 'BF16', bits(0x3f80), bits(0x3f81), true],
    ['integers, which are exact', 'INT32', [100], [101], false],
    ['long integers, which are exact', 'INT64', [100n], [101n], false],
    ['texts, which are exact', 'BYTES', ['1.0'], ['1.00'], false],
  ] as const)('%s', (_what, datatype, a, b, equal) => {
    const found = compare([answer(tensor(datatype, a))], [answer(tensor(datatype, b))], NEAR);
    expect(found === undefined).toBe(equal);
  });

  test('only what is beyond them counts', () => {
    const [was, is] = [tensor('FP32', [1, 1, 1, 1]), tensor('FP32', [1.05, 2, 3, 1])];
    expect(compare([answer(was)], [answer(is)], NEAR)).toMatchObject({
      index: [1],
      differing: 2,
      elements: 4,
      largest: 2,
    });
  });
});

describe('outputs', () => {
  const one = tensor('INT32', [1]);
  const other = { ...tensor('INT32', [2]), name: 'B' };
  const large = tensor('UINT8', new Uint8Array(20));
  const { data, ...plain } = large;
  const digested = { ...plain, digest: sha256(data) };
  const digest = 'ab'.repeat(32);

  test.each([
    ['in another order', [one, other], [other, one], undefined],
    ['one that is missing', [one, other], [one], { kind: 'missing', output: 'B', replayed: null }],
    ['one too many', [one], [one, other], { kind: 'extra', output: 'B', recorded: null }],
    [
      'another datatype',
      [one],
      [tensor('UINT32', [1])],
      { kind: 'datatype', output: 'OUT', recorded: 'INT32', replayed: 'UINT32' },
    ],
    ['another shape', [one], [tensor('INT32', [1], [1, 1])], { kind: 'shape', recorded: [1], replayed: [1, 1] }],
    ['a digest that is that of the data', [digested], [large], undefined],
    ['data whose digest it is', [large], [digested], undefined],
    ['another digest', [{ ...plain, digest }], [large], { kind: 'digest', recorded: digest, replayed: sha256(data) }],
    ['a redacted one', [{ ...plain, redacted: true }], [tensor('FP32', [1])], undefined],
    ['a redacted one that is missing', [{ ...plain, redacted: true }], [], { kind: 'missing', output: 'OUT' }],
  ] as const)('%s', (_what, a, b, expected) => {
    const found = compare([answer(...a)], [answer(...b)]);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject({ step: 7, ...expected });
    // There is but one answer.
    expect(found?.answer).toBeUndefined();
  });
});

describe('answers', () => {
  const [one, two] = [answer(tensor('INT32', [1])), answer(tensor('INT32', [2]))];
  const outcome = {
    ok: true,
    response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [tensor('INT32', [1])] },
  } as const;
  const no = failure('INTERNAL', 'no');

  test.each([
    ['as a caller has them', [one], [outcome], undefined],
    ['that differ in parameters alone', [one], [{ ...one, parameters: { a: 1n } } as RecordedAnswer], undefined],
    ['the same error', [no], [no], undefined],
    ['an error of another code', [no], [failure('UNAVAILABLE', 'no')], { kind: 'error' }],
    [
      'an error of another text',
      [no],
      [failure('INTERNAL', 'yes')],
      { kind: 'error', recorded: { code: 'INTERNAL', message: 'no' }, replayed: { code: 'INTERNAL', message: 'yes' } },
    ],
    ['an error in place of outputs', [one], [no], { kind: 'error', recorded: null }],
    ['outputs in place of an error', [no], [one], { kind: 'error', replayed: null }],
    ['the second of several', [one, one], [one, two], { kind: 'value', answer: 1, index: [0], replayed: 2 }],
    ['fewer', [one, two], [one], { kind: 'answers', recorded: 2, replayed: 1 }],
    ['more', [], [one], { kind: 'answers', recorded: 0, replayed: 1 }],
    ['more, of which one that both have differs', [one], [two, one], { kind: 'value', answer: 0 }],
  ] as const)('%s', (_what, a, b, expected) => {
    const found = compare(a, b);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject({ step: 7, ...expected });
  });
});

function bytes(...values: number[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(values);
}
