import { describe, expect, test } from 'vitest';
import { missingGpus } from './check-instance-groups.ts';
import { checkModelConfig } from './check-model-config.ts';
import { completeModelConfig, resolveInstances } from './complete-model-config.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { parseModelConfig } from './parse-model-config.ts';

const IO = 'input { name: "I" data_type: TYPE_FP32 dims: 4 } output { name: "O" data_type: TYPE_FP32 dims: 4 }';

function completed(text: string, gpus: number | undefined): ModelConfig {
  const files = [{ name: 'model.onnx', directory: false }];
  return completeModelConfig(parseModelConfig(text, 'config.pbtxt'), { name: 'm', files, gpus });
}
function refusal(text: string, gpus: number | undefined): string {
  try {
    checkModelConfig(completed(text, gpus), { name: 'm', gpus });
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.any(String) });
    return error instanceof Error ? error.message : '';
  }
  return 'accepted';
}
const inputs = (body: string, rest = '') => `input { name: "I" ${body} } ${rest}`;
const fp32 = (body: string, rest = '') => inputs(`data_type: TYPE_FP32 ${body}`, rest);

describe('accepted', () => {
  test.each([
    ['the usual', IO],
    ['dynamic batching without batching', `${IO} dynamic_batching { }`],
    ['preferred sizes', `${IO} max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 8 ] }`],
    [
      'a priority level',
      `${IO} dynamic_batching { priority_levels: 3 default_priority_level: 3 priority_queue_policy { key: 1 value { } } }`,
    ],
    ['a variable dimension', fp32('dims: [ -1, 3 ]')],
    ['a reshape', fp32('dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }')],
    ['a scalar', fp32('dims: 1 reshape { }', 'max_batch_size: 2')],
    ['NCHW', fp32('format: FORMAT_NCHW dims: [ 3, 2, 2 ]')],
    ['an optional input', fp32('dims: 1 optional: true')],
    ['a response cache', `${IO} response_cache { enable: true }`],
    ['a rate limiter', `${IO} instance_group { rate_limiter { resources { name: "R" count: 1 } } }`],
    [
      'parameters, also ours',
      `${IO} parameters { key: "x" value { } } parameters { key: "nereid.pin" value { string_value: "true" } }`,
    ],
    ['a backend of its own', `${IO} backend: "mine"`],
    ['auto without GPU', `${IO} instance_group { kind: KIND_AUTO }`],
  ])('%s', (_name, text) => {
    expect(refusal(text, 0)).toBe('accepted');
  });
  test('a GPU that is there', () => {
    expect(refusal(`${IO} instance_group { kind: KIND_GPU gpus: 1 }`, 2)).toBe('accepted');
  });
});

