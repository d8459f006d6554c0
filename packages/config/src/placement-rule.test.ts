import { describe, expect, test } from 'vitest';
import { checkModelConfig } from './check-model-config.ts';
import { labelsText, missingLabels, readLabelPairs } from './labels.ts';
import { memoryBudget, readMemoryBudget, workerLabels } from './options-placement.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { placementRule } from './placement-rule.ts';

const config = (parameters: Readonly<Record<string, string>>) =>
  parseModelConfig(
    `
name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" max_batch_size: 4
input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "B" data_type: TYPE_FP32 dims: [ 1 ] }
${Object.entries(parameters)
  .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
  .join('\n')}`,
    'config.pbtxt',
  );
const checked = (parameters: Readonly<Record<string, string>>) => () =>
  checkModelConfig(config(parameters), { name: 'm', gpus: 0, withoutInstances: true });

describe('labels', () => {
  test.each([
    ['zone=a', { zone: 'a' }],
    ['zone=a, gpu/kind=l4', { zone: 'a', 'gpu/kind': 'l4' }],
    ['zone=', { zone: '' }],
    ['zone', undefined],
    ['=a', undefined],
    ['', undefined],
    ['zone=a,zone=b', undefined],
    ['zone=a b', undefined],
  ])("'%s' are %s", (text, labels) => {
    expect(readLabelPairs(text)).toEqual(labels);
  });

  test.each([
    [{}, {}, ''],
    [{ zone: 'a' }, { zone: 'a', disk: 'ssd' }, ''],
    [{ zone: 'a', disk: 'ssd' }, { zone: 'b' }, 'zone=a,disk=ssd'],
    [{ zone: '' }, {}, 'zone='],
  ])('%s of a worker with %s are missing: %s', (wanted, carried, missing) => {
    expect(missingLabels(wanted, carried)).toBe(missing);
  });

  test('of several flags are taken together, the last of a key', () => {
    expect(labelsText(workerLabels(['zone=a,disk=ssd', 'zone=b']))).toBe('zone=b,disk=ssd');
  });
});

describe('a memory budget', () => {
  test.each([
    ['cpu=2GiB', { cpu: 2 * 1024 ** 3 }],
    ['cpu=1.5gib, GPU0=10GB', { cpu: 1.5 * 1024 ** 3, gpu0: 1e10 }],
    ['cpu=52428800', { cpu: 52_428_800 }],
    ['cpu=1k', { cpu: 1000 }],
    ['cpu=0', undefined],
    ['cpu', undefined],
    ['tpu=1GiB', undefined],
    ['cpu=1XB', undefined],
    ['', undefined],
  ])("'%s' is %s", (text, budget) => {
    expect(readMemoryBudget(text)).toEqual(budget);
  });

  test('of several flags is taken together, the last of a device', () => {
    expect(memoryBudget(['cpu=1k,gpu0=2k', 'cpu=3k'])).toEqual({ cpu: 3000, gpu0: 2000 });
  });
});

describe('what a config says of its placement', () => {
  test('is nothing by default', () => {
    const none = { labels: {}, pin: false, keepWarmMs: 0, scaleToZero: false, maxWaitMs: undefined };
    expect(placementRule(config({}))).toEqual(none);
  });

  test('is read', () => {
    const given = {
      'nereid.labels': 'zone=a',
      'nereid.pin': 'true',
      'nereid.keep_warm_ms': '500',
      'nereid.scale_to_zero': 'true',
      'nereid.max_wait_ms': '100',
    };
    const rule = { labels: { zone: 'a' }, pin: true, keepWarmMs: 500, scaleToZero: true, maxWaitMs: 100 };
    expect(placementRule(config(given))).toEqual(rule);
    expect(checked(given)).not.toThrow();
  });

  test.each([
    [
      'nereid.labels',
      'zone',
      "for m must be k=v with commas between them, of letters, digits and _ . / : -, not 'zone'",
    ],
    ['nereid.pin', 'yes', "for m must be 'true' or 'false', not 'yes'"],
    ['nereid.scale_to_zero', '1', "for m must be 'true' or 'false', not '1'"],
    ['nereid.keep_warm_ms', '-1', "for m must be a whole number of milliseconds from 0, not '-1'"],
    ['nereid.max_wait_ms', '0', "for m must be a whole number of milliseconds from 1, not '0'"],
  ])("is refused where %s is '%s'", (key, text, why) => {
    expect(checked({ [key]: text })).toThrow(`parameter '${key}' ${why}`);
  });
});
