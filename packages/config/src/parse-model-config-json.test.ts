import { create, equals, toJsonString } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataType, ModelConfigSchema } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { modelConfigJson } from './model-config-json.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { parseModelConfigJson } from './parse-model-config-json.ts';

function message(text: string): string {
  try {
    parseModelConfigJson(text, 'config');
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG' });
    return error instanceof Error ? error.message : '';
  }
  return 'no error';
}

/** Every kind of field there is. */
const FULL = `
  name: "m" backend: "onnxruntime" max_batch_size: 8
  version_policy { specific { versions: [ 1, 9223372036854775807 ] } }
  input { name: "I" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ -1, 9007199254740993 ] reshape { } optional: true }
  output { name: "O" data_type: TYPE_STRING dims: 1 label_filename: "a\\nb" }
  instance_group { kind: KIND_GPU gpus: [ 0, 1 ] secondary_devices { device_id: 3 } rate_limiter { resources { name: "R" count: 4 } } }
  optimization { cuda { graph_spec { input { key: "I" value { dim: 4 } } } } }
  sequence_batching {
    control_input { name: "C" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0.5, 1 ] } }
    state { input_name: "S" initial_state { zero_data: true dims: [ 1 ] } }
    direct { minimum_slot_utilization: 0.1 }
  }
  parameters { key: "a.b" value { string_value: "v" } }
  metric_tags { key: "t" value: "" }
  model_metrics { metric_control { histogram_options { buckets: [ 0.1, 1e300, inf ] } } }`;

describe('texts that are right', () => {
  test("as GET …/config prints it, as protobuf's JSON, and with camelCase names", () => {
    const config = parseModelConfig(FULL, 'c');
    for (const text of [modelConfigJson(config), toJsonString(ModelConfigSchema, config)]) {
      expect(equals(ModelConfigSchema, parseModelConfigJson(text, 'c'), config)).toBe(true);
    }
    const snake = toJsonString(ModelConfigSchema, config, { useProtoFieldName: true });
    expect(equals(ModelConfigSchema, parseModelConfigJson(snake, 'c'), config)).toBe(true);
  });

  test.each([
    ['an empty object', '{}', {}],
    ['white space', ' \n{ "max_batch_size" :\t4 }\r\n', { maxBatchSize: 4 }],
    ['enum names in any case', '{"input":[{"data_type":"type_fp32"}]}', { input: [{ dataType: DataType.TYPE_FP32 }] }],
    ['an enum by its number', '{"input":[{"data_type":11}]}', { input: [{ dataType: DataType.TYPE_FP32 }] }],
    ['a 64-bit integer as text', '{"input":[{"dims":["-1", 3]}]}', { input: [{ dims: [-1n, 3n] }] }],
    ['an integer with a fraction of zero', '{"max_batch_size":4.0}', { maxBatchSize: 4 }],
    ['an integer as text', '{"max_batch_size":"4"}', { maxBatchSize: 4 }],
    ['null for what is left out', '{"name":null,"dynamic_batching":null}', {}],
    ['escapes', '{"name":"a\\u0041\\n"}', { name: 'aA\n' }],
    [
      'keys that are numbers',
      '{"dynamic_batching":{"priority_queue_policy":{"2":{"max_queue_size":3}}}}',
      {
        schedulingChoice: {
          case: 'dynamicBatching' as const,
          value: { priorityQueuePolicy: { '2': { maxQueueSize: 3 } } },
        },
      },
    ],
  ])('%s', (_name, text, expected) => {
    const config = parseModelConfigJson(text, 'config');
    expect(equals(ModelConfigSchema, config, create(ModelConfigSchema, expected))).toBe(true);
  });
});

