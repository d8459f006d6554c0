/** The hand-written codec beside the generated one, on random messages. */
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  DATATYPE_BYTES,
  type Datatype,
  decodeGrpcInferRequest,
  encodeGrpcResponse,
  encodeGrpcStreamResponse,
  type InferResponse,
  NereidError,
  type ParameterValue,
  readGrpcInferDocument,
  type Tensor,
} from '@nereid/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type InferParameter,
  type InferParameterSchema,
  ModelInferRequestSchema,
  ModelInferResponseSchema,
  ModelStreamInferResponseSchema,
} from './gen/grpc_service_pb.ts';

const LIMITS = { elements_max: 1e9, bytes_max: 1e9 };
const RUNS = { numRuns: 300 };

const text = fc.string({ maxLength: 12, unit: 'grapheme' }).map((value) => Buffer.from(value).toString());
const int64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const uint64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
const bytes = fc.uint8Array({ maxLength: 40 });
const dimension = fc.bigInt({ min: 0n, max: 1_000n });

type ParameterInit = MessageInitShape<typeof InferParameterSchema>;
const parameter: fc.Arbitrary<ParameterInit> = fc.oneof(
  fc.boolean().map((value) => ({ parameterChoice: { case: 'boolParam' as const, value } })),
  int64.map((value) => ({ parameterChoice: { case: 'int64Param' as const, value } })),
  text.map((value) => ({ parameterChoice: { case: 'stringParam' as const, value } })),
  fc.double().map((value) => ({ parameterChoice: { case: 'doubleParam' as const, value } })),
);
const parameters = fc.dictionary(
  text.filter((key) => key !== '__proto__' && !key.startsWith('triton_')),
  parameter,
  { maxKeys: 4 },
);

const request = fc.record({
  modelName: text,
  modelVersion: text,
  id: text,
  parameters,
  inputs: fc.array(
    fc.record({
      name: text,
      datatype: fc.constantFrom(...Object.keys(DATATYPE_BYTES)),
      shape: fc.array(dimension, { maxLength: 3 }),
    }),
    { maxLength: 4 },
  ),
  outputs: fc.array(fc.record({ name: text }), { maxLength: 3 }),
  rawInputContents: fc.array(bytes, { minLength: 4, maxLength: 6 }),
});

const plainParameters = (map: Readonly<Record<string, InferParameter>>) =>
  Object.fromEntries(Object.entries(map).map(([key, value]) => [key, value.parameterChoice.value]));

/** What the two codecs must agree on, by the generated one. */
function expected(message: Uint8Array) {
  const decoded = fromBinary(ModelInferRequestSchema, message);
  return {
    modelName: decoded.modelName,
    id: decoded.id,
    parameters: plainParameters(decoded.parameters),
    inputs: decoded.inputs.map(({ name, datatype, shape }, index) => ({
      name,
      datatype,
      shape: shape.map(Number),
      data: [...(decoded.rawInputContents[index] ?? [])],
    })),
    outputs: decoded.outputs.map(({ name }) => name),
  };
}

function read(message: Uint8Array) {
  const { request: decoded, outputs } = decodeGrpcInferRequest(readGrpcInferDocument(message), {
    modelVersion: '',
    limits: LIMITS,
  });
  return {
    modelName: decoded.modelName,
    id: decoded.id,
    parameters: decoded.parameters,
    inputs: decoded.inputs.map(({ name, datatype, shape, data }) => ({ name, datatype, shape, data: [...data] })),
    outputs: outputs.map(({ name }) => name),
  };
}

