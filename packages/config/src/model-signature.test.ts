import { describe, expect, test } from 'vitest';
import { DataType } from './gen/model_config_pb.ts';
import { modelSignature } from './model-signature.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { protocolDatatype } from './protocol-datatype.ts';

const signature = (text: string) => modelSignature(parseModelConfig(`name: "m" ${text}`, 'c'));

test('inputs and outputs in plain numbers', () => {
  expect(
    signature(`max_batch_size: 8 model_transaction_policy { decoupled: true }
      input [ { name: "A" data_type: TYPE_STRING dims: [ -1, 2 ] },
              { name: "B" data_type: TYPE_INT8 dims: 1 reshape { } optional: true allow_ragged_batch: true } ]
      output { name: "C" data_type: TYPE_BF16 dims: 4 reshape { shape: [ 2, 2 ] } }`),
  ).toEqual({
    name: 'm',
    maxBatchSize: 8,
    decoupled: true,
    inputs: [
      { name: 'A', datatype: 'BYTES', dims: [-1, 2], reshape: null, optional: false, ragged: false },
      { name: 'B', datatype: 'INT8', dims: [1], reshape: [], optional: true, ragged: true },
    ],
    outputs: [{ name: 'C', datatype: 'BF16', dims: [4], reshape: [2, 2] }],
    batchInputs: [],
    batchOutputs: [],
  });
});

test('batch inputs and outputs, each with its one source', () => {
  expect(
    signature(`
      batch_input { kind: BATCH_ITEM_SHAPE target_name: [ "X", "Y" ] data_type: TYPE_FP32 source_input: "A" }
      batch_input { target_name: "Z" data_type: TYPE_INT32 source_input: "B" }
      batch_output { target_name: [ "P", "Q" ] source_input: "A" }`),
  ).toMatchObject({
    batchInputs: [
      { kind: 'ITEM_SHAPE', targets: ['X', 'Y'], datatype: 'FP32', source: 'A' },
      { kind: 'ELEMENT_COUNT', targets: ['Z'], datatype: 'INT32', source: 'B' },
    ],
    batchOutputs: [
      { target: 'P', source: 'A' },
      { target: 'Q', source: 'A' },
    ],
  });
});

describe('datatypes', () => {
  const names = Object.values(DataType).filter((name): name is string => typeof name === 'string');
  test.each(names.filter((name) => name !== 'TYPE_INVALID'))('%s', (name) => {
    const expected = name === 'TYPE_STRING' ? 'BYTES' : name.replace('TYPE_', '');
    expect(protocolDatatype(DataType[name as keyof typeof DataType])).toBe(expected);
  });
});

test.each([
  ['no datatype', 'output { name: "O" dims: 1 }', "model output 'O' must specify 'data_type' for m"],
  [
    'a huge dimension',
    'input { name: "I" data_type: TYPE_BOOL dims: 9007199254740992 }',
    "model input 'I' has dimension 9007199254740992 for m; the largest that can be served is 2^53 - 1",
  ],
  [
    'a huge reshape',
    'input { name: "I" data_type: TYPE_BOOL dims: 1 reshape { shape: 9007199254740992 } }',
    "model input 'I' reshape has dimension 9007199254740992 for m; the largest that can be served is 2^53 - 1",
  ],
])('%s is refused', (_name, text, message) => {
  expect(() => signature(text)).toThrow(expect.objectContaining({ code: 'INVALID_ARG', message }));
});
