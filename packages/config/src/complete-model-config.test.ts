import { equals } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { completeModelConfig, normaliseModelConfig, resolveInstances } from './complete-model-config.ts';
import { ModelInstanceGroup_Kind as Kind, type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';
import { parseModelConfig } from './parse-model-config.ts';

const completed = (text: string, gpus = 0) => completedBy(text, gpus);
const completedOpen = (text: string) => completedBy(text, undefined);

function completedBy(text: string, gpus: number | undefined): ModelConfig {
  const given = parseModelConfig(text, 'config.pbtxt');
  const config = completeModelConfig(given, { name: 'm', files: [{ name: 'model.onnx', directory: false }], gpus });
  // A second time changes nothing.
  expect(equals(ModelConfigSchema, normaliseModelConfig(config, gpus), config)).toBe(true);
  return config;
}

test('nothing given', () => {
  const config = completed('', 0);
  expect(config).toMatchObject({ name: 'm', backend: 'onnxruntime', platform: 'onnxruntime_onnx' });
  expect(config.versionPolicy?.policyChoice).toMatchObject({ case: 'latest', value: { numVersions: 1 } });
  expect(config.optimization?.inputPinnedMemory?.enable).toBe(true);
  expect(config.optimization?.outputPinnedMemory?.enable).toBe(true);
  expect(config.schedulingChoice.case).toBeUndefined();
});

test('what is given stays', () => {
  const config = completed(
    'name: "n" version_policy { latest { } } optimization { input_pinned_memory { enable: false } priority: PRIORITY_MAX }',
  );
  expect(config.name).toBe('n');
  expect(config.versionPolicy?.policyChoice).toMatchObject({ case: 'latest', value: { numVersions: 0 } });
  expect(config.optimization?.inputPinnedMemory?.enable).toBe(false);
  expect(config.optimization?.outputPinnedMemory?.enable).toBe(true);
});

describe('preferred batch sizes', () => {
  test.each([
    ['the largest batch', 'max_batch_size: 8 dynamic_batching { }', [8]],
    ['given', 'max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 }', [4]],
    ['none without batching', 'dynamic_batching { }', []],
  ])('dynamic: %s', (_name, text, sizes) => {
    const { schedulingChoice } = completed(text);
    expect(schedulingChoice.case === 'dynamicBatching' && schedulingChoice.value.preferredBatchSize).toEqual(sizes);
  });

  test('sequence: oldest, and the idle default', () => {
    const { schedulingChoice } = completed(
      'max_batch_size: 4 sequence_batching { oldest { max_candidate_sequences: 4 } }',
    );
    expect(schedulingChoice.value).toMatchObject({
      maxSequenceIdleMicroseconds: 1_000_000n,
      strategyChoice: { case: 'oldest', value: { preferredBatchSize: [4] } },
    });
  });

  test('sequence: a given idle limit stays', () => {
    const { schedulingChoice } = completed('sequence_batching { max_sequence_idle_microseconds: 7 direct { } }', 0);
    expect(schedulingChoice.value).toMatchObject({ maxSequenceIdleMicroseconds: 7n });
  });
});

describe('instance groups', () => {
  test.each<[string, string, number, unknown[]]>([
    ['none given, no GPU', '', 0, ['m', Kind.CPU, 2, []]],
    ['none given, GPUs', '', 2, ['m', Kind.GPU, 1, [0, 1]]],
    ['none given, another backend', 'backend: "javascript"', 0, ['m', Kind.CPU, 1, []]],
    ['unnamed', 'instance_group { count: 3 kind: KIND_CPU }', 0, ['m_0', Kind.CPU, 3, []]],
    ['named', 'instance_group { name: "g" count: 1 kind: KIND_CPU }', 0, ['g', Kind.CPU, 1, []]],
    ['count below 1', 'instance_group { count: -1 kind: KIND_CPU }', 0, ['m_0', Kind.CPU, 2, []]],
    ['count below 1 on a GPU', 'instance_group { kind: KIND_GPU }', 1, ['m_0', Kind.GPU, 1, [0]]],
    ['KIND_MODEL', 'instance_group { kind: KIND_MODEL }', 1, ['m_0', Kind.MODEL, 1, []]],
    ['auto with the GPU it lists', 'instance_group { gpus: 1 }', 2, ['m_0', Kind.GPU, 1, [1]]],
    ['auto without the GPU it lists', 'instance_group { gpus: 1 }', 1, ['m_0', Kind.CPU, 2, [1]]],
    ['KIND_GPU without GPUs', 'instance_group { kind: KIND_GPU }', 0, ['m_0', Kind.GPU, 1, []]],
  ])('%s', (_name, text, gpus, expected) => {
    const groups = completed(text, gpus).instanceGroup.map((group) => [
      group.name,
      group.kind,
      group.count,
      group.gpus,
    ]);
    expect(groups).toEqual([expected]);
  });

  test.each<[string, string, unknown[], unknown[], unknown[]]>([
    ['none given', '', ['m', Kind.AUTO, 0, []], ['m', Kind.CPU, 2, []], ['m', Kind.GPU, 1, [0, 1]]],
    [
      'auto with a count',
      'instance_group { count: 3 }',
      ['m_0', Kind.AUTO, 3, []],
      ['m_0', Kind.CPU, 3, []],
      ['m_0', Kind.GPU, 3, [0, 1]],
    ],
    [
      'KIND_GPU',
      'instance_group { kind: KIND_GPU }',
      ['m_0', Kind.GPU, 1, []],
      ['m_0', Kind.GPU, 1, []],
      ['m_0', Kind.GPU, 1, [0, 1]],
    ],
    [
      'KIND_CPU',
      'instance_group { kind: KIND_CPU }',
      ['m_0', Kind.CPU, 2, []],
      ['m_0', Kind.CPU, 2, []],
      ['m_0', Kind.CPU, 2, []],
    ],
  ])('left open until a worker resolves them: %s', (_name, text, open, without, withTwo) => {
    const groups = (config: ModelConfig) =>
      config.instanceGroup.map((group) => [group.name, group.kind, group.count, group.gpus]);
    const left = completedOpen(text);
    expect(groups(left)).toEqual([open]);
    expect(groups(resolveInstances(left, 0))).toEqual([without]);
    expect(groups(resolveInstances(left, 2))).toEqual([withTwo]);
  });

  test('are numbered by place', () => {
    const config = completed('instance_group [ { name: "a" }, { }, { } ]', 0);
    expect(config.instanceGroup.map((group) => group.name)).toEqual(['a', 'm_1', 'm_2']);
  });

  test('an ensemble has none, nor optimization', () => {
    const config = completed('platform: "ensemble" ensemble_scheduling { }', 0);
    expect(config.instanceGroup).toEqual([]);
    expect(config.optimization).toBeUndefined();
    expect(config.backend).toBe('');
  });
});
