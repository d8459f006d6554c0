import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bytesOf, type Datatype, encodeBytesElements, type Tensor } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import type { BackendInstance } from './backend.ts';
import { describeBackendContract, inferRequest, int32Tensor, runBatch, tensorsOf } from './backend-contract.ts';
import { fixtureLoad } from './fixture-load.ts';
import { onnxruntimeBackend } from './onnx.ts';
import { feedOf } from './onnx-tensors.ts';

describeBackendContract({
  backend: onnxruntimeBackend,
  simple: () => fixtureLoad('simple'),
  bytes: () => fixtureLoad('identity_batched_bytes'),
  failing: () => fixtureLoad('fail_execute'),
});

async function withModel<T>(name: string, use: (instance: BackendInstance) => Promise<T>, config = ''): Promise<T> {
  const instance = await onnxruntimeBackend.load(await fixtureLoad(name, config));
  try {
    return await use(instance);
  } finally {
    await instance.finalize();
  }
}

const tensor = (name: string, datatype: Datatype, shape: number[], array: ArrayBufferView): Tensor => ({
  name,
  datatype,
  shape,
  data: bytesOf(array),
});

describe('onnxruntime: execution', () => {
  it('gives FP16 back bit by bit (-0, infinity, NaN, smallest subnormal)', async () => {
    const bits = Uint16Array.of(0x8000, 0x7c00, 0x7e01, 0x0001);
    const outcome = await withModel('identity_fp16', (model) =>
      runBatch(model, [inferRequest([tensor('INPUT', 'FP16', [4], bits)])]),
    );
    expect(Buffer.from(tensorsOf(outcome[0])[0]?.data ?? [])).toEqual(Buffer.from(bytesOf(bits)));
  });

  it('takes misaligned data and BOOL bytes', async () => {
    const whole = Uint8Array.of(0, 1, 0, 1);
    const [bool] = await withModel('identity_bool', (model) =>
      runBatch(model, [inferRequest([{ name: 'INPUT', datatype: 'BOOL', shape: [3], data: whole.subarray(1) }])]),
    );
    expect([...(tensorsOf(bool)[0]?.data ?? [])]).toEqual([1, 0, 1]);

    const buffer = new Uint8Array(1 + 16);
    new DataView(buffer.buffer).setFloat32(1, 2.5, true);
    const x = { name: 'INPUT0', datatype: 'FP32' as const, shape: [4], data: buffer.subarray(1) };
    const result = await withModel('add_sub', (model) =>
      model.execute({ requests: [], rows: [1], joined: [x, { ...x, name: 'INPUT1' }], wantedOutputs: [] }),
    );
    if (result.kind !== 'joined') throw new Error('not joined');
    expect(Buffer.from(result.outputs[0]?.data ?? []).readFloatLE(0)).toBe(5);
  });

  it('computes only the outputs that somebody wants', async () => {
    const x = tensor('INPUT0', 'FP32', [4], Float32Array.of(1, 2, 3, 4));
    const [outcome] = await withModel('add_sub', (model) =>
      runBatch(model, [inferRequest([x, { ...x, name: 'INPUT1' }], { requestedOutputs: ['OUTPUT1'] })]),
    );
    expect(tensorsOf(outcome).map((output) => output.name)).toEqual(['OUTPUT1']);
  });

  it('applies reshape both ways', async () => {
    const matrix = tensor(
      'INPUT0',
      'FP32',
      [2, 2, 2],
      Float32Array.from({ length: 8 }, (_, i) => i),
    );
    const vector = tensor('INPUT1', 'FP32', [2, 1], Float32Array.of(8, 9));
    const [outcome] = await withModel('reshaped', (model) => runBatch(model, [inferRequest([matrix, vector])]));
    expect(tensorsOf(outcome).map((output) => [output.name, output.shape])).toEqual([
      ['OUTPUT0', [2, 2, 2]],
      ['OUTPUT1', [2, 1]],
      ['SEEN', [2, 3]],
    ]);
    // SEEN is what the graph saw: columns, rows, rank of the second input.
    expect([...new BigInt64Array(Uint8Array.from(tensorsOf(outcome)[2]?.data ?? []).buffer)].slice(0, 3)).toEqual([
      2n,
      4n,
      1n,
    ]);
  });

  it('feeds an optional input, and its default where it is left out', async () => {
    const x = int32Tensor('INPUT0', [4], [1, 2, 3, 4]);
    const sums = await withModel('optional_inputs', async (model) => [
      ...(await runBatch(model, [inferRequest([x])])),
      ...(await runBatch(model, [inferRequest([x, int32Tensor('INPUT1', [4], [10, 20, 30, 40])])])),
      ...(await runBatch(model, [inferRequest([x])])),
    ]);
    expect(
      sums.map((outcome) => [...new Int32Array(Uint8Array.from(tensorsOf(outcome)[0]?.data ?? []).buffer)]),
    ).toEqual([
      [1, 2, 3, 4],
      [11, 22, 33, 44],
      [1, 2, 3, 4],
    ]);
  });

  it.each([
    ['a NUL byte', Buffer.from('a\0b'), 'NUL'],
    ['bytes that are no UTF-8', Buffer.from([0xff, 0xfe]), 'UTF-8'],
  ])('refuses a string with %s, naming the input', async (_, element, word) => {
    const data = encodeBytesElements([Buffer.from('fine'), element]);
    const request = inferRequest([{ name: 'INPUT', datatype: 'BYTES', shape: [2], data }]);
    await expect(withModel('identity_bytes', (model) => runBatch(model, [request]))).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(new RegExp(`element 1 of input 'INPUT'.*${word}`)),
    });
  });

  it('refuses a dimension that its binding does not take, naming the input', () => {
    const feed = (...shape: number[]) => feedOf(tensor('INPUT', 'FP32', shape, new Float32Array()), shape);
    expect(() => feed(0, 2 ** 32)).toThrow(
      "input 'INPUT' has the shape [0,4294967296]; the engine takes dimensions up to 4294967295",
    );
    expect(feed(0, 2 ** 32 - 1).dims).toEqual([0, 2 ** 32 - 1]);
  });

  it("passes on onnxruntime's words when a run fails", async () => {
    const request = inferRequest([int32Tensor('INPUT', [2], [1, 2])]);
    await expect(withModel('fail_execute', (model) => runBatch(model, [request]))).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringMatching(/^onnx runtime error: .*Reshape/),
    });
  });
});