describe('texts that are wrong', () => {
  test.each([
    [
      'an unknown field',
      '{"max_batchsize":4}',
      'config:1:2: unknown field "max_batchsize" in ModelConfig; did you mean "max_batch_size"?',
    ],
    [
      'an unknown field within',
      '{\n "input": [ { }, { "data_typ": 1 } ]}',
      'config:2:20: input[1]: unknown field "data_typ" in ModelInput; did you mean "data_type"?',
    ],
    [
      'an unknown enum value',
      '{"instance_group":[{"kind":"KIND_GPUS"}]}',
      'config:1:28: instance_group[0].kind: unknown value "KIND_GPUS"; did you mean "KIND_GPU"?',
    ],
    [
      'an enum number that has no name',
      '{"input":[{"format":7}]}',
      'config:1:21: input[0].format: expected one of FORMAT_NONE, FORMAT_NHWC, FORMAT_NCHW, got 7',
    ],
    ['text for a number', '{"max_batch_size":"four"}', 'config:1:19: max_batch_size: expected an integer, got "four"'],
    ['nothing for a number', '{"max_batch_size":""}', 'config:1:19: max_batch_size: expected an integer, got ""'],
    ['a fraction', '{"max_batch_size":1.5}', 'config:1:19: max_batch_size: expected an integer, got 1.5'],
    ['a number for text', '{"name":4}', 'config:1:9: name: expected a text, got 4'],
    ['a number for a list', '{"input":[{"dims":4}]}', 'config:1:19: input[0].dims: expected an array, got a number'],
    ['a list for a message', '{"input":[[]]}', 'config:1:11: input[0]: expected an object, got an array'],
    ['a list for a map', '{"parameters":[]}', 'config:1:15: parameters: expected an object, got an array'],
    [
      'text for a flag',
      '{"input":[{"optional":"yes"}]}',
      'config:1:23: input[0].optional: expected true or false, got "yes"',
    ],
    [
      'a parameter that is no object',
      '{"parameters":{"k":"v"}}',
      'config:1:20: parameters["k"]: expected an object, got a text',
    ],
    [
      'a number out of range',
      '{"max_batch_size":5000000000}',
      'config:1:19: max_batch_size: expected an integer from -2147483648 to 2147483647, got 5000000000',
    ],
    [
      'a negative number of what is counted',
      '{"version_policy":{"latest":{"num_versions":-1}}}',
      'config:1:45: version_policy.latest.num_versions: expected an integer from 0 to 4294967295, got -1',
    ],
    [
      'a key that is no number',
      '{"dynamic_batching":{"priority_queue_policy":{"low":{}}}}',
      'config:1:47: dynamic_batching.priority_queue_policy["low"]: expected an integer, got "low"',
    ],
    [
      'a float out of range',
      '{"sequence_batching":{"direct":{"minimum_slot_utilization":1e39}}}',
      'config:1:60: sequence_batching.direct.minimum_slot_utilization: expected a number, got 1e39',
    ],
    [
      'two schedulers',
      '{"dynamic_batching":{},\n"sequence_batching":{}}',
      'config:2:1: sequence_batching: "dynamic_batching" is given too, only one of them can be',
    ],
    ['a field twice', '{"name":"a","name":"b"}', 'config:1:13: name: given twice'],
    [
      'a field twice, once in camelCase',
      '{"max_batch_size":1,"maxBatchSize":2}',
      'config:1:21: max_batch_size: given twice',
    ],
    ['a parameter twice', '{"parameters":{"k":{},"k":{}}}', 'config:1:23: parameters["k"]: given twice'],
    [
      'the name of a prototype',
      '{"parameters":{"__proto__":{}}}',
      'config:1:16: parameters["__proto__"]: this name cannot be used',
    ],
    ['no object', '[]', 'config:1:1: expected an object, got an array'],
    ['no text', '', 'config:1:1: expected a value, got the end of the text'],
    ['pbtxt', 'name: "m"', 'config:1:1: expected a value, got "name"'],
    ['an unclosed brace', '{\n"name":"m"\n', 'config:3:1: expected "," or "}", got the end of the text'],
    ['an unclosed string', '{"name":"m}', 'config:1:9: a string that has no end, a line break or a wrong escape'],
    ['a comma too many', '{"name":"m",}', 'config:1:13: expected a name in double quotes, got "}"'],
    ['a second value', '{} {}', 'config:1:4: expected the end, got "{"'],
    ['a wrong number', '{"max_batch_size":01}', 'config:1:19: "01" is no JSON number'],
    ['a wrong escape', '{"name":"\\x"}', 'config:1:9: a string that has no end, a line break or a wrong escape'],
    [
      'a line break in a string',
      '{"name":"a\nb"}',
      'config:1:9: a string that has no end, a line break or a wrong escape',
    ],
    ['no colon', '{"name" "m"}', 'config:1:9: expected ":" after "name", got "m"'],
  ])('%s', (_name, text, expected) => {
    expect(message(text)).toBe(expected);
  });

  test('the field is told apart', () => {
    expect(() => parseModelConfigJson('{"input":[{"dims":[0.5]}]}', 's')).toThrow(
      expect.objectContaining({ field: 'input[0].dims[0]' }),
    );
  });

  test('what is too long or too deep', () => {
    expect(message(' '.repeat(LIMITS.config_bytes_max + 1))).toMatch(/4194305 characters, more than 4194304/);
    expect(message('['.repeat(100_000))).toBe('config:1:101: more than 100 arrays and objects within each other');
    expect(message(`{"max_batch_size":${'9'.repeat(1_000_000)}}`)).toMatch(/expected an integer from/);
  });
});

test('whatever the text, it is a config or a NereidError with a position', () => {
  const words = fc.constantFrom(
    '"name"',
    '"input"',
    '"dims"',
    '"m"',
    ':',
    ',',
    '{',
    '}',
    '[',
    ']',
    '1',
    'null',
    '-',
    '"',
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 12 }), (parts) => {
      const text = message(parts.join(' '));
      if (text !== 'no error') expect(text).toMatch(/^config:\d+:\d+: /);
    }),
  );
});