describe('refused', () => {
  test.each([
    ['another name', 'name: "n"', `unexpected directory name 'm' for model 'n', directory name must equal model name`],
    ['unknown platform', 'platform: "x"', `unexpected platform type 'x' for m`],
    [
      'a pair that does not fit',
      'platform: "x" backend: "onnxruntime"',
      `unexpected 'platform' and 'backend' pair, got:x, onnxruntime for m`,
    ],
    [
      'an ensemble with a backend',
      'platform: "ensemble" backend: "x"',
      `Ensemble model 'm' must have platform type 'ensemble' and empty backend type`,
    ],
    ['negative batch', 'max_batch_size: -1', `'max_batch_size' must be non-negative value for m, got -1`],
    [
      'a cache of streams',
      `${IO} response_cache { enable: true } model_transaction_policy { decoupled: true }`,
      `Response Cache does not currently support model m with 'decoupled' transaction policy. Please disable the response cache.`,
    ],
    ['no name', 'input { }', `model input must specify 'name' for m`],
    ['no datatype', inputs('dims: 1'), `model input 'I' must specify 'data_type' for m`],
    ['no dims', fp32(''), /^model input 'I' must specify 'dims' for m; a scalar is dims: \[ 1 \]/],
    [
      'dim 0',
      fp32('dims: [ 4, 0 ]'),
      `model input 'I' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m`,
    ],
    ['dim -2', fp32('dims: -2'), /^model input 'I' dimension must be integer >= 1/],
    ['an output', 'output { name: "O" data_type: TYPE_BOOL }', /^model output 'O' must specify 'dims' for m/],
    ['an input twice', `${IO} ${fp32('dims: 1')}`, `model input 'I' is specified more than once for m`],
    [
      'an output twice',
      `${IO} output { name: "O" data_type: TYPE_FP32 dims: 4 }`,
      `model output 'O' is specified more than once for m`,
    ],
    ['format', fp32('format: FORMAT_NHWC dims: [ 3, 2 ]'), `model input 'I': NHWC/NCHW require 3 dims, got 2 for m`],
    [
      'shape tensor',
      fp32('dims: 1 is_shape_tensor: true'),
      "shape tensors are only supported for TensorRT platform, see model input 'I' for m; leave is_shape_tensor out: it has rows as any tensor, or, with max_batch_size: 0, none",
    ],
    [
      'a shape tensor as output',
      `${inputs('data_type: TYPE_FP32 dims: 1')} output { name: "O" data_type: TYPE_INT32 dims: 1 is_shape_tensor: true }`,
      /see model output 'O' for m/,
    ],
    [
      'a batch input without its source',
      `${IO} batch_input { target_name: "T" data_type: TYPE_INT32 source_input: "X" }`,
      "unknown source input name 'X' (inputs are 'I') for m",
    ],
    [
      'a reshape without the variable dimension',
      fp32('dims: [ -1 ] reshape { shape: 4 }'),
      `model input 'I' has different size for dims and reshape for m; dims are [-1], reshape is [4]`,
    ],
    [
      'a variable dimension that the dims have not',
      fp32('dims: [ 4 ] reshape { shape: -1 }'),
      `model input 'I' has different size for dims and reshape for m; dims are [4], reshape is [-1]`,
    ],
    [
      'a reshape of an output',
      `${inputs('data_type: TYPE_FP32 dims: 1')} output { name: "O" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 3 ] } }`,
      `model output 'O' has different size for dims and reshape for m; dims are [2,2], reshape is [3]`,
    ],
    ['non-linear', fp32('dims: 1 is_non_linear_format_io: true'), /only supported for TensorRT platform, for m$/],
    [
      'an empty reshape without batching',
      fp32('dims: 1 reshape { }'),
      `model input 'I' cannot have empty reshape for non-batching model as scalar tensors are not supported for m`,
    ],
    [
      'an empty reshape of two elements',
      fp32('dims: 2 reshape { }', 'max_batch_size: 1'),
      `model input 'I' has different size for dims and reshape for m; dims are [2], reshape is []`,
    ],
    [
      'a reshape of 0',
      fp32('dims: 1 reshape { shape: 0 }'),
      /^model input 'I' reshape dimensions must be integer >= 1/,
    ],
    [
      'another count',
      fp32('dims: [ 2, 3 ] reshape { shape: 5 }'),
      `model input 'I' has different size for dims and reshape for m; dims are [2,3], reshape is [5]`,
    ],
    [
      'another count beside a variable dimension',
      fp32('dims: [ 2, -1, 3 ] reshape { shape: [ 3, -1, 2 ] }'),
      /has different size for dims and reshape/,
    ],
    [
      'fewer variable dimensions',
      fp32('dims: [ -1, -1 ] reshape { shape: [ -1 ] }'),
      /^model input 'I' has different number of variable-size dimensions for dims and reshape for m/,
    ],
    [
      'preferred size above the maximum',
      'max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }',
      'dynamic batching preferred size must be <= max batch size for m, got 4 with max_batch_size 2',
    ],
    [
      'preferred size without batching',
      'dynamic_batching { preferred_batch_size: 4 }',
      'dynamic batching preferred size must be <= max batch size for m, got 4 with max_batch_size 0',
    ],
    [
      'preferred size 0',
      'max_batch_size: 2 dynamic_batching { preferred_batch_size: 0 }',
      'dynamic batching preferred size must be positive for m, got 0',
    ],
    [
      'default level 0',
      'dynamic_batching { priority_levels: 3 }',
      'default priority level must be in range [1, 3] for m, got 0',
    ],
    [
      'default level above',
      'dynamic_batching { priority_levels: 3 default_priority_level: 4 }',
      'default priority level must be in range [1, 3] for m, got 4',
    ],
    [
      'policy of a level above',
      'dynamic_batching { priority_levels: 3 default_priority_level: 1 priority_queue_policy { key: 4 value { } } }',
      'priority queue policy must have priority level in range [1, 3] for m, got 4',
    ],
    [
      'ordering with levels',
      'dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }',
      `Only one priority level is allowed when 'preserve_ordering' is true for m`,
    ],
    [
      'ordering with delay',
      'dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }',
      `Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m`,
    ],
    [
      'GPUs of a CPU group',
      'instance_group { kind: KIND_CPU gpus: 0 }',
      'instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs',
    ],
    [
      'no GPU',
      'instance_group { kind: KIND_GPU }',
      'instance group m_0 of model m has kind KIND_GPU but no GPUs are available; use KIND_CPU, or KIND_AUTO for either',
    ],
    [
      'a profile',
      'instance_group { profile: "0" }',
      /^instance group m_0 of model m and platform onnxruntime_onnx specifies profile field/,
    ],
    ['too many instances', 'instance_group { count: 5000 }', /ask for 5000 instances, more than 1024/],
    [
      'a parameter of ours that is none',
      'parameters { key: "nereid.carier" value { } }',
      `unknown parameter 'nereid.carier' for m; did you mean 'nereid.carrier'?`,
    ],
    [
      'bulk: none of its rules',
      'parameters { key: "nereid.bulk" value { string_value: "on" } }',
      `parameter 'nereid.bulk' for m must be 'fill' or 'idle' or 'off', not 'on'`,
    ],
    [
      'eager closing: neither true nor false',
      'dynamic_batching {} parameters { key: "nereid.eager_batch" value { string_value: "yes" } }',
      `parameter 'nereid.eager_batch' for m must be 'true' or 'false', not 'yes'`,
    ],
    [
      'eager closing of no batches',
      'parameters { key: "nereid.eager_batch" value { string_value: "true" } }',
      `parameter 'nereid.eager_batch' for m needs 'dynamic_batching'`,
    ],
    [
      'a parameter of ours like none',
      'parameters { key: "nereid.zzzzzzzz" value { } }',
      /^unknown parameter 'nereid.zzzzzzzz' for m; known are nereid.carrier, /,
    ],
  ])('%s', (_name, text, expected) => {
    if (typeof expected === 'string') expect(refusal(text, 0)).toBe(expected);
    else expect(refusal(text, 0)).toMatch(expected);
  });

  test('a GPU that is not there', () => {
    expect(refusal('instance_group { kind: KIND_GPU gpus: 2 }', 2)).toBe(
      'instance group m_0 of model m specifies invalid or unsupported gpu id 2. The GPUs of this machine are: 0, 1',
    );
  });
});

