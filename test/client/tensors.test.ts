/** The client has its own tensors, errors and halves, so that it needs no server code: they are the server's. */

import {
  bf16ToFp32,
  createClient,
  fp16ToFp32,
  type InferInput,
  type TensorInput,
  type TensorOutput,
  texts,
} from '@nereid/client';
import {
  DATATYPE_BYTES,
  type Datatype,
  decodeInferRequest,
  ERROR_TABLE,
  encodeInferResponse,
  type InferResponse,
  inferRequest,
  bf16ToFp32 as serverBf16ToFp32,
  fp16ToFp32 as serverFp16ToFp32,
  tensorFromValues,
  tensorValues,
} from '@nereid/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

const LIMITS = { json_depth_max: 100, elements_max: 1e6, bytes_max: 1e7 };
const URL = 'http://host';

/** What the client sends for a request, as the server reads it; and what it makes of the answer. */
async function exchange(
  input: InferInput,
  response?: (echo: InferResponse) => { body: Uint8Array; headers: Record<string, string> },
) {
  let request: ReturnType<typeof decodeInferRequest> | undefined;
  const client = createClient({
    url: URL,
    fetch: async (_url, init) => {
      const body = init.body as Uint8Array<ArrayBuffer>;
      const headers = init.headers as Record<string, string>;
      request = decodeInferRequest(body, {
        modelName: input.model,
        modelVersion: '',
        headerLength: Number(headers['Inference-Header-Content-Length']),
        limits: LIMITS,
      });
      const { inputs: outputs, id, parameters } = request.request;
      const echo = { modelName: 'm', modelVersion: '1', id, parameters, outputs };
      const answer = (response ?? binary)(echo);
      return new Response(new Uint8Array(answer.body), { headers: answer.headers });
    },
  });
  const result = await client.infer(input);
  if (request === undefined) throw new Error('nothing was sent');
  return { request, result };
}

function encoded(response: InferResponse, isBinary: boolean) {
  const formats = response.outputs.map(({ name }) => ({ name, binary: isBinary }));
  const { parts, headerLength } = encodeInferResponse(response, formats);
  const headers: Record<string, string> =
    headerLength === undefined ? {} : { 'Inference-Header-Content-Length': String(headerLength) };
  return { body: Buffer.concat(parts), headers };
}
const binary = (response: InferResponse) => encoded(response, true);
const json = (response: InferResponse) => encoded(response, false);

const ROWS: readonly (readonly [TensorInput, unknown[]])[] = [
  [{ datatype: 'BOOL', shape: [2], data: [true, false] }, [1, 0]],
  [{ datatype: 'INT8', shape: [2], data: [-128, 127] }, [-128, 127]],
  [{ datatype: 'UINT16', shape: [1, 2], data: [0, 65_535] }, [0, 65_535]],
  [{ datatype: 'INT64', shape: [3], data: [-(2n ** 63n), 2n ** 63n - 1n, 5n] }, [-(2n ** 63n), 2n ** 63n - 1n, 5n]],
  [{ datatype: 'UINT64', shape: [2], data: [7, Number.MAX_SAFE_INTEGER] }, [7n, BigInt(Number.MAX_SAFE_INTEGER)]],
  [{ datatype: 'FP32', shape: [4], data: [0.5, Number.NaN, Infinity, -0] }, [0.5, Number.NaN, Infinity, -0]],
  [{ datatype: 'FP64', shape: [2], data: Float64Array.of(Math.PI, -Infinity) }, [Math.PI, -Infinity]],
  [{ datatype: 'INT32', shape: [0, 4], data: [] }, []],
  [{ datatype: 'INT32', shape: [], data: Int32Array.of(9) }, [9]],
];

