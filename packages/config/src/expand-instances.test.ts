import { expect, test } from 'vitest';
import { completeModelConfig } from './complete-model-config.ts';
import { expandInstances } from './expand-instances.ts';
import { parseModelConfig } from './parse-model-config.ts';

function names(text: string, gpus = 0) {
  const files = [{ name: 'model.onnx', directory: false }];
  const config = completeModelConfig(parseModelConfig(text, 'c'), { name: 'm', files, gpus });
  return expandInstances(config).map(({ index, name, device }) => `${index} ${name} ${device.kind}${device.id}`);
}

test.each<[string, string, number, string[]]>([
  ['no group', '', 0, ['0 m_0 cpu0', '1 m_1 cpu0']],
  ['an unnamed group', 'instance_group { count: 2 kind: KIND_CPU }', 0, ['0 m_0_0 cpu0', '1 m_0_1 cpu0']],
  [
    'groups in order',
    'instance_group [ { name: "a" count: 1 kind: KIND_CPU }, { count: 1 kind: KIND_MODEL } ]',
    0,
    ['0 a_0 cpu0', '1 m_1_0 model0'],
  ],
  [
    'each count on each GPU',
    'instance_group { name: "g" count: 2 kind: KIND_GPU gpus: [ 1, 0 ] }',
    2,
    ['0 g_0_gpu1 gpu1', '1 g_0_gpu0 gpu0', '2 g_1_gpu1 gpu1', '3 g_1_gpu0 gpu0'],
  ],
  ['no group with GPUs', '', 2, ['0 m_0_gpu0 gpu0', '1 m_0_gpu1 gpu1']],
  ['an ensemble', 'platform: "ensemble" ensemble_scheduling { }', 0, []],
])('%s', (_name, text, gpus, expected) => {
  expect(names(text, gpus)).toEqual(expected);
});

test.each([
  ['the one that its group names', 'kind: KIND_CPU host_policy: "own"', ['own']],
  ['cpu', 'kind: KIND_CPU', ['cpu']],
  ['model', 'kind: KIND_MODEL', ['model']],
  ['gpu_<id>', 'kind: KIND_GPU gpus: [ 1, 0 ]', ['gpu_1', 'gpu_0']],
])('the host policy of an instance is %s', (_name, text, expected) => {
  const config = parseModelConfig(`instance_group { name: "g" count: 1 ${text} }`, 'c');
  expect(expandInstances(config).map(({ hostPolicy }) => hostPolicy)).toEqual(expected);
});

test('passive groups', () => {
  const config = parseModelConfig(
    'instance_group [ { name: "a" count: 1 passive: true }, { name: "b" count: 1 } ]',
    'c',
  );
  expect(expandInstances(config).map(({ group, passive }) => [group, passive])).toEqual([
    ['a', true],
    ['b', false],
  ]);
});
