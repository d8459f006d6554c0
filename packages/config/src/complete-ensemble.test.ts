import { describe, expect, test } from 'vitest';
import { completeEnsemble } from './complete-ensemble.ts';
import { ensembleConfig, knownModels, modelConfig, recordOf, step, throughStep, VECTOR } from './fixture-ensemble.ts';
import { FIXTURES } from './fixture-models.ts';
import { modelConfigJson } from './model-config-json.ts';
import { readModel } from './read-model.ts';

const plain = modelConfig('plain', `backend: "javascript" ${VECTOR}`);
const stream = modelConfig('stream', `backend: "javascript" ${VECTOR} model_transaction_policy { decoupled: true }`);
const MODELS = [recordOf(plain), recordOf(stream), recordOf(ensembleConfig('streams', throughStep('stream')))];

describe('whether it gives many answers', () => {
  const decoupled = (steps: string, rest = '') => {
    const { config } = completeEnsemble(
      { config: ensembleConfig('e', steps, VECTOR + rest), labels: {} },
      knownModels(...MODELS),
    );
    return config.modelTransactionPolicy?.decoupled;
  };

  test.each([
    ['no step does', throughStep('plain'), '', false],
    ['a step does', throughStep('stream'), '', true],
    ['an ensemble among its steps does', throughStep('streams'), '', true],
    [
      'an earlier step does',
      step('stream', [['I', 'I']], [['O', 'x']]) + step('plain', [['I', 'x']], [['O', 'O']]),
      '',
      true,
    ],
    ['it says so and no step does', throughStep('plain'), 'model_transaction_policy { decoupled: true }', false],
  ])('%s', (_name, steps, rest, expected) => {
    expect(decoupled(steps, rest)).toBe(expected);
  });
});

describe('labels', () => {
  const LABELLED = VECTOR.replace('output {', 'output { label_filename: "own.txt"');
  const cats = recordOf(plain, { labels: { O: ['cat', 'dog'] } });
  const labelsOf = (steps: string, tensors: string, labels = {}) =>
    completeEnsemble({ config: ensembleConfig('e', steps, tensors), labels }, knownModels(cats, recordOf(stream)))
      .labels;

  test('those of the output that it comes from', () => {
    expect(labelsOf(throughStep('plain'), VECTOR)).toEqual({ O: ['cat', 'dog'] });
  });

  test('its own before those', () => {
    expect(labelsOf(throughStep('plain'), LABELLED, { O: ['own'] })).toEqual({ O: ['own'] });
  });

  test('not those of an earlier step', () => {
    const steps = step('plain', [['I', 'I']], [['O', 'x']]) + step('stream', [['I', 'x']], [['O', 'O']]);
    expect(labelsOf(steps, VECTOR)).toEqual({});
  });

  test('those inherited earlier go with the step that had them', () => {
    expect(labelsOf(throughStep('stream'), VECTOR, { O: ['cat', 'dog'] })).toEqual({});
  });

  test('none by the names of what any object has', () => {
    const tensors = VECTOR.replace('"O"', '"constructor"');
    expect(labelsOf(step('plain', [['I', 'I']], [['O', 'constructor']]), tensors)).toEqual({
      constructor: ['cat', 'dog'],
    });
    const source = VECTOR.replace('"O"', '"toString"');
    const odd = recordOf(modelConfig('odd', `backend: "javascript" ${source}`));
    const config = ensembleConfig('e', step('odd', [['I', 'I']], [['toString', 'O']]));
    expect(completeEnsemble({ config, labels: {} }, knownModels(odd)).labels).toEqual({});
  });
});

test('another model is left as it is', () => {
  const labels = { O: ['x'] };
  expect(completeEnsemble({ config: stream, labels }, knownModels(...MODELS))).toEqual({ config: stream, labels });
});

test('the printed form of the recorded case', async () => {
  const read = async (name: string) => {
    const directory = `${FIXTURES}/${name}`;
    return (await readModel({ name, directory }, { autoComplete: true, gpus: 0 })).config;
  };
  const config = await read('ensemble_double');
  const completed = completeEnsemble({ config, labels: {} }, knownModels(recordOf(await read('simple'))));
  expect(JSON.parse(modelConfigJson(completed.config))).toMatchObject({
    name: 'ensemble_double',
    platform: 'ensemble',
    backend: '',
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: 8,
    instance_group: [],
    default_model_filename: '',
    model_warmup: [],
    model_transaction_policy: { decoupled: false },
  });
  expect(JSON.parse(modelConfigJson(completed.config))).not.toHaveProperty('optimization');
});
