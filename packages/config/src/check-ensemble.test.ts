import { describe, expect, test } from 'vitest';
import { checkModelConfig } from './check-model-config.ts';
import { modelConfig, step, throughStep, VECTOR } from './fixture-ensemble.ts';

const ONE = throughStep('a');
const MORE = (side: 'input' | 'output') => `${side} { name: "X" data_type: TYPE_FP32 dims: 4 } `;
const ensemble = (steps: string, rest = VECTOR) => `platform: "ensemble" ${rest} ensemble_scheduling { ${steps} }`;

function refusal(text: string): string {
  try {
    checkModelConfig(modelConfig('e', text), { name: 'e', gpus: 0 });
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG', field: expect.any(String) });
    return error instanceof Error ? error.message : '';
  }
  return 'accepted';
}

describe('an ensemble that is accepted', () => {
  test.each([
    ['one step', ONE],
    ['two in a row', step('a', [['I', 'I']], [['O', 'x']]) + step('a', [['I', 'x']], [['O', 'O']])],
    ['in any order', step('a', [['I', 'x']], [['O', 'O']]) + step('a', [['I', 'I']], [['O', 'x']])],
    [
      'one tensor for two steps',
      step('a', [['I', 'I']], [['O', 'x']]) +
        step('a', [['I', 'I']], [['O', 'y']]) +
        step(
          'b',
          [
            ['A', 'x'],
            ['B', 'y'],
          ],
          [['O', 'O']],
        ),
    ],
    ['an output that a step takes as well', ONE + step('a', [['I', 'O']], [['O', 'X']]), VECTOR + MORE('output')],
    [
      'an input handed on',
      ONE,
      `${VECTOR} output { name: "I" data_type: TYPE_FP32 dims: 4 } response_cache { enable: true }`,
    ],
    ['a bound of calls', `${ONE} max_inflight_requests: 3`],
  ])('%s', (_name, steps, rest = VECTOR) => {
    expect(refusal(ensemble(steps, rest))).toBe('accepted');
  });
});

// Texts of Triton 2.51.0, but for an input that is written.
describe('an ensemble that is refused', () => {
  test.each([
    ['no steps', ensemble(''), "must specify 'step' for ensemble 'e'"],
    [
      'no scheduling',
      `platform: "ensemble" ${VECTOR}`,
      'ensemble scheduling must be set for ensemble e whose platform is ensemble',
    ],
    [
      'another scheduling',
      `platform: "ensemble" ${VECTOR} dynamic_batching { }`,
      'ensemble scheduling must be set for ensemble e whose platform is ensemble',
    ],
    [
      'no platform',
      `${VECTOR} ensemble_scheduling { ${ONE} }`,
      "ensemble scheduling cannot be set for model 'e' whose platform is not ensemble",
    ],
    [
      'a backend in place of the platform',
      `backend: "python" ${VECTOR} ensemble_scheduling { ${ONE} }`,
      "ensemble scheduling cannot be set for model 'e' whose platform is not ensemble",
    ],
    [
      'a backend',
      `backend: "python" ${ensemble(ONE)}`,
      "Ensemble model 'e' must have platform type 'ensemble' and empty backend type",
    ],
    ['instances', `${ensemble(ONE)} instance_group { }`, "instance group should not be specified for ensemble 'e'"],
    ['optimization', `${ensemble(ONE)} optimization { }`, "optimization should not be specified for ensemble 'e'"],
    ['a warm-up', `${ensemble(ONE)} model_warmup { }`, "model_warmup can not be specified for ensemble 'e'"],
    [
      'no model',
      ensemble(ONE + step('', [['I', 'I']], [['O', 'x']])),
      "must specify 'model_name' in step 1 of ensemble 'e'",
    ],
    ['no inputs', ensemble(step('a', [], [['O', 'O']])), "must specify 'input_map' in step 0 of ensemble 'e'"],
    ['no outputs', ensemble(step('a', [['I', 'I']], [])), "must specify 'output_map' in step 0 of ensemble 'e'"],
    [
      'a tensor of two steps',
      ensemble(ONE + ONE),
      "ensemble tensor 'O' can appear in an output map only once for ensemble 'e' step 1",
    ],
    [
      'a tensor of two outputs',
      ensemble(
        step(
          'a',
          [['I', 'I']],
          [
            ['O', 'O'],
            ['P', 'O'],
          ],
        ),
      ),
      "ensemble tensor 'O' can appear in an output map only once for ensemble 'e' step 0",
    ],
    [
      'an input that is written',
      ensemble(ONE + step('a', [['I', 'O']], [['O', 'I']])),
      "ensemble input 'I' is also written in step 1 of ensemble 'e'; give the tensor that the step writes another name",
    ],
    ['an input unused', ensemble(ONE, VECTOR + MORE('input')), "ensemble input 'X' for ensemble e' is not used"],
    ['an output unused', ensemble(ONE, VECTOR + MORE('output')), "ensemble output 'X' for ensemble e' is not used"],
    [
      'an output that needs what nobody writes',
      ensemble(
        step(
          'a',
          [
            ['A', 'I'],
            ['B', 'z'],
          ],
          [['O', 'O']],
        ),
      ),
      "output 'O' for ensemble 'e' is not written: at least one of its depending tensors, 'z', is not connected",
    ],
    [
      'an output that is only read',
      ensemble(ONE + step('a', [['I', 'X']], [['O', 'y']]), VECTOR + MORE('output')),
      "output 'X' for ensemble 'e' is not written",
    ],
    [
      'a circle of steps',
      ensemble(ONE + step('a', [['I', 'x']], [['O', 'y']]) + step('a', [['I', 'y']], [['O', 'x']])),
      "ensemble tensor 'x' is unused in ensemble 'e'",
    ],
    [
      'a circle before an output',
      ensemble(
        step('a', [['I', 'O']], [['O', 'x']]) +
          step(
            'b',
            [
              ['I', 'x'],
              ['J', 'I'],
            ],
            [['O', 'O']],
          ),
      ),
      "output 'O' for ensemble 'e' is not written: at least one of its depending tensors, 'x', is not connected",
    ],
    [
      'a tensor that nobody takes',
      ensemble(ONE + step('a', [['I', 'I']], [['O', 'extra']])),
      "ensemble tensor 'extra' is unused in ensemble 'e'",
    ],
    [
      'no inputs of its own',
      ensemble(ONE, 'output { name: "O" data_type: TYPE_FP32 dims: 4 }'),
      "output 'O' for ensemble 'e' is not written: at least one of its depending tensors, 'I', is not connected",
    ],
    ['too many steps', ensemble(ONE.repeat(1025)), "ensemble 'e' has 1025 steps, more than 1024"],
  ])('%s', (_name, text, message) => {
    expect(refusal(text)).toBe(message);
  });
});
