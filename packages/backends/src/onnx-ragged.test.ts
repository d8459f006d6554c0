import { readFile } from 'node:fs/promises';
import { bytesElements, bytesOf, encodeBytesElements } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import type { BatchResult, JoinedTensor } from './backend.ts';
import { fixtureLoad, textLoad } from './fixture-load.ts';
import { onnxruntimeBackend } from './onnx.ts';

type Shapes = readonly (readonly number[])[];

const elements = (shapes: Shapes) =>
  shapes.reduce((sum, shape) => sum + shape.reduce((product, dim) => product * dim, 1), 0);

/** FP32 elements that count from 1 over all requests. */
function counting(name: string, shapes: Shapes): JoinedTensor {
  const values = Float32Array.from({ length: elements(shapes) }, (_, index) => index + 1);
  return { name, datatype: 'FP32', shape: [values.length], shapes, data: bytesOf(values) };
}

async function run(
  fixture: string,
  joined: readonly JoinedTensor[],
  shapes: Shapes,
  config = '',
): Promise<readonly JoinedTensor[]> {
  const instance = await onnxruntimeBackend.load(await fixtureLoad(fixture, config));
  try {
    const rows = shapes.map(([count = 1]) => count);
    const result: BatchResult = await instance.execute({ requests: [], rows, joined, wantedOutputs: [] });
    if (result.kind !== 'joined') throw new Error('not joined');
    return result.outputs.map((output) => ({ ...output, data: output.data.slice() }));
  } finally {
    await instance.finalize();
  }
}

