import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { completeModelConfig } from './complete-model-config.ts';
import { FIXTURES } from './fixture-models.ts';
import { decodeModelConfig, encodeModelConfig, modelConfigJson } from './model-config-json.ts';
import { parseModelConfig } from './parse-model-config.ts';

function json(text: string): string {
  return modelConfigJson(parseModelConfig(text, 'c'));
}

test('a completed model, as Triton was recorded', () => {
  const text = readFileSync(join(FIXTURES, 'classifier', 'config.pbtxt'), 'utf8');
  const config = completeModelConfig(parseModelConfig(text, 'c'), { name: 'classifier', files: undefined, gpus: 0 });
  const output = { data_type: 'TYPE_FP32', dims: [4], is_shape_tensor: false, is_non_linear_format_io: false };
  expect(JSON.parse(modelConfigJson(config))).toEqual({
    name: 'classifier',
    platform: 'onnxruntime_onnx',
    backend: 'onnxruntime',
    runtime: '',
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: 4,
    input: [
      {
        name: 'SCORES',
        data_type: 'TYPE_FP32',
        format: 'FORMAT_NONE',
        dims: [4],
        is_shape_tensor: false,
        allow_ragged_batch: false,
        optional: false,
        is_non_linear_format_io: false,
      },
    ],
    output: [
      { name: 'LABELLED', label_filename: 'labels.txt', ...output },
      { name: 'UNLABELLED', label_filename: '', ...output },
    ],
    batch_input: [],
    batch_output: [],
    optimization: {
      priority: 'PRIORITY_DEFAULT',
      input_pinned_memory: { enable: true },
      output_pinned_memory: { enable: true },
      gather_kernel_buffer_threshold: 0,
      eager_batching: false,
    },
    instance_group: [
      {
        name: 'classifier_0',
        kind: 'KIND_CPU',
        count: 1,
        gpus: [],
        secondary_devices: [],
        profile: [],
        passive: false,
        host_policy: '',
      },
    ],
    default_model_filename: 'model.onnx',
    cc_model_filenames: {},
    metric_tags: {},
    parameters: {},
    model_warmup: [],
  });
});

describe('values', () => {
  test.each([
    ['64-bit integers are exact numbers', 'input { dims: 9007199254740993 }', '"dims":[9007199254740993]'],
    [
      'also unsigned ones',
      'dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }',
      '"max_queue_delay_microseconds":18446744073709551615',
    ],
    ['an empty reshape', 'input { reshape { } }', '"reshape":{"shape":[]}'],
    [
      'map keys are text',
      'dynamic_batching { priority_queue_policy { key: 2 value { } } }',
      '"priority_queue_policy":{"2":{',
    ],
    [
      'parameters',
      'parameters { key: "a\\"b" value { string_value: "c" } }',
      '"parameters":{"a\\"b":{"string_value":"c"}}',
    ],
    ['the member of a oneof that is set', 'version_policy { all { } }', '"version_policy":{"all":{}}'],
    [
      'the strings that Triton forgets to convert',
      'sequence_batching { state { dims: 1 initial_state { dims: 1 zero_data: true } } }',
      '"initial_state":[{"data_type":"TYPE_INVALID","dims":["1"],"zero_data":true,"name":""}]',
    ],
    [
      'a float is as short as it can be',
      'sequence_batching { direct { minimum_slot_utilization: 0.1 } }',
      '"minimum_slot_utilization":0.1}',
    ],
    [
      'doubles',
      'model_metrics { metric_control { histogram_options { buckets: [ 0.1, 1e300, inf ] } } }',
      '"buckets":[0.1,1e+300,"Infinity"]',
    ],
  ])('%s', (_name, text, part) => {
    expect(json(text)).toContain(part);
  });

  test('a float that needs all its digits', () => {
    const utilization = Math.fround(0.123456789);
    const { sequence_batching } = JSON.parse(
      json('sequence_batching { direct { minimum_slot_utilization: 0.123456789 } }'),
    );
    expect(Math.fround(sequence_batching.direct.minimum_slot_utilization)).toBe(utilization);
  });
});

test('a message that is no config', () => {
  expect(() => decodeModelConfig('{"nam":1}')).toThrow(
    expect.objectContaining({
      name: 'NereidError',
      code: 'INVALID_ARG',
      message: expect.stringMatching(/cannot be read: .*nam/),
    }),
  );
});

test('a message keeps 64-bit integers', () => {
  const config = parseModelConfig('input { dims: [ 9223372036854775807, -1 ] }', 'c');
  expect(decodeModelConfig(encodeModelConfig(config)).input[0]?.dims).toEqual([9223372036854775807n, -1n]);
});
