import type { InputSignature, ModelSignature } from '@nereid/config';
import { type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { batchShapeKey } from './shape-key.ts';

const input = (name: string, dims: number[], more: Partial<InputSignature> = {}): InputSignature => ({
  name,
  datatype: 'FP32',
  dims,
  reshape: null,
  optional: false,
  ragged: false,
  ...more,
});

const signature = (inputs: InputSignature[], maxBatchSize = 8): ModelSignature => ({
  name: 'm',
  maxBatchSize,
  inputs,
  outputs: [],
  batchInputs: [],
  batchOutputs: [],
  decoupled: false,
});

const request = (shapes: Record<string, number[]>): InferRequest => ({
  ...REQUEST_DEFAULTS,
  modelName: 'm',
  inputs: Object.entries(shapes).map(([name, shape]) => ({ name, datatype: 'FP32', shape, data: new Uint8Array() })),
});

const FIXED = signature([input('A', [16]), input('B', [16])]);
const VARIABLE = signature([input('A', [-1, 2]), input('B', [16])]);
const RAGGED = signature([input('A', [-1], { ragged: true })]);
const OPTIONAL = signature([input('A', [4]), input('B', [4], { optional: true })]);
const OPTIONAL_RAGGED = signature([input('A', [4]), input('B', [-1], { optional: true, ragged: true })]);
const OPTIONAL_TWO = signature([
  input('A', [4]),
  input('B', [4], { optional: true }),
  input('C', [-1], { optional: true }),
]);
const MIXED = signature([input('A', [-1], { ragged: true }), input('B', [-1])]);
const TWO = signature([input('A', [-1]), input('B', [-1])]);

const CASES: readonly [
  rule: string,
  ModelSignature,
  Record<string, number[]>,
  Record<string, number[]>,
  equal: boolean,
][] = [
  ['fixed shapes share, whatever their rows', FIXED, { A: [1, 16], B: [1, 16] }, { A: [8, 16], B: [8, 16] }, true],
  [
    'equal variable shapes share, whatever their rows',
    VARIABLE,
    { A: [1, 3, 2], B: [1, 16] },
    { A: [5, 3, 2], B: [5, 16] },
    true,
  ],
  ['other variable shapes do not', VARIABLE, { A: [1, 3, 2], B: [1, 16] }, { A: [1, 4, 2], B: [1, 16] }, false],
  ['ragged inputs share whatever their shape', RAGGED, { A: [1, 3] }, { A: [1, 9] }, true],
  ['an optional input must be in both', OPTIONAL, { A: [1, 4] }, { A: [1, 4], B: [1, 4] }, false],
  ['or in neither', OPTIONAL, { A: [1, 4] }, { A: [2, 4] }, true],
  ['also where it is ragged', OPTIONAL_RAGGED, { A: [1, 4] }, { A: [1, 4], B: [1, 4] }, false],
  ['whose shape then does not count', OPTIONAL_RAGGED, { A: [1, 4], B: [1, 4] }, { A: [1, 4], B: [1, 9] }, true],
  ['two optional inputs are two sets', OPTIONAL_TWO, { A: [1, 4], B: [1, 4] }, { A: [1, 4], C: [1, 4] }, false],
  ['the shape of an optional input counts', OPTIONAL_TWO, { A: [1, 4], C: [1, 4] }, { A: [1, 4], C: [1, 5] }, false],
  ['of several, one that is ragged does not count', MIXED, { A: [1, 2], B: [1, 3] }, { A: [1, 9], B: [1, 3] }, true],
  ['and one that is not does', MIXED, { A: [1, 2], B: [1, 3] }, { A: [1, 2], B: [1, 4] }, false],
  ['the order of the inputs does not matter', TWO, { A: [1, 2], B: [1, 3] }, { B: [1, 3], A: [1, 2] }, true],
  ['which input has which shape does', TWO, { A: [1, 2], B: [1, 3] }, { A: [1, 3], B: [1, 2] }, false],
  ['digits of neighbours do not run together', TWO, { A: [1, 12], B: [1, 3] }, { A: [1, 1], B: [1, 23] }, false],
  ['without a batch dimension the whole shape counts', signature([input('A', [-1])], 0), { A: [3] }, { A: [4] }, false],
];

describe('batchShapeKey', () => {
  test.each(CASES)('%s', (_rule, model, first, second, equal) => {
    expect(batchShapeKey(model, request(first)) === batchShapeKey(model, request(second))).toBe(equal);
  });

  test("'' where any may share", () => {
    expect(batchShapeKey(FIXED, request({ A: [1, 16], B: [1, 16] }))).toBe('');
  });
});
