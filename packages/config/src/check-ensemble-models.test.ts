import { describe, expect, test } from 'vitest';
import { checkEnsembleModels } from './check-ensemble-models.ts';
import { ensembleConfig, knownModels, modelConfig, recordOf, step, throughStep, VECTOR } from './fixture-ensemble.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { parseModelConfig } from './parse-model-config.ts';

const io = (name: string, rest = '') => `{ name: "${name}" data_type: TYPE_FP32 dims: 4 ${rest} } `;
const TWO = `input ${io('A')} input ${io('B')} output ${io('O')} output ${io('P')}`;
const DECOUPLED = 'model_transaction_policy { decoupled: true } ';
const model = (name: string, text: string) => modelConfig(name, `backend: "javascript" ${text}`);

const MODELS = [
  model('plain', VECTOR),
  model('batch2', `${VECTOR} max_batch_size: 2`),
  model('batch8', `${VECTOR} max_batch_size: 8`),
  model(
    'rows',
    'input { name: "I" data_type: TYPE_FP32 dims: [ -1, 4 ] } output { name: "O" data_type: TYPE_FP32 dims: [ -1, 4 ] }',
  ),
  model('two', TWO),
  model('optional', `input ${io('A')} input ${io('B', 'optional: true')} output ${io('O')}`),
  model('stream', VECTOR + DECOUPLED),
  model('reshaped', `max_batch_size: 8 input ${io('I', 'reshape { shape: [ 2, 2 ] }')} output ${io('O')}`),
  ensembleConfig('inner', throughStep('plain')),
  ensembleConfig('streams', throughStep('stream')),
  ensembleConfig('wrong', throughStep('two')),
  ensembleConfig('ca', throughStep('cb')),
  ensembleConfig('cb', throughStep('cc')),
  ensembleConfig('cc', throughStep('ca')),
];

function problem(config: ModelConfig, models: readonly ModelConfig[] = MODELS): string | undefined {
  return checkEnsembleModels(config, knownModels(...models.map((each) => recordOf(each))));
}
const ensemble = (steps: string, tensors = VECTOR) => problem(ensembleConfig('e', steps, tensors));
const batches = (size: number, tensors = VECTOR) => `max_batch_size: ${size} ${tensors}`;

describe('fits its models', () => {
  test.each([
    ['one step', throughStep('plain'), VECTOR],
    [
      'a variable dimension',
      throughStep('plain'),
      'input { name: "I" data_type: TYPE_FP32 dims: -1 } output { name: "O" data_type: TYPE_FP32 dims: -1 }',
    ],
    ['an optional input left out', step('optional', [['A', 'I']], [['O', 'O']]), VECTOR],
    [
      'an optional input',
      step(
        'optional',
        [
          ['A', 'I'],
          ['B', 'X'],
        ],
        [['O', 'O']],
      ),
      `${VECTOR} input ${io('X', 'optional: true')}`,
    ],
    ['batches as large', throughStep('batch8'), batches(8)],
    ['smaller batches', throughStep('batch8'), batches(2)],
    ['no batches of a model that has them', throughStep('batch8'), VECTOR],
    [
      'a model without batches that takes rows',
      step('batch8', [['I', 'I']], [['O', 'x']]) + step('rows', [['I', 'x']], [['O', 'O']]),
      batches(8),
    ],
    [
      'the same shape without rows',
      step('batch8', [['I', 'I']], [['O', 'x']]) + step('plain', [['I', 'x']], [['O', 'O']]),
      batches(8),
    ],
    ['a reshape of a model', throughStep('reshaped'), batches(8)],
    [
      'a reshape of its own',
      throughStep('batch8'),
      batches(
        8,
        'input { name: "I" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: 4 } } output { name: "O" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: 4 } }',
      ),
    ],
    ['an ensemble', throughStep('inner'), VECTOR],
    ['many answers', throughStep('stream'), VECTOR],
    [
      'a stream taken apart and joined',
      step('stream', [['I', 'I']], [['O', 'x']]) +
        step('plain', [['I', 'x']], [['O', 'y']]) +
        step(
          'two',
          [
            ['A', 'x'],
            ['B', 'y'],
          ],
          [['O', 'O']],
        ),
      VECTOR,
    ],
  ])('%s', (_name, steps, tensors) => {
    expect(ensemble(steps, tensors)).toBeUndefined();
  });
});