describe('onnxruntime: loading', () => {
  it('finds external weights beside the model, whatever the working folder', async () => {
    const x = tensor('INPUT', 'FP32', [4], Float32Array.of(1, 1, 1, 1));
    const [outcome] = await withModel('external_weights', (model) => runBatch(model, [inferRequest([x])]));
    expect([...new Float32Array(Uint8Array.from(tensorsOf(outcome)[0]?.data ?? []).buffer)]).toEqual([1, 11, 21, 31]);
  });

  it('refuses BF16 by name', async () => {
    await expect(fixtureLoad('identity_bf16').then(onnxruntimeBackend.load)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('BF16'),
    });
  });

  it('says what is wrong with a file that is no model', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nereid-broken-'));
    try {
      await mkdir(join(folder, '1'));
      await writeFile(join(folder, '1', 'model.onnx'), 'this is not an ONNX model\n');
      const load = { ...(await fixtureLoad('add_sub')), versionDirectory: join(folder, '1') };
      await expect(onnxruntimeBackend.load(load)).rejects.toMatchObject({
        code: 'INTERNAL',
        message: expect.stringMatching(/^onnx runtime error: Load model from .*failed/),
      });
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('needs the GPU provider for a GPU instance and says how to get it', async () => {
    const load = { ...(await fixtureLoad('add_sub')), device: { kind: 'gpu' as const, id: 0 } };
    const loaded = await onnxruntimeBackend.load(load).then(
      (instance) => instance.finalize().then(() => 'loaded'),
      (error: unknown) => error,
    );
    if (loaded === 'loaded') return;
    expect(loaded).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining('script/install.js') });
  });

  const text = readFile(new URL('../fixtures/add_sub/config.pbtxt', import.meta.url), 'utf8');
  it.each([
    ['a missing input', /,\n {2}\{ name: "INPUT1".*\}/, '', 'configuration expects 1 inputs, model provides 2'],
    [
      'an unknown input',
      '"INPUT1"',
      '"OTHER"',
      "unexpected inference input 'OTHER'.*allowed inputs are: INPUT0, INPUT1",
    ],
    [
      'an unknown output',
      '"OUTPUT1"',
      '"OTHER"',
      "unexpected inference output 'OTHER'.*allowed outputs are: OUTPUT0, OUTPUT1",
    ],
    [
      'another datatype',
      'TYPE_FP32',
      'TYPE_INT32',
      "expects datatype TYPE_INT32 for input 'INPUT0', model provides TYPE_FP32",
    ],
    [
      'another size',
      'dims: [ 4 ]',
      'dims: [ 5 ]',
      'the model expects shape \\[4\\] but the model configuration specifies shape \\[5\\]',
    ],
    ['another rank', 'dims: [ 4 ]', 'dims: [ 2, 2 ]', 'the model expects 1 dimensions'],
    ['batching that the graph has not', 'max_batch_size: 0', 'max_batch_size: 8', 'for the model to support batching'],
    ['an unknown level', 'max_batch_size: 0', 'optimization { graph { level: 7 } }', 'level 7'],
    [
      'a thread count that is none',
      'max_batch_size: 0',
      'parameters { key: "intra_op_thread_count" value { string_value: "many" } }',
      "'intra_op_thread_count' must be a whole number",
    ],
  ])('refuses a config with %s', async (_, from, to, message) => {
    const base = await fixtureLoad('add_sub');
    const { textLoad } = await import('./fixture-load.ts');
    const load = textLoad(base.modelDirectory, (await text).replace(from, to));
    await expect(onnxruntimeBackend.load(load)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(new RegExp(message)),
    });
  });
});
