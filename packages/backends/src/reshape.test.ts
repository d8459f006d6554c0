import type { TensorSignature } from '@nereid/config';
import { clientShape, modelShape } from '@nereid/config/reshape.js';
import { bytesOf, type Tensor } from '@nereid/protocol';
import { describe, expect, it, test } from 'vitest';
import type { InstanceLoad } from './backend.ts';
import { inferRequest, runBatch, tensorsOf } from './backend-contract.ts';
import { fixtureLoad, textLoad } from './fixture-load.ts';
import { onnxruntimeBackend } from './onnx.ts';

const tensor = (dims: number[], reshape: number[] | null): TensorSignature => ({
  name: 'X',
  datatype: 'FP32',
  dims,
  reshape,
});

// Each way and back; the third was asked of Triton 2.51 with its Python backend.
describe('a shape as client and model have it', () => {
  test.each<[rule: string, TensorSignature, batching: boolean, client: number[], model: number[]]>([
    ['without a reshape', tensor([-1, 2], null), true, [4, 3, 2], [4, 3, 2]],
    ['rows stay in front', tensor([2, 2], [4]), true, [3, 2, 2], [3, 4]],
    ['variable dimensions keep their order', tensor([2, -1, 3], [1, 2, -1, 3, 1]), false, [2, 2, 3], [1, 2, 2, 3, 1]],
    ['several of them', tensor([-1, 1, -1], [-1, -1, 1]), true, [2, 5, 1, 7], [2, 5, 7, 1]],
    ['none is a scalar per row', tensor([1], []), true, [5, 1], [5]],
    ['of no elements', tensor([-1, 1], [-1]), true, [1, 0, 1], [1, 0]],
  ])('%s', (_rule, signature, batching, client, model) => {
    expect(modelShape(signature, client, batching)).toEqual(model);
    expect(clientShape(signature, model, batching)).toEqual(client);
  });
});

const fp32 = (name: string, shape: number[], values: number[]): Tensor => ({
  name,
  datatype: 'FP32',
  shape,
  data: bytesOf(Float32Array.from(values)),
});
const floats = (data: Uint8Array | undefined) => [...new Float32Array(Uint8Array.from(data ?? []).buffer)];

async function run(fixture: string, inputs: readonly Tensor[][], adapt = (load: InstanceLoad) => load) {
  const instance = await onnxruntimeBackend.load(adapt(await fixtureLoad(fixture)));
  try {
    return (
      await runBatch(
        instance,
        inputs.map((tensors) => inferRequest(tensors)),
      )
    ).map(tensorsOf);
  } finally {
    await instance.finalize();
  }
}

describe('a reshape of an ONNX model', () => {
  it('with variable dimensions, of several requests', async () => {
    const answers = await run('turned', [
      [fp32('INPUT', [1, 1, 3, 2, 1], [1, 2, 3, 4, 5, 6])],
      [fp32('INPUT', [2, 1, 3, 2, 1], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])],
    ]);
    expect(answers.map(([output]) => [output?.shape, floats(output?.data)])).toEqual([
      [
        [1, 1, 2, 3],
        [1, 3, 5, 2, 4, 6],
      ],
      [
        [2, 1, 2, 3],
        [1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12],
      ],
    ]);
    const seen = answers.map(([, shape]) => [...new BigInt64Array(Uint8Array.from(shape?.data ?? []).buffer)]);
    expect(seen).toEqual([
      [3n, 3n, 2n],
      [3n, 3n, 2n, 3n, 3n, 2n],
    ]);
  });

  it("gives a graph's scalars the dims of the config, both ways", async () => {
    const [[output] = []] = await run('scalar', [[fp32('INPUT', [1], [21])]]);
    expect([output?.shape, floats(output?.data)]).toEqual([[1], [42]]);
  });

  it('leaves a scalar one where the dims of the config are not its own', async () => {
    const variable = ({ modelDirectory }: InstanceLoad) =>
      textLoad(
        modelDirectory,
        `name: "scalar" backend: "onnxruntime" input { name: "INPUT" data_type: TYPE_FP32 dims: 1 }
        output { name: "OUTPUT" data_type: TYPE_FP32 dims: -1 }`,
      );
    const [[output] = []] = await run('scalar', [[fp32('INPUT', [1], [21])]], variable);
    expect([output?.shape, floats(output?.data)]).toEqual([[], [42]]);
  });
});