// Texts of Triton 2.51.0, but that a join names the model of the step.
describe('does not fit its models', () => {
  const joins = (name: string) =>
    `in ensemble e, step of model '${name}' receives inputs originated from different decoupled models`;
  test.each([
    [
      'unknown models',
      step('nope', [['I', 'I']], [['O', 'x']]) + throughStep('gone').replaceAll('"I" }', '"x" }'),
      VECTOR,
      'ensemble e contains models that are not available or ambiguous: nope, gone',
    ],
    [
      'a datatype',
      throughStep('plain'),
      VECTOR.replaceAll('FP32', 'INT32'),
      'in ensemble e, ensemble tensor I: inconsistent data type: TYPE_INT32 is inferred from model e while TYPE_FP32 is inferred from model plain',
    ],
    [
      'a shape',
      throughStep('plain'),
      VECTOR.replaceAll('4', '5'),
      'in ensemble e, ensemble tensor I: inconsistent shape: [5] is inferred from model e while [4] is inferred from model plain',
    ],
    [
      'a shape with rows',
      throughStep('batch8'),
      batches(8, VECTOR.replaceAll('4', '5')),
      'in ensemble e, ensemble tensor I: inconsistent shape: [-1,5] is inferred from model e while [-1,4] is inferred from model batch8',
    ],
    [
      "an output's shape",
      throughStep('plain'),
      `input ${io('I')} output { name: "O" data_type: TYPE_FP32 dims: [ 4, 1 ] }`,
      'in ensemble e, ensemble tensor O: inconsistent shape: [4,1] is inferred from model e while [4] is inferred from model plain',
    ],
    [
      'an input unmapped',
      step('two', [['A', 'I']], [['O', 'O']]),
      VECTOR,
      'in ensemble e, input B in model two is not mapped to any ensemble tensors',
    ],
    [
      'an input that is none',
      step(
        'plain',
        [
          ['I', 'I'],
          ['Q', 'I'],
        ],
        [['O', 'O']],
      ),
      VECTOR,
      'in ensemble e, ensemble tensor I is mapping to non-existing input Q in model plain',
    ],
    [
      'an output that is none',
      step('plain', [['I', 'I']], [['Q', 'O']]),
      VECTOR,
      'in ensemble e, ensemble tensor O is mapped from non-existing output Q in model plain',
    ],
    [
      'batches',
      throughStep('batch2'),
      batches(8),
      'ensemble e allows maximum batch size 8, but it contains model batch2 which only allows maximum batch size to be 2',
    ],
    ['itself', throughStep('e'), VECTOR, 'circular dependency between ensembles: e -> ... -> e -> e'],
    [
      'a circle that it leads into',
      throughStep('ca'),
      VECTOR,
      "ensemble 'e' depends on 'ca' which is not valid. Model 'ca' failed with error: circular dependency between ensembles: ca -> ... -> cc -> ca",
    ],
    [
      'an ensemble that does not fit',
      throughStep('wrong'),
      VECTOR,
      "ensemble 'e' depends on 'wrong' which is not valid. Model 'wrong' failed with error: in ensemble wrong, ensemble tensor I is mapping to non-existing input I in model two",
    ],
    [
      'a join of two streams',
      step('stream', [['I', 'I']], [['O', 'a']]) +
        step('stream', [['I', 'I']], [['O', 'b']]) +
        step(
          'two',
          [
            ['A', 'a'],
            ['B', 'b'],
          ],
          [['O', 'O']],
        ),
      VECTOR,
      joins('two'),
    ],
    [
      'a join of a stream and an input',
      step('stream', [['I', 'I']], [['O', 'a']]) +
        step(
          'two',
          [
            ['A', 'a'],
            ['B', 'I'],
          ],
          [['O', 'O']],
        ),
      VECTOR,
      joins('two'),
    ],
    [
      "a join of an ensemble's stream",
      step('streams', [['I', 'I']], [['O', 'a']]) +
        step(
          'two',
          [
            ['A', 'a'],
            ['B', 'I'],
          ],
          [['O', 'O']],
        ),
      VECTOR,
      joins('two'),
    ],
    [
      'outputs of a stream and of one answer',
      throughStep('stream') + step('plain', [['I', 'I']], [['O', 'P']]),
      `${VECTOR} output ${io('P')}`,
      joins('e'),
    ],
    [
      'a cache of a stream',
      throughStep('stream'),
      `${VECTOR} response_cache { enable: true }`,
      "Response Cache does not currently support model e with 'decoupled' transaction policy. Please disable the response cache.",
    ],
  ])('%s', (_name, steps, tensors, text) => {
    expect(ensemble(steps, tensors)).toBe(text);
  });

  test('a circle is told of each ensemble in it', () => {
    const find = knownModels(...MODELS.map((each) => recordOf(each)));
    const [ca, cb, cc] = ['ca', 'cb', 'cc'].map((name) => {
      const config = find(name)?.config;
      return config && checkEnsembleModels(config, find);
    });
    expect(ca).toBe('circular dependency between ensembles: ca -> ... -> cc -> ca');
    expect(cb).toBe('circular dependency between ensembles: cb -> ... -> ca -> cb');
    expect(cc).toBe('circular dependency between ensembles: cc -> ... -> cb -> cc');
  });

  test('a model of whose files nothing could be read', () => {
    const unread = recordOf(parseModelConfig('name: "unread"', 'config.pbtxt'));
    const text = checkEnsembleModels(ensembleConfig('e', throughStep('unread')), knownModels(unread));
    expect(text).toBe('ensemble e contains models that are not available or ambiguous: unread');
  });

  test('the greatest depth', () => {
    const nested = (depth: number) => [
      ...MODELS,
      ...Array.from({ length: depth }, (_, index) =>
        ensembleConfig(`n${index + 1}`, throughStep(index === 0 ? 'plain' : `n${index}`)),
      ),
    ];
    expect(problem(ensembleConfig('e', throughStep('n63')), nested(63))).toBeUndefined();
    expect(problem(ensembleConfig('e', throughStep('n64')), nested(64))).toBe(
      'ensembles must not be nested more than 64 deep',
    );
  });
});