describe('a tensor', () => {
  test.each(ROWS.map((row) => [`${row[0].datatype} [${row[0].shape}]`, ...row] as const))(
    '%s goes there and comes back as it was, in binary and as JSON',
    async (_name, tensor, values) => {
      for (const form of [binary, json]) {
        const { result, request } = await exchange({ model: 'm', id: 'r', inputs: { T: tensor } }, form);
        expect(Array.from(result.outputs.T?.data as ArrayLike<unknown>)).toEqual(values);
        expect(result.outputs.T).toMatchObject({ datatype: tensor.datatype, shape: tensor.shape });
        expect({ ...result, outputs: null }).toEqual({
          model: 'm',
          version: '1',
          id: 'r',
          parameters: {},
          outputs: null,
        });
        expect(request.binaryDefault).toBe(true);
      }
    },
  );

  test('of texts and bytes', async () => {
    const T: TensorInput = { datatype: 'BYTES', shape: [3], data: ['é☃', '', Uint8Array.of(0x61)] };
    for (const form of [binary, json])
      expect(texts((await exchange({ model: 'm', inputs: { T } }, form)).result.outputs.T)).toEqual(['é☃', '', 'a']);
    const odd: TensorInput = { datatype: 'BYTES', shape: [1], data: [Uint8Array.of(0xff, 0)] };
    expect((await exchange({ model: 'm', inputs: { odd } })).result.outputs.odd?.data[0]).toEqual(
      Uint8Array.of(0xff, 0),
    );
  });

  test('of FP16 and BF16, of bits and of floats', async () => {
    const floats = Float32Array.of(1, -2.5, 65_504, Number.NaN);
    const inputs: Record<string, TensorInput> = {
      BITS: { datatype: 'FP16', shape: [2], data: Uint16Array.of(0x3c00, 0x8001) },
      FP16: { datatype: 'FP16', shape: [4], data: floats },
      BF16: { datatype: 'BF16', shape: [4], data: [...floats] },
    };
    const { outputs } = (await exchange({ model: 'm', inputs })).result;
    expect(outputs.BITS?.data).toEqual(Uint16Array.of(0x3c00, 0x8001));
    expect(fp16ToFp32(outputs.FP16?.data as Uint16Array)).toEqual(floats);
    expect(bf16ToFp32(outputs.BF16?.data as Uint16Array)).toEqual(Float32Array.of(1, -2.5, 65_536, Number.NaN));
    const all = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits);
    expect(bytesOf(fp16ToFp32(all)).equals(bytesOf(serverFp16ToFp32(all)))).toBe(true);
    expect(bytesOf(bf16ToFp32(all)).equals(bytesOf(serverBf16ToFp32(all)))).toBe(true);
  });

  test('of any datatype and values has the bytes that createServer makes of it', async () => {
    const tensors = fc
      .constantFrom(...(Object.keys(DATATYPE_BYTES) as Datatype[]))
      .chain((datatype) =>
        fc
          .array(anyValue(datatype), { maxLength: 20 })
          .map((data) => ({ datatype, shape: [data.length], data }) as TensorInput),
      );
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), tensors, { maxKeys: 3 }), async (inputs) => {
        const { request, result } = await exchange({ model: 'm', inputs });
        const wanted = inferRequest({
          model: 'm',
          inputs: inputs as Parameters<typeof inferRequest>[0]['inputs'],
        }).inputs;
        expect(request.request.inputs.map(({ name, data }) => [name, [...data]])).toEqual(
          wanted.map(({ name, data }) => [name, [...data]]),
        );
        for (const { name, ...tensor } of wanted) {
          const output = result.outputs[name] as TensorOutput;
          expect(output.data).toEqual(tensorValues({ name, ...tensor }));
        }
      }),
      { numRuns: 60 },
    );
  });

  test.each<[TensorInput, RegExp]>([
    [{ datatype: 'INT8', shape: [1], data: [128] }, /128 is no INT8 value/],
    [{ datatype: 'INT32', shape: [1], data: [1.5] }, /1.5 is no INT32 value/],
    [{ datatype: 'BOOL', shape: [1], data: [1] }, /1 is no BOOL value/],
    [{ datatype: 'FP32', shape: [1], data: ['x'] }, /"x" is no FP32 value/],
    [{ datatype: 'BYTES', shape: [1], data: [1] }, /1 is no BYTES value/],
    [{ datatype: 'FP32', shape: [3], data: [1, 2] }, /shape \[3\] needs 3 elements but there are 2/],
    [{ datatype: 'FP32', shape: [-1], data: [1] }, /shape must be an array of whole numbers that are not negative/],
    [{ datatype: 'INT32', shape: [1], data: Float32Array.of(1) }, /Float32Array does not hold INT32/],
    [{ datatype: 'FP31' as 'FP32', shape: [1], data: [1] }, /datatype is FP31; it must be one of/],
    [{ datatype: 'FP32', shape: [1], data: 'x' as unknown as number[] }, /data must be a typed array or an array/],
  ])('%o is refused before it is sent, as createServer does', async (tensor, text) => {
    await expect(exchange({ model: 'm', inputs: { T: tensor } })).rejects.toThrow(text);
    const { datatype, shape, data } = tensor as Parameters<typeof inferRequest>[0]['inputs'][string];
    expect(() => tensorFromValues('T', datatype, shape, data)).toThrow(
      text.source.startsWith('datatype') ? /datatype is FP31/ : text,
    );
  });
});

test('all that a request says reaches the server', async () => {
  const { request } = await exchange({
    model: 'm',
    inputs: {},
    outputs: ['A', { name: 'B', classification: 3 }],
    sequence: { id: 2n ** 64n - 1n, start: true, end: true, step: 4 },
    priority: 3,
    timeoutUs: 5n,
    journal: true,
    parameters: { whole: 2, double: 0.5, long: -(2n ** 62n), text: 't', flag: false },
  });
  expect(request.outputs).toEqual([
    { name: 'A', binary: true, classification: 0 },
    { name: 'B', binary: true, classification: 3 },
  ]);
  expect(request.request).toMatchObject({
    correlationId: 2n ** 64n - 1n,
    sequenceStart: true,
    sequenceEnd: true,
    sequenceStep: 4,
    priority: 3n,
    timeoutUs: 5n,
    journal: true,
    parameters: { whole: 2n, double: 0.5, long: -(2n ** 62n), text: 't', flag: false },
  });
});

test('each code of the server is known', async () => {
  for (const code of Object.keys(ERROR_TABLE)) {
    const fetch = async () => new Response('{"error":"x"}', { status: 500, headers: { 'Nereid-Error': code } });
    await expect(createClient({ url: URL, fetch }).metadata('m')).rejects.toMatchObject({ code });
  }
});

function anyValue(datatype: Datatype): fc.Arbitrary<unknown> {
  switch (datatype) {
    case 'BYTES':
      return fc.oneof(fc.string(), fc.uint8Array({ maxLength: 9 }));
    case 'BOOL':
      return fc.boolean();
    case 'FP64':
      return fc.double();
    case 'FP32':
    case 'FP16':
    case 'BF16':
      return fc.float();
    case 'INT64':
      return fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
    case 'UINT64':
      return fc.bigInt(0n, 2n ** 64n - 1n);
    default: {
      const bits = DATATYPE_BYTES[datatype] * 8;
      const min = datatype.startsWith('U') ? 0 : -(2 ** (bits - 1));
      return fc.integer({ min, max: min + 2 ** bits - 1 });
    }
  }
}

const bytesOf = (floats: Float32Array<ArrayBuffer>) => Buffer.from(floats.buffer);
