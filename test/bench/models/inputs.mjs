import { LARGE_ELEMENTS } from './make.mjs';
import { MLPS, mlpReference } from './mlp.mjs';
import { randomValues } from './random.mjs';

/** Of the largest expected value: FP32 sums in another order. */
const TOLERANCE = 1e-3;

/** Of a text for MiniLM, and its vocabulary without the special tokens at its beginning. */
const TOKENS = 32;
const VOCABULARY = { first: 1_000, last: 30_000 };
const [TOKEN_BEGIN, TOKEN_END] = [101, 102];

const fp32 = (name, shape, values) => ({ name, datatype: 'FP32', shape, values });

/**
 * A tensor of a request or an answer.
 *
 * @typedef {{ name: string, datatype: 'FP32' | 'INT32' | 'INT64', shape: number[],
 *   values: Float32Array | Int32Array | BigInt64Array }} BenchTensor
 */

/**
 * The inputs of one request to a bench model, one row; another seed gives other values.
 *
 * @returns {BenchTensor[]}
 */
export function inputsOf(model, seed) {
  if (model === 'add_sub') {
    return ['INPUT0', 'INPUT1'].map((name, index) => fp32(name, [4], randomValues(2 * seed + index, 4)));
  }
  if (model === 'identity_600k') return [fp32('INPUT', [1, LARGE_ELEMENTS], randomValues(seed, LARGE_ELEMENTS))];
  if (model === 'sleep10') {
    return [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], values: Int32Array.of(seed) }];
  }
  if (model === 'minilm') return minilmInputs(seed);
  if (model === 'silero_vad') {
    // A sound in its midst: what a step hands to the next is made up.
    return Object.entries({ audio: [512], state: [2, 128], context: [64] }).map(([name, dims], index) => {
      const count = dims.reduce((size, dim) => size * dim, 1);
      return fp32(
        name,
        [1, ...dims],
        randomValues(3 * seed + index, count).map((value) => value * 0.5),
      );
    });
  }
  const [width] = MLPS[model].sizes;
  return [fp32('X', [1, width], randomValues(seed, width))];
}

function minilmInputs(seed) {
  const { first, last } = VOCABULARY;
  const ids = randomValues(seed, TOKENS).map((value) => Math.floor(first + ((value + 1) / 2) * (last - first)));
  ids[0] = TOKEN_BEGIN;
  ids[TOKENS - 1] = TOKEN_END;
  const int64 = (name, values) => ({
    name,
    datatype: 'INT64',
    shape: [1, TOKENS],
    values: BigInt64Array.from(values, BigInt),
  });
  return [
    int64('input_ids', ids),
    int64('attention_mask', Array(TOKENS).fill(1)),
    int64('token_type_ids', Array(TOKENS).fill(0)),
  ];
}

/**
 * What the model must answer, computed here; undefined for one that only onnxruntime computes.
 *
 * @param {BenchTensor[]} inputs as `inputsOf` gives them
 * @returns {BenchTensor[] | undefined}
 */
export function outputsOf(model, inputs) {
  const [first, second] = inputs;
  if (model === 'add_sub') {
    return [
      fp32(
        'OUTPUT0',
        [4],
        first.values.map((value, index) => value + second.values[index]),
      ),
      fp32(
        'OUTPUT1',
        [4],
        first.values.map((value, index) => value - second.values[index]),
      ),
    ];
  }
  if (model === 'identity_600k') return [{ ...first, name: 'OUTPUT' }];
  if (model === 'sleep10') return [first];
  if (MLPS[model] === undefined) return undefined;
  const values = mlpReference(MLPS[model], first.values);
  return [fp32('Y', [1, values.length], values)];
}

/**
 * Why values are not what a model must answer, or undefined.
 *
 * @param {BenchTensor[]} expected as `outputsOf` gives them
 * @param {Map<string, ArrayLike<number>>} found values by the tensor's name
 */
export function difference(expected, found) {
  for (const { name, values } of expected) {
    const answer = found.get(name);
    if (answer?.length !== values.length) {
      return `${name} has ${answer?.length ?? 'no'} values instead of ${values.length}`;
    }
    const largest = values.reduce((size, value) => Math.max(size, Math.abs(value)), 0);
    const at = values.findIndex((value, index) => !(Math.abs(value - answer[index]) <= TOLERANCE * largest));
    if (at >= 0) return `${name}[${at}] is ${answer[at]} instead of ${values[at]}`;
  }
  return undefined;
}
