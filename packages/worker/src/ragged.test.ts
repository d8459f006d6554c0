import { bytesElements, type Tensor } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import {
  bytes,
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const fp32 = (name: string, shape: readonly number[], values: readonly number[]): Tensor => ({
  name,
  datatype: 'FP32',
  shape,
  data: new Uint8Array(Float32Array.from(values).buffer),
});
const values = (...numbers: number[]) => request([fp32('VALUES', [1, numbers.length], numbers)]);
const floats = (tensor: Tensor | undefined) => [...new Float32Array(Uint8Array.from(tensor?.data ?? []).buffer)];
const texts = (tensor: Tensor | undefined) =>
  bytesElements(tensor?.data ?? new Uint8Array(), 'OUTPUT').map((element) => Buffer.from(element).toString());

describe('a ragged batch of an ONNX model', () => {
  it('is one execution; each request gets its own part of a batch output and its rows of others', async () => {
    harness.fixture('ragged');
    await harness.load('ragged');
    const batch = [values(1, 2, 3), values(4, 5, 6, 7), values(8, 9, 10, 11, 12)];
    const { outcomes, done } = await harness.execute('ragged', batch);
    expect(executedOf(done)).toEqual([true, 'ok', 'ok', 'ok']);
    const answers = outcomes.map((outcome) => responseOf(outcome).outputs);
    expect(answers.map(([doubled]) => [doubled?.shape, floats(doubled)])).toEqual([
      [
        [1, 3],
        [2, 4, 6],
      ],
      [
        [1, 4],
        [8, 10, 12, 14],
      ],
      [
        [1, 5],
        [16, 18, 20, 22, 24],
      ],
    ]);
    for (const [, seen] of answers) {
      expect(seen?.shape).toEqual([1, 19]);
      expect(int32Values(seen)).toEqual([3, 4, 5, 3, 7, 12, 0, 3, 7, 12, 5, 3, 1, 3, 4, 5, 3, 4, 5]);
    }
  });

  it('may be of one request, and of requests with several rows', async () => {
    harness.fixture('ragged');
    await harness.load('ragged');
    const alone = await harness.execute('ragged', [values(1, 2)]);
    expect(responseOf(alone.outcomes[0]).outputs[0]).toMatchObject({ shape: [1, 2] });
    expect(floats(responseOf(alone.outcomes[0]).outputs[0])).toEqual([2, 4]);

    const rows = request([fp32('VALUES', [2, 2], [1, 2, 3, 4])]);
    const mixed = (await harness.execute('ragged', [values(9), rows])).outcomes.map(responseOf);
    expect(mixed.map(({ outputs: [doubled, seen] }) => [doubled?.shape, floats(doubled), seen?.shape])).toEqual([
      [[1, 1], [18], [1, 16]],
      [
        [2, 2],
        [2, 4, 6, 8],
        [2, 16],
      ],
    ]);
    expect(int32Values(mixed[0]?.outputs[1])).toEqual([1, 4, 1, 5, 0, 1, 5, 4, 3, 1, 1, 2, 2, 1, 2, 2]);
  });

  it('may have requests without elements', async () => {
    harness.fixture('ragged');
    await harness.load('ragged');
    const { outcomes } = await harness.execute('ragged', [values(), values(1)]);
    expect(outcomes.map((outcome) => responseOf(outcome).outputs[0]?.shape)).toEqual([
      [1, 0],
      [1, 1],
    ]);
  });

  it('that fails is tried request by request, and only the guilty fails', async () => {
    harness.fixture('ragged_text');
    await harness.load('ragged_text');
    const text = (shape: readonly number[], ...elements: string[]) =>
      request([
        bytes(
          'INPUT',
          shape,
          elements.map((element) => Buffer.from(element)),
        ),
      ]);
    const batch = [text([1, 1, 2], 'a', 'bc'), text([1, 1, 1], 'no\0'), text([1, 2, 2], 'd', '', 'e', 'fgh')];
    const { outcomes, done } = await harness.execute('ragged_text', batch);
    expect(executedOf(done)).toEqual([true, 'ok', 'error', 'ok']);
    expect(errorOf(outcomes[1])).toMatchObject({ code: 'INVALID_ARG', message: expect.stringContaining('NUL') });
    const given = [outcomes[0], outcomes[2]].map((outcome) => responseOf(outcome).outputs[0]);
    expect(given.map((output) => [output?.shape, texts(output)])).toEqual([
      [
        [1, 1, 2],
        ['a', 'bc'],
      ],
      [
        [1, 2, 2],
        ['d', '', 'e', 'fgh'],
      ],
    ]);
  });
});

describe('a ragged batch of a JavaScript model', () => {
  // R is ragged; Y is the model's own view of it and of the batch inputs.
  const CONFIG = `max_batch_size: 8
    input { name: "R" data_type: TYPE_INT32 dims: [ -1, -1 ] allow_ragged_batch: true }
    batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ENDS" data_type: TYPE_INT32 source_input: "R" }`;
  const SOURCE = `export const execute = (requests, batchInputs) => requests.map(({ inputs }) => {
    const R = inputs.get('R');
    const data = Int32Array.from([requests.length, ...R.shape, ...R.data, -1, ...batchInputs.get('ENDS').data]);
    return { outputs: { Y: { datatype: 'INT32', shape: [R.shape[0], data.length / R.shape[0]], data } } };
  });`;
  const ask = (shape: readonly number[], ...numbers: number[]) =>
    request([int32('X', [1, 1], [0]), int32('R', shape, numbers)]);

  it('is of one request where nothing is batched, whose other inputs are whole', async () => {
    const source = `export const execute = ([{ inputs }], batchInputs) => {
      const data = Int32Array.from([...inputs.get('X').shape, ...inputs.get('R').shape, ...batchInputs.get('ENDS').data]);
      return [{ outputs: { Y: { datatype: 'INT32', shape: [data.length], data } } }];
    };`;
    await harness.javascript('m', source, CONFIG.replace('max_batch_size: 8', ''));
    await harness.load('m');
    const inputs = [int32('X', [3], [1, 2, 3]), int32('R', [2, 2], [4, 5, 6, 7])];
    const { outcomes } = await harness.execute('m', [request(inputs)]);
    expect(int32Values(responseOf(outcomes[0]).outputs[0])).toEqual([3, 2, 2, 4]);
  });

  it('may be of requests that leave a ragged input out', async () => {
    const source = `export const execute = (requests, batchInputs) => requests.map(({ inputs }) => {
      const data = Int32Array.of(requests.length, inputs.size, batchInputs.size);
      return { outputs: { Y: { datatype: 'INT32', shape: [1, 3], data } } };
    });`;
    await harness.javascript('m', source, CONFIG.replace('allow_ragged_batch', 'optional: true allow_ragged_batch'));
    await harness.load('m');
    const x = () => request([int32('X', [1, 1], [0])]);
    const { outcomes } = await harness.execute('m', [x(), x()]);
    expect(outcomes.map((outcome) => int32Values(responseOf(outcome).outputs[0]))).toEqual([
      [2, 1, 0],
      [2, 1, 0],
    ]);
  });

  it('shows each request with its own shape, and the batch inputs beside them', async () => {
    await harness.javascript('m', SOURCE, CONFIG);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [ask([1, 1, 2], 7, 8), ask([1, 3, 1], 4, 5, 6)]);
    expect(outcomes.map((outcome) => int32Values(responseOf(outcome).outputs[0]))).toEqual([
      [2, 1, 1, 2, 7, 8, -1, 2, 5],
      [2, 1, 3, 1, 4, 5, 6, -1, 2, 5],
    ]);
    const alone = await harness.execute('m', [ask([1, 2, 1], 7, 8)]);
    expect(int32Values(responseOf(alone.outcomes[0]).outputs[0])).toEqual([1, 1, 2, 1, 7, 8, -1, 2]);
  });
});
