import { describe, expect, test } from 'vitest';
import { checkBatchIo } from './check-batch-io.ts';
import { parseModelConfig } from './parse-model-config.ts';

const IO = `max_batch_size: 8
  input { name: "A" data_type: TYPE_FP32 dims: -1 } input { name: "B" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: 6 } }
  output { name: "O" data_type: TYPE_FP32 dims: -1 } output { name: "P" data_type: TYPE_FP32 dims: [ 4, -1 ] }`;

function refusal(text: string, io = IO): string {
  try {
    checkBatchIo(parseModelConfig(`name: "m" ${io} ${text}`, 'c'));
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.stringMatching(/^batch_/) });
    return error instanceof Error ? error.message : '';
  }
  return 'accepted';
}
const into = (body: string) => `batch_input { data_type: TYPE_INT32 ${body} }`;
const outOf = (body: string) => `batch_output { ${body} }`;

describe('accepted', () => {
  test.each([
    ['none', ''],
    [
      'every kind',
      [
        'BATCH_ELEMENT_COUNT',
        'BATCH_ACCUMULATED_ELEMENT_COUNT',
        'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO',
        'BATCH_MAX_ELEMENT_COUNT_AS_SHAPE',
        'BATCH_ITEM_SHAPE',
        'BATCH_ITEM_SHAPE_FLATTEN',
      ]
        .map((kind, index) => into(`kind: ${kind} target_name: "T${index}" source_input: "A"`))
        .join(' '),
    ],
    ['FP32', 'batch_input { data_type: TYPE_FP32 target_name: "T" source_input: "B" }'],
    ['several targets', into('target_name: [ "T", "U" ] source_input: "A"')],
    ['a batch output', outOf('target_name: "O" source_input: "A"')],
    [
      'outputs of two sources',
      outOf('target_name: "O" source_input: "A"') + outOf('target_name: "P" source_input: "C"'),
    ],
  ])('%s', (name, text) => {
    const wide = `${IO} input { name: "C" data_type: TYPE_FP32 dims: [ -1, -1 ] }`;
    expect(refusal(text, name === 'outputs of two sources' ? wide : IO)).toBe('accepted');
  });
});

describe('refused', () => {
  test.each([
    [
      'no source',
      into('target_name: "T"'),
      "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m",
    ],
    [
      'two sources',
      into('kind: BATCH_ITEM_SHAPE target_name: "T" source_input: [ "A", "B" ]'),
      "batch input kind 'BATCH_ITEM_SHAPE' expects 1 source input, got 2 for m",
    ],
    [
      'an unknown source',
      into('target_name: "T" source_input: "X"'),
      "unknown source input name 'X' (inputs are 'A', 'B') for m",
    ],
    ['no target', into('source_input: "A"'), "batch input kind 'BATCH_ELEMENT_COUNT' must specify 'target_name' for m"],
    [
      'another datatype',
      'batch_input { data_type: TYPE_INT64 target_name: "T" source_input: "A" }',
      "batch input data type must be TYPE_INT32 or TYPE_FP32, got TYPE_INT64 for 'T' for m",
    ],
    [
      'no datatype',
      'batch_input { target_name: [ "T", "U" ] source_input: "A" }',
      "batch input data type must be TYPE_INT32 or TYPE_FP32, got TYPE_INVALID for 'T', 'U' for m",
    ],
    [
      'a target that is an input',
      into('target_name: "B" source_input: "A"'),
      "target name 'B' of a batch input is also an input: the server makes it, so it must not be listed as an input for m",
    ],
    [
      'a target that stands twice',
      into('target_name: "T" source_input: "A"') + into('kind: BATCH_ITEM_SHAPE target_name: "T" source_input: "A"'),
      "target input name 'T' can only be specified once for m",
    ],
    [
      'no source of an output',
      outOf('target_name: "O"'),
      "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 for m",
    ],
    [
      'an unknown source of an output',
      outOf('target_name: "O" source_input: "X"'),
      "unknown source input name 'X' (inputs are 'A', 'B') for m",
    ],
    [
      'no target of an output',
      outOf('source_input: "A"'),
      "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' must specify 'target_name' for m",
    ],
    ['an unknown output', outOf('target_name: "X" source_input: "A"'), "unknown target output name 'X' for m"],
    [
      'an output that stands twice',
      outOf('target_name: [ "O", "O" ] source_input: "A"'),
      "target output name 'O' can only be specified once for m",
    ],
    [
      'an output of two sources',
      outOf('target_name: "O" source_input: "A"') + outOf('target_name: "O" source_input: "B"'),
      "target output name 'O' can only be specified once for m",
    ],
    [
      'a variable dimension that the source has not',
      outOf('target_name: "P" source_input: "A"'),
      "dimension 1 of batch output 'P' is variable, but its source input 'A' has only 1 dimensions for m",
    ],
    [
      'one that it has not as the model sees it',
      outOf('target_name: "P" source_input: "B"'),
      "dimension 1 of batch output 'P' is variable, but its source input 'B' has only 1 dimensions for m",
    ],
  ])('%s', (_name, text, message) => {
    expect(refusal(text)).toBe(message);
  });

  test.each(['BATCH_ITEM_SHAPE', 'BATCH_ITEM_SHAPE_FLATTEN'])('%s without rows', (kind) => {
    const text = into(`kind: ${kind} target_name: "T" source_input: "A"`);
    expect(refusal(text, IO.replace('max_batch_size: 8', ''))).toBe(
      `batch input kind '${kind}' tells of rows, so it needs max_batch_size > 0 for m`,
    );
  });

  test('no inputs at all', () => {
    expect(refusal(into('target_name: "T" source_input: "A"'), '')).toBe(
      "unknown source input name 'A' (no input is listed) for m",
    );
  });
});