describe('ModelInferRequest', () => {
  it('reads as the generated code reads it', () => {
    fc.assert(
      fc.property(request, (init) => {
        const message = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init));
        expect(read(message)).toEqual(expected(message));
      }),
      RUNS,
    );
  });

  it('so does one message behind another, which merges them', () => {
    fc.assert(
      fc.property(request, request, (first, second) => {
        const message = Buffer.concat(
          [first, second].map((init) => toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init))),
        );
        expect(read(message)).toEqual(expected(message));
      }),
      RUNS,
    );
  });

  it('with unknown fields anywhere between its own', () => {
    const unknown = fc.constantFrom(
      Buffer.of(0xf8, 0x06, 0x05),
      Buffer.of(0xf9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8),
      Buffer.of(0xfa, 0x06, 2, 1, 2),
      Buffer.of(0xfb, 0x06, 0x08, 1, 0xfc, 0x06),
      Buffer.of(0xfd, 0x06, 1, 2, 3, 4),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(request, unknown), { maxLength: 3 }), (parts) => {
        const message = Buffer.concat(
          parts.flatMap(([init, field]) => [
            field,
            toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init)),
          ]),
        );
        expect(read(message)).toEqual(expected(message));
      }),
      RUNS,
    );
  });

  it('cut anywhere or of any bytes it is read or refused, never more', () => {
    const hostile = fc.oneof(
      fc.uint8Array({ maxLength: 60 }),
      fc.tuple(request, fc.nat(), fc.nat(), fc.nat({ max: 255 })).map(([init, cut, at, byte]) => {
        const message = Buffer.from(toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init)));
        if (message.length > 0) message[at % message.length] = byte;
        return message.subarray(0, cut % (message.length + 1));
      }),
    );
    fc.assert(
      fc.property(hostile, (message) => {
        try {
          read(message);
        } catch (thrown) {
          if (!(thrown instanceof NereidError)) throw thrown;
          expect(['INVALID_ARG', 'NOT_FOUND']).toContain(thrown.code);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('typed contents', () => {
  const array = <T>(value: fc.Arbitrary<T>) => fc.array(value, { maxLength: 20 });
  const float = fc.float({ noNaN: true });
  const little = (Type: { new (values: never[]): ArrayBufferView }, values: readonly unknown[]) => {
    const { buffer, byteOffset, byteLength } = new Type(values as never[]);
    return [...new Uint8Array(buffer, byteOffset, byteLength)];
  };

  it.each<[Datatype, string, fc.Arbitrary<unknown[]>, (values: readonly unknown[]) => number[]]>([
    ['BOOL', 'boolContents', array(fc.boolean()), (values) => values.map(Number)],
    ['INT8', 'intContents', array(fc.integer({ min: -128, max: 127 })), (values) => little(Int8Array, values)],
    ['INT16', 'intContents', array(fc.integer({ min: -32_768, max: 32_767 })), (values) => little(Int16Array, values)],
    ['INT32', 'intContents', array(fc.integer()), (values) => little(Int32Array, values)],
    ['INT64', 'int64Contents', array(int64), (values) => little(BigInt64Array, values)],
    ['UINT8', 'uintContents', array(fc.nat({ max: 255 })), (values) => little(Uint8Array, values)],
    ['UINT32', 'uintContents', array(fc.nat({ max: 0xffff_ffff })), (values) => little(Uint32Array, values)],
    ['UINT64', 'uint64Contents', array(uint64), (values) => little(BigUint64Array, values)],
    ['FP32', 'fp32Contents', array(float), (values) => little(Float32Array, values)],
    ['FP64', 'fp64Contents', array(fc.double({ noNaN: true })), (values) => little(Float64Array, values)],
    [
      'BYTES',
      'bytesContents',
      array(bytes),
      (values) => (values as Uint8Array[]).flatMap((value) => [value.length, 0, 0, 0, ...value]),
    ],
  ])('of %s', (datatype, field, arbitrary, raw) => {
    fc.assert(
      fc.property(arbitrary, arbitrary, (first, second) => {
        const part = (values: unknown[]) =>
          toBinary(
            ModelInferRequestSchema,
            create(ModelInferRequestSchema, {
              inputs: [{ name: 'X', datatype, shape: [1n], contents: { [field]: values } }],
            }),
          );
        const [one, two] = [part(first), part(second)];
        const { inputs } = read(Buffer.concat([one, two]));
        expect(inputs.map(({ data }) => data)).toEqual([raw(first), raw(second)]);
      }),
      { numRuns: 100 },
    );
  });
});

const output: fc.Arbitrary<Tensor> = fc.record({
  name: text,
  datatype: fc.constantFrom(...(Object.keys(DATATYPE_BYTES) as Datatype[])),
  shape: fc.array(fc.nat({ max: Number.MAX_SAFE_INTEGER }), { maxLength: 4 }),
  data: fc.oneof(bytes, fc.constant(new Uint8Array(70_000).fill(3))),
});
const value: fc.Arbitrary<ParameterValue> = fc.oneof(text, fc.boolean(), int64, fc.double({ noNaN: true }));
const response: fc.Arbitrary<InferResponse> = fc.record({
  modelName: text,
  modelVersion: text,
  id: text,
  parameters: fc.dictionary(
    text.filter((key) => key !== '__proto__'),
    value,
    { maxKeys: 4 },
  ),
  outputs: fc.array(output, { maxLength: 4 }),
});

function asInit(given: InferResponse): MessageInitShape<typeof ModelInferResponseSchema> {
  return {
    modelName: given.modelName,
    modelVersion: given.modelVersion,
    id: given.id,
    parameters: Object.fromEntries(
      Object.entries(given.parameters).map(([key, one]): [string, ParameterInit] => {
        if (typeof one === 'string') return [key, { parameterChoice: { case: 'stringParam', value: one } }];
        if (typeof one === 'boolean') return [key, { parameterChoice: { case: 'boolParam', value: one } }];
        if (typeof one === 'bigint') return [key, { parameterChoice: { case: 'int64Param', value: one } }];
        return [key, { parameterChoice: { case: 'doubleParam', value: one } }];
      }),
    ),
    outputs: given.outputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(BigInt) })),
    rawOutputContents: given.outputs.map(({ data }) => data),
  };
}

/** Of large messages too, which a matcher would compare element by element. */
function expectSame(one: Uint8Array, other: Uint8Array): void {
  expect(Buffer.compare(one, other)).toBe(0);
}

describe('ModelInferResponse', () => {
  it('is written as the generated code reads it', () => {
    fc.assert(
      fc.property(response, (given) => {
        const decoded = fromBinary(ModelInferResponseSchema, Buffer.concat(encodeGrpcResponse(given)));
        const wanted = create(ModelInferResponseSchema, asInit(given));
        expectSame(toBinary(ModelInferResponseSchema, decoded), toBinary(ModelInferResponseSchema, wanted));
      }),
      RUNS,
    );
  });

  it('also within a ModelStreamInferResponse', () => {
    fc.assert(
      fc.property(response, text, (given, errorMessage) => {
        const message = Buffer.concat(encodeGrpcStreamResponse(given, errorMessage));
        const decoded = fromBinary(ModelStreamInferResponseSchema, message);
        const wanted = create(ModelStreamInferResponseSchema, { errorMessage, inferResponse: asInit(given) });
        expectSame(toBinary(ModelStreamInferResponseSchema, decoded), toBinary(ModelStreamInferResponseSchema, wanted));
      }),
      RUNS,
    );
  });
});
