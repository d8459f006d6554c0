import { FLOAT, onnxModel, onnxNode, onnxTensor, onnxValue } from '../../../deploy/setup/onnx-parts.mjs';
import { randomValues } from './random.mjs';

/** Layer sizes, from the input's to the output's, and the seed of the weights. */
export const MLPS = {
  mlp: { sizes: [784, 512, 512, 10], seed: 1 },
  mlp_1024x8: { sizes: Array(9).fill(1024), seed: 2 },
};

/** Of layer `index`: `weights` is [in, out], row-major, scaled so that values neither grow nor vanish with depth. */
export function mlpLayer({ sizes, seed }, index) {
  const [from, to] = [sizes[index], sizes[index + 1]];
  const scale = Math.sqrt(6 / from);
  const weights = randomValues(seed * 1000 + 2 * index, from * to).map((value) => value * scale);
  const bias = randomValues(seed * 1000 + 2 * index + 1, to).map((value) => value * 0.1);
  return { from, to, weights, bias };
}

/**
 * An ONNX file: X FP32 [batch, first size] through Gemm layers with Relu between them to Y FP32 [batch, last size].
 * The weights are made up.
 */
export function mlpModel(name, shape) {
  const { sizes } = shape;
  const nodes = [];
  const initializers = [];
  const last = sizes.length - 2;
  for (let index = 0; index <= last; index += 1) {
    const { from, to, weights, bias } = mlpLayer(shape, index);
    initializers.push(onnxTensor(`W${index}`, [from, to], weights), onnxTensor(`B${index}`, [to], bias));
    const input = index === 0 ? 'X' : `H${index}`;
    if (index === last) nodes.push(onnxNode('Gemm', [input, `W${index}`, `B${index}`], ['Y']));
    else {
      nodes.push(onnxNode('Gemm', [input, `W${index}`, `B${index}`], [`G${index}`]));
      nodes.push(onnxNode('Relu', [`G${index}`], [`H${index + 1}`]));
    }
  }
  return onnxModel({
    name,
    nodes,
    initializers,
    inputs: [onnxValue('X', FLOAT, ['batch', sizes[0]])],
    outputs: [onnxValue('Y', FLOAT, ['batch', sizes.at(-1)])],
  });
}

/** What the model must answer to one row, computed by hand. */
export function mlpReference(shape, row) {
  let values = Float64Array.from(row);
  const last = shape.sizes.length - 2;
  for (let index = 0; index <= last; index += 1) {
    const { from, to, weights, bias } = mlpLayer(shape, index);
    const sums = Float64Array.from(bias);
    for (let input = 0; input < from; input += 1) {
      for (let output = 0; output < to; output += 1) sums[output] += values[input] * weights[input * to + output];
    }
    values = index === last ? sums : sums.map((value) => Math.max(0, value));
  }
  return Float32Array.from(values);
}