describe('where each worker goes by its own GPUs', () => {
  test.each<[string, string, string | RegExp]>([
    ['KIND_GPU', 'instance_group { kind: KIND_GPU gpus: 7 }', 'accepted'],
    ['auto with GPUs', 'instance_group { gpus: 7 }', 'accepted'],
    ['KIND_CPU with GPUs', 'instance_group { kind: KIND_CPU gpus: 0 }', /has kind KIND_CPU but specifies/],
    ['a negative GPU', 'instance_group { kind: KIND_GPU gpus: -1 }', /invalid or unsupported gpu id -1/],
  ])('%s', (_name, text, expected) => {
    expect(refusal(`${IO} ${text}`, undefined)).toMatch(expected);
  });

  test.each<[string, string, number, string | undefined]>([
    ['a machine without GPUs', 'instance_group { kind: KIND_GPU }', 0, 'no GPUs are available'],
    ['one with too few', 'instance_group { kind: KIND_GPU gpus: 1 }', 1, 'gpu id 1. The GPUs of this machine are: 0'],
    ['one with enough', 'instance_group { kind: KIND_GPU gpus: 1 }', 2, undefined],
    ['auto on a machine without GPUs', 'instance_group { }', 0, undefined],
    ['auto that lists a GPU which is not there', 'instance_group { gpus: 1 }', 0, 'gpu id 1'],
  ])('what %s lacks', (_name, text, gpus, expected) => {
    const missing = missingGpus(resolveInstances(completed(text, undefined), gpus), gpus);
    if (expected === undefined) expect(missing).toBeUndefined();
    else expect(missing).toContain(expected);
  });
});

test('tensors can be left out until they are completed', () => {
  const config = completed('input { name: "I" }', 0);
  expect(() => checkModelConfig(config, { name: 'm', gpus: 0, withoutTensors: true })).not.toThrow();
  expect(() => checkModelConfig(config, { name: 'm', gpus: 0 })).toThrow(/must specify 'data_type'/);
});
