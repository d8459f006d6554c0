import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { afterEach, describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, readyVersion, SIMPLE } from '../gateway-fixture.ts';
import { GRPCInferenceService, ModelInferRequestSchema } from './gen/grpc_service_pb.ts';
import { ask, askBytes, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';
import { pathOf } from './unary.ts';

const { modelInfer } = GRPCInferenceService.method;
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;

const DECOUPLED = `${identity('decoupled', 'INT32')} model_transaction_policy { decoupled: true }`;
const MODELS = [
  modelRecord(SIMPLE),
  modelRecord(DECOUPLED),
  modelRecord(identity('loading', 'INT32'), [{ version: '1', state: 'LOADING', reason: '' }]),
  modelRecord(identity('two', 'INT32'), [readyVersion('1'), readyVersion('2')]),
];

let fixture: GrpcFixture;
afterEach(() => fixture.close());

const bytesOf = (...values: number[]) => new Uint8Array(Int32Array.from(values).buffer);
const simple: MessageInitShape<typeof ModelInferRequestSchema> = {
  modelName: 'simple',
  inputs: [
    { name: 'INPUT0', datatype: 'INT32', shape: [1n, 2n] },
    { name: 'INPUT1', datatype: 'INT32', shape: [1n, 2n] },
  ],
  rawInputContents: [bytesOf(1, 2), bytesOf(3, 4)],
};

describe('ModelInfer', () => {
  it('answers with raw outputs, the id and the version that answered', async () => {
    fixture = await grpcFixture({ models: MODELS, answer: echo });
    const asked = await ask(fixture.client(), modelInfer, { ...simple, id: 'call-1' });
    expect(asked).toMatchObject({
      code: 0,
      message: {
        modelName: 'simple',
        modelVersion: '1',
        id: 'call-1',
        outputs: [
          { name: 'OUTPUT0', datatype: 'INT32', shape: [1n, 2n] },
          { name: 'OUTPUT1', datatype: 'INT32', shape: [1n, 2n] },
        ],
        rawOutputContents: [Buffer.from(bytesOf(1, 2)), Buffer.from(bytesOf(3, 4))],
      },
    });
  });

  it('gives an output as its greatest classes', async () => {
    fixture = await grpcFixture({ models: MODELS, answer: echo });
    const outputs = [
      {
        name: 'OUTPUT0',
        parameters: { classification: { parameterChoice: { case: 'int64Param' as const, value: 1n } } },
      },
    ];
    const asked = await ask(fixture.client(), modelInfer, { ...simple, outputs });
    expect(asked).toMatchObject({
      code: 0,
      message: { outputs: [{ name: 'OUTPUT0', datatype: 'BYTES', shape: [1n, 1n] }, { name: 'OUTPUT1' }] },
    });
    expect(
      'message' in asked &&
        Buffer.from(asked.message.rawOutputContents[0] ?? [])
          .subarray(4)
          .toString(),
    ).toBe('2:1');
  });

  it.each<[string, MessageInitShape<typeof ModelInferRequestSchema>, number, string, string]>([
    [
      'an unknown model',
      { ...simple, modelName: 'missing' },
      NOT_FOUND,
      "Request for unknown model: 'missing' is not found",
      'NOT_FOUND',
    ],
    [
      'an unknown version',
      { ...simple, modelVersion: '7' },
      NOT_FOUND,
      "Request for unknown model: 'simple' version 7 is not found",
      'NOT_FOUND',
    ],
    [
      'a version in words, whatever the model',
      { modelName: 'missing', modelVersion: 'one' },
      INVALID_ARGUMENT,
      "failed to get model version from specified version string 'one' (details: stol), version should be an integral value > 0",
      'INVALID_ARG',
    ],
    [
      'a negative version',
      { ...simple, modelVersion: '-1' },
      INVALID_ARGUMENT,
      "invalid model version specified '-1' , version should be an integral value > 0",
      'INVALID_ARG',
    ],
    [
      'a version that loads',
      { modelName: 'loading', modelVersion: '1' },
      UNAVAILABLE,
      "Request for unknown model: 'loading' version 1 is not at ready state",
      'UNAVAILABLE',
    ],
    [
      'a decoupled model',
      { modelName: 'decoupled' },
      UNIMPLEMENTED,
      "ModelInfer RPC doesn't support models with decoupled transaction policy",
      'UNSUPPORTED',
    ],
    [
      'a wrong datatype, in the words of the config check, with the request id',
      { ...simple, id: 'é', inputs: simple.inputs?.map((input) => ({ ...input, datatype: 'INT33' })) ?? [] },
      INVALID_ARGUMENT,
      "[request id: é] inference input 'INPUT0' data-type is '<invalid>', but model 'simple' expects 'INT32'",
      'INVALID_ARG; field=inputs[0].datatype',
    ],
    [
      'a negative dimension',
      { ...simple, inputs: simple.inputs?.map((input) => ({ ...input, shape: [1n, -1n] })) ?? [] },
      INVALID_ARGUMENT,
      "[request id: <id_unknown>] All input dimensions should be specified for input 'INPUT0' for model 'simple', got [1,-1]",
      'INVALID_ARG; field=inputs[0].shape',
    ],
    [
      'an output that the model does not have',
      { ...simple, outputs: [{ name: 'Z' }] },
      INVALID_ARGUMENT,
      "unexpected inference output 'Z' for model 'simple'",
      'INVALID_ARG; field=outputs[0].name',
    ],
  ])('refuses %s', async (_rule, request, code, details, detail) => {
    fixture = await grpcFixture({ models: MODELS });
    expect(await ask(fixture.client(), modelInfer, request)).toEqual({ code, details, detail });
  });

  it.each([
    ['INVALID_ARG', 3],
    ['NOT_FOUND', 5],
    ['ALREADY_EXISTS', 6],
    ['UNSUPPORTED', 12],
    ['INTERNAL', 13],
    ['UNAVAILABLE', 14],
    ['CANCELLED', 1],
    ['UNKNOWN', 2],
  ] as const)('a failure of the model with %s has the status %d', async (errorCode, code) => {
    const error = { code: errorCode, message: 'why\nso', reason: 'r' };
    fixture = await grpcFixture({ models: MODELS, answer: () => ({ ok: false, error }) });
    const asked = await ask(fixture.client(), modelInfer, simple);
    expect(asked).toEqual({ code, details: 'why\nso', detail: `${errorCode}; reason=r` });
  });

  it('a message that cannot be parsed is INVALID_ARGUMENT', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const asked = await askBytes(fixture.client(), pathOf(modelInfer), Uint8Array.of(0x0a, 5, 1));
    expect(asked).toMatchObject({ code: INVALID_ARGUMENT, detail: 'INVALID_ARG; field=message' });
  });

  it('a client that cancels takes its request back', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const client = fixture.client();
    const bytes = Buffer.from(toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, simple)));
    const pass = (message: Buffer) => message;
    const call = client.makeUnaryRequest(pathOf(modelInfer), pass, pass, bytes, () => {});
    await fixture.arrived(1);
    call.cancel();
    await fixture.arrived(2);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'cancel']);
  });

  it('a deadline that passes takes its request back, with DEADLINE_EXCEEDED', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const asked = await ask(fixture.client(), modelInfer, simple, { deadline: Date.now() + 50 });
    expect(asked).toMatchObject({ code: 4 });
    await fixture.arrived(2);
    expect(fixture.received.map(({ kind }) => kind)).toEqual(['infer', 'cancel']);
  });
});
