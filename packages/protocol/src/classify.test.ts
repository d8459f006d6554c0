import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesElements } from './bytes-elements.ts';
import { classify, classifyOutputs, sixDecimals } from './classify.ts';
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import type { InferResponse } from './infer.ts';
import type { Tensor } from './tensor.ts';
import { type TensorValues, tensorFromValues } from './tensor-values.ts';

const FRUIT = ['apple', 'pear', 'plum', 'cherry'];

function scores(values: readonly number[], shape: readonly number[] = [1, values.length], name = 'LABELLED'): Tensor {
  return tensorFromValues(name, 'FP32', shape, values);
}

function texts({ data }: Tensor): readonly string[] {
  return bytesElements(data).map((element) => Buffer.from(element).toString());
}

function failure(tensor: Tensor, count = 1): NereidError {
  try {
    classify(tensor, { count, batching: false, labels: [] });
  } catch (error) {
    if (error instanceof NereidError) return error;
    throw error;
  }
  throw new Error('it was classified');
}

describe('classes, as the recorded cases have them', () => {
  it.each<readonly [string, readonly number[], number, readonly string[]]>([
    ['the greatest', [0.1, 0.9, 0.4, 0.2], 1, ['0.900000:1:pear']],
    [
      'all, in descending order',
      [0.1, 0.9, 0.4, 0.2],
      4,
      ['0.900000:1:pear', '0.400000:2:plum', '0.200000:3:cherry', '0.100000:0:apple'],
    ],
    [
      'no more than there are elements',
      [0.1, 0.9, 0.4, 0.2],
      9,
      ['0.900000:1:pear', '0.400000:2:plum', '0.200000:3:cherry', '0.100000:0:apple'],
    ],
    [
      'of equal values the first',
      [1, 1, 0, 1],
      4,
      ['1.000000:0:apple', '1.000000:1:pear', '1.000000:3:cherry', '0.000000:2:plum'],
    ],
  ])('%s', (_, values, count, expected) => {
    const classes = classify(scores(values), { count, batching: true, labels: FRUIT });
    expect(classes).toMatchObject({ name: 'LABELLED', datatype: 'BYTES', shape: [1, expected.length] });
    expect(texts(classes)).toEqual(expected);
  });

  it('are told for each row, without labels where there are none', () => {
    const rows = scores([-0.1, -0.9, -0.4, -0.2, -7, -5, -6, -8], [2, 4], 'UNLABELLED');
    const classes = classify(rows, { count: 2, batching: true, labels: [] });
    expect(classes.shape).toEqual([2, 2]);
    expect(texts(classes)).toEqual(['-0.100000:0', '-0.200000:3', '-5.000000:1', '-6.000000:2']);
  });

  it.each<readonly [Datatype, TensorValues, readonly string[]]>([
    ['INT32', [3, 1, 2], ['3:0', '2:2']],
    ['UINT8', [200, 100, 255], ['255:2', '200:0']],
    ['INT8', [-128, 127, 0], ['127:1', '0:2']],
    ['UINT16', [1, 65_535, 2], ['65535:1', '2:2']],
    ['INT16', [-1, -32_768, -2], ['-1:0', '-2:2']],
    ['UINT32', [4_294_967_295, 0, 1], ['4294967295:0', '1:2']],
    ['INT64', [9_007_199_254_740_993n, 9_007_199_254_740_992n, -1n], ['9007199254740993:0', '9007199254740992:1']],
    ['UINT64', [0n, 18_446_744_073_709_551_615n, 1n], ['18446744073709551615:1', '1:2']],
    ['FP64', [0.5, 1e22, -0], ['10000000000000000000000.000000:1', '0.500000:0']],
  ])('of %s without a batch dimension', (datatype, values, expected) => {
    const tensor = tensorFromValues('OUTPUT', datatype, [3], values);
    const classes = classify(tensor, { count: 2, batching: false, labels: [] });
    expect(classes.shape).toEqual([2]);
    expect(texts(classes)).toEqual(expected);
  });
});

describe('classes', () => {
  it('of more dimensions have their index over all of a row', () => {
    const tensor = scores([1, 2, 3, 4, 8, 7, 6, 5], [2, 2, 2]);
    expect(texts(classify(tensor, { count: 1, batching: true, labels: [] }))).toEqual(['4.000000:3', '8.000000:0']);
    expect(texts(classify(tensor, { count: 1, batching: false, labels: [] }))).toEqual(['8.000000:4']);
  });

  it('that have an empty label are told without it', () => {
    expect(texts(classify(scores([2, 1, 3]), { count: 3, batching: true, labels: ['', 'b'] }))).toEqual([
      '3.000000:2',
      '2.000000:0',
      '1.000000:1:b',
    ]);
  });

  it('have infinities at the ends and what is no number behind them', () => {
    const values = [Number.NaN, -Infinity, 1, Infinity, Number.NaN];
    const classes = classify(scores(values), { count: 5, batching: true, labels: [] });
    expect(texts(classes)).toEqual(['inf:3', '1.000000:2', '-inf:1', 'nan:0', 'nan:4']);
  });

  it('are the first of a stable sort, however many are asked for', () => {
    const value = fc.constantFrom(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, Number.NaN);
    const many = fc.array(value, { minLength: 1, maxLength: 100, size: 'max' });
    fc.assert(
      fc.property(many, fc.integer({ min: 1, max: 12 }), (all, count) => {
        const rank = (at: number) => (Number.isNaN(all[at]) ? -1 : (all[at] ?? 0));
        const sorted = all.map((_, at) => at).sort((a, b) => rank(b) - rank(a) || a - b);
        const classes = classify(scores(all), { count, batching: true, labels: [] });
        expect(texts(classes).map((text) => Number(text.split(':')[1]))).toEqual(sorted.slice(0, count));
      }),
    );
  });

  it('of half a million elements do not take long', () => {
    const values = Float32Array.from({ length: 500_000 }, (_, index) => index);
    const tensor = tensorFromValues('Y', 'FP32', [values.length], values);
    expect(texts(classify(tensor, { count: 3, batching: false, labels: [] }))).toEqual([
      '499999.000000:499999',
      '499998.000000:499998',
      '499997.000000:499997',
    ]);
  });
});

