import { describe, expect, test } from 'vitest';
import { ensembleModels, ensembleSignature } from './ensemble.ts';
import { parseModelConfig } from './parse-model-config.ts';

const TWO_STEPS = `name: "e" platform: "ensemble" ensemble_scheduling {
  step { model_name: "a" model_version: -1 input_map { key: "I" value: "in" } output_map { key: "O" value: "between" } }
  step { model_name: "a" model_version: 3 input_map { key: "I" value: "between" } output_map { key: "O" value: "out" } }
  max_inflight_requests: 4
}`;

describe('the graph of an ensemble', () => {
  test('steps with their mappings, in the order of the config', () => {
    expect(ensembleSignature(parseModelConfig(TWO_STEPS, 'c'))).toEqual({
      steps: [
        {
          model: 'a',
          version: '',
          inputs: [{ name: 'I', tensor: 'in' }],
          outputs: [{ name: 'O', tensor: 'between' }],
        },
        {
          model: 'a',
          version: '3',
          inputs: [{ name: 'I', tensor: 'between' }],
          outputs: [{ name: 'O', tensor: 'out' }],
        },
      ],
      maxInflight: 4,
    });
  });

  test('its models, each once', () => {
    expect(ensembleModels(parseModelConfig(TWO_STEPS, 'c'))).toEqual(['a']);
  });

  test('none of another model', () => {
    const config = parseModelConfig('name: "m" backend: "javascript"', 'c');
    expect(ensembleSignature(config)).toBeUndefined();
    expect(ensembleModels(config)).toEqual([]);
  });
});
