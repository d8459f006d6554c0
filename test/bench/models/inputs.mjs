import { LARGE_ELEMENTS } from './make.mjs';
import { MLPS, mlpReference } from './mlp.mjs';
import { randomValues } from './random.mjs';

/** Of the largest expected value: FP32 sums in another order. */
const TOLERANCE = 1e-3;

const fp32 = (name, shape, values) => ({ name, datatype: 'FP32', shape, values });

/**
 * A tensor of a request or an answer.
 *
 * @typedef {{ name: string, datatype: 'FP32' | 'INT32', shape: number[], values: Float32Array | Int32Array }} BenchTensor
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
  const [width] = MLPS[model].sizes;
  return [fp32('X', [1, width], randomValues(seed, width))];
}

/**
 * What the model must answer, computed here.
 *
 * @param {BenchTensor[]} inputs as `inputsOf` gives them
 * @returns {BenchTensor[]}
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