describe('what cannot be classified is refused', () => {
  it.each<readonly [Datatype, Uint8Array]>([
    ['BOOL', new Uint8Array(2)],
    ['FP16', new Uint8Array(4)],
    ['BF16', new Uint8Array(4)],
    ['BYTES', Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0)],
  ])('%s', (datatype, data) => {
    expect(failure({ name: 'Y', datatype, shape: [2], data })).toMatchObject({
      code: 'INVALID_ARG',
      message: `class result not available for output due to unsupported type '${datatype}'`,
    });
  });

  it.each([[[0]], [[0, 4]], [[3, 0]]])('shape %j: no elements', (shape) => {
    const tensor: Tensor = { name: 'Y', datatype: 'FP32', shape, data: new Uint8Array(0) };
    expect(failure(tensor)).toMatchObject({
      code: 'INVALID_ARG',
      message: "class result not available for output 'Y' since it has no elements",
    });
    expect(() => classify(tensor, { count: 1, batching: true, labels: [] })).toThrow(/no elements/);
  });

  it('more than a million elements in a row, but not in several', () => {
    const data = new Uint8Array(1_000_001);
    expect(failure({ name: 'Y', datatype: 'UINT8', shape: [1_000_001], data }).message).toMatch(/1000001.*1000000$/);
    const rows: Tensor = { name: 'Y', datatype: 'UINT8', shape: [2, 500_001], data: new Uint8Array(1_000_002) };
    expect(classify(rows, { count: 1, batching: true, labels: [] }).shape).toEqual([2, 1]);
  });

  it('data that are not of the shape', () => {
    expect(failure({ name: 'Y', datatype: 'FP32', shape: [3], data: new Uint8Array(8) }).code).toBe('INTERNAL');
  });
});

describe('of a response', () => {
  const outputs = [scores([1, 3, 2], [3], 'A'), scores([5, 4, 6], [3], 'B')];
  const response: InferResponse = { modelName: 'm', modelVersion: '1', id: 'i', parameters: { p: true }, outputs };
  const model = { batching: false, labels: { B: ['x', 'y', 'z'] } };

  it('only the outputs that ask for it are classified; of two listings the first counts', () => {
    const requested = [
      { name: 'B', binary: false, classification: 1 },
      { name: 'B', binary: false, classification: 0 },
      { name: 'A', binary: true, classification: 0 },
      { name: 'A', binary: true, classification: 2 },
    ];
    const { outputs: given, ...rest } = classifyOutputs(response, requested, model);
    expect(rest).toEqual({ modelName: 'm', modelVersion: '1', id: 'i', parameters: { p: true } });
    expect(given[0]).toBe(outputs[0]);
    expect(given[1] && texts(given[1])).toEqual(['6.000000:2:z']);
  });

  it('nothing is touched where none asks', () => {
    expect(classifyOutputs(response, [{ name: 'A', binary: false, classification: 0 }], model)).toBe(response);
  });
});

describe('a number in six decimals, as C prints it', () => {
  it.each([
    [0, '0.000000'],
    [-0, '-0.000000'],
    [1, '1.000000'],
    [0.1, '0.100000'],
    [Math.fround(0.1), '0.100000'],
    [123_456_789.123_456_7, '123456789.123457'],
    [-1e-9, '-0.000000'],
    [0.000_000_5, '0.000000'],
    // Half-way cases go to the even digit.
    [1 / 128, '0.007812'],
    [3 / 128, '0.023438'],
    [-1 / 128, '-0.007812'],
    [127 / 128, '0.992188'],
    [5 + 1 / 128, '5.007812'],
    [2 ** 45 + 1 / 128, '35184372088832.007812'],
    [1e20, '100000000000000000000.000000'],
    [1e21, '1000000000000000000000.000000'],
    [2 ** 70, '1180591620717411303424.000000'],
    [Infinity, 'inf'],
    [-Infinity, '-inf'],
    [Number.NaN, 'nan'],
  ])('%d is %s', (value, text) => {
    expect(sixDecimals(value)).toBe(text);
  });
});