const output = (outputs: readonly JoinedTensor[], name: string) => {
  const found = outputs.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no output ${name}`);
  return found;
};
const floats = ({ data }: JoinedTensor) => [...new Float32Array(Uint8Array.from(data).buffer)];
const ints = ({ data }: JoinedTensor) => [...new Int32Array(Uint8Array.from(data).buffer)];

describe('onnxruntime: ragged batches', () => {
  it('feeds the elements of all requests as one run, and every kind of batch input', async () => {
    const shapes = [
      [1, 3],
      [1, 4],
      [1, 5],
    ];
    const outputs = await run('ragged', [counting('VALUES', shapes)], shapes);
    const all = [3, 4, 5, 3, 7, 12, 0, 3, 7, 12, 5, 3, 1, 3, 4, 5, 3, 4, 5];
    expect(output(outputs, 'SEEN').shape).toEqual([3, all.length]);
    expect(ints(output(outputs, 'SEEN'))).toEqual([...all, ...all, ...all]);
    expect(output(outputs, 'DOUBLED')).toMatchObject({ shape: [12], shapes });
    expect(floats(output(outputs, 'DOUBLED'))).toEqual(Array.from({ length: 12 }, (_, index) => 2 * (index + 1)));
  });

  it('counts the elements of a request with several rows as one', async () => {
    const shapes = [
      [2, 3],
      [1, 4],
    ];
    const outputs = await run('ragged', [counting('VALUES', shapes)], shapes);
    const all = [6, 4, 6, 10, 0, 6, 10, 6, 3, 1, 3, 3, 4, 3, 3, 4];
    expect(ints(output(outputs, 'SEEN'))).toEqual([...all, ...all, ...all]);
    expect(output(outputs, 'DOUBLED').shapes).toEqual(shapes);
  });

  it('flattens a single request too', async () => {
    const outputs = await run('ragged', [counting('VALUES', [[1, 2]])], [[1, 2]]);
    expect(ints(output(outputs, 'SEEN'))).toEqual([2, 2, 0, 2, 2, 1, 1, 2, 2]);
  });

  it('gives each request its sum (the example of docs/batching.md)', async () => {
    const shapes = [
      [1, 3],
      [1, 4],
      [1, 5],
    ];
    const sums = output(await run('ragged_sums', [counting('INPUT', shapes)], shapes), 'SUM');
    expect([sums.shape, sums.shapes, floats(sums)]).toEqual([[3, 1], undefined, [6, 22, 50]]);
  });

  it('takes text', async () => {
    const shapes = [
      [1, 2, 1],
      [1, 1, 3],
    ];
    const texts = ['a', 'bc', '', 'naïve', 'e'];
    const joined: JoinedTensor = {
      name: 'INPUT',
      datatype: 'BYTES',
      shape: [5],
      shapes,
      data: encodeBytesElements(texts),
    };
    const [given] = await run('ragged_text', [joined], shapes);
    if (given === undefined) throw new Error('no output');
    expect(given.shapes).toEqual(shapes);
    expect(bytesElements(given.data, 'OUTPUT').map((element) => Buffer.from(element).toString())).toEqual(texts);
  });

  it('works without rows', async () => {
    const base = await fixtureLoad('ragged_sums');
    const load = textLoad(
      base.modelDirectory,
      `name: "ragged_sums" backend: "onnxruntime"
      input { name: "INPUT" data_type: TYPE_FP32 dims: [ -1, 2 ] allow_ragged_batch: true }
      output { name: "SUM" data_type: TYPE_FP32 dims: [ -1, 1 ] }
      batch_input { target_name: "INDEX" data_type: TYPE_FP32 source_input: "INPUT" }`,
    );
    const instance = await onnxruntimeBackend.load(load);
    try {
      const joined = [counting('INPUT', [[2, 2]])];
      const result = await instance.execute({ requests: [], rows: [1], joined, wantedOutputs: [] });
      if (result.kind !== 'joined') throw new Error('not joined');
      expect(floats(output(result.outputs, 'SUM'))).toEqual([10]);
    } finally {
      await instance.finalize();
    }
  });

  it('refuses a batch input whose source is left out, by name', async () => {
    await expect(run('ragged', [], [[1]])).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: "model 'ragged' takes 'COUNTS', which is made of input 'VALUES': that must be given",
    });
  });

  it('refuses a batch output whose source is left out, by name', async () => {
    const data = bytesOf(Int32Array.of(1, 2, 3, 4));
    const given: JoinedTensor = { name: 'INPUT0', datatype: 'INT32', shape: [4], data };
    const config = 'batch_output { target_name: "OUTPUT" source_input: "INPUT1" }';
    await expect(run('optional_inputs', [given], [[1]], config)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: "output 'OUTPUT' of model 'optional_inputs' has the shape of input 'INPUT1': that must be given",
    });
  });

  it.each([
    [
      'a batch input that the graph has not',
      /target_name: "ENDS"/,
      'target_name: "ENDING"',
      "unexpected inference input 'ENDING'",
    ],
    [
      'a batch input of another datatype',
      /("COUNTS", data_type: )TYPE_INT32/,
      '$1TYPE_FP32',
      "datatype TYPE_FP32 for input 'COUNTS', model provides TYPE_INT32",
    ],
    [
      'a batch input too few',
      / {2}\{ kind: BATCH_ITEM_SHAPE,.*\n/,
      '',
      'configuration expects 6 inputs, model provides 7',
    ],
  ])('refuses a config with %s', async (_rule, from, to, message) => {
    const text = await readFile(new URL('../fixtures/ragged/config.pbtxt', import.meta.url), 'utf8');
    const load = textLoad((await fixtureLoad('ragged')).modelDirectory, text.replace(from, to));
    await expect(onnxruntimeBackend.load(load)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining(message),
    });
  });

  it('refuses a ragged input with rows in the graph', async () => {
    const text = await readFile(new URL('../fixtures/identity_batched_bytes/config.pbtxt', import.meta.url), 'utf8');
    const ragged = text.replace('dims: [ -1 ]', 'dims: [ -1 ], allow_ragged_batch: true');
    const load = textLoad((await fixtureLoad('identity_batched_bytes')).modelDirectory, ragged);
    await expect(onnxruntimeBackend.load(load)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining(
        "provides input with shape [-1] for ragged input 'INPUT', model provides [-1,-1]",
      ),
    });
  });
});
