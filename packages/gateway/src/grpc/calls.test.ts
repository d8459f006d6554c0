import { readFileSync } from 'node:fs';
import { createBytesInFlight } from '@nereid/caller';
import { DataType } from '@nereid/config/model_config_pb.js';
import { afterEach, describe, expect, it } from 'vitest';
import { doorFixture } from '../door-fixture.ts';
import { identity, modelRecord, readyVersion, SIMPLE } from '../gateway-fixture.ts';
import { createSharedMemory } from '../shared-memory.ts';
import { grpcCalls } from './calls.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { Health, HealthCheckResponse_ServingStatus as ServingStatus } from './gen/health_pb.ts';
import { ask, askBytes, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';
import { pathOf } from './unary.ts';

const { method } = GRPCInferenceService;

const MODELS = [modelRecord(SIMPLE), modelRecord(identity('plain', 'STRING'), [readyVersion('1'), readyVersion('3')])];

let fixture: GrpcFixture;
afterEach(() => fixture.close());

describe('health', () => {
  it('live, ready and serving while every model is', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const client = fixture.client();
    expect(await ask(client, method.serverLive, {})).toMatchObject({ code: 0, message: { live: true } });
    expect(await ask(client, method.serverReady, {})).toMatchObject({ code: 0, message: { ready: true } });
    for (const service of ['', 'inference.GRPCInferenceService', 'no.such.Service']) {
      const checked = await ask(client, Health.method.check, { service });
      expect(checked).toMatchObject({ code: 0, message: { status: ServingStatus.SERVING } });
    }
  });

  it('not ready while a model is not', async () => {
    const failed = modelRecord(SIMPLE, [{ version: '1', state: 'UNAVAILABLE', reason: 'it failed' }]);
    fixture = await grpcFixture({ models: [failed] });
    const client = fixture.client();
    expect(await ask(client, method.serverReady, {})).toMatchObject({ code: 0, message: { ready: false } });
    const checked = await ask(client, Health.method.check, {});
    expect(checked).toMatchObject({ code: 0, message: { status: ServingStatus.NOT_SERVING } });
    const model = await ask(client, method.modelReady, { name: 'simple' });
    expect(model).toMatchObject({ code: 0, message: { ready: false } });
  });

  it.each([
    ['a model', { name: 'simple' }, true],
    ['a version of it', { name: 'plain', version: '3' }, true],
    ['a version that it does not have', { name: 'plain', version: '2' }, false],
    ['an unknown model', { name: 'missing' }, false],
    ['no name', { name: '' }, false],
  ])('ModelReady of %s', async (_what, request, ready) => {
    fixture = await grpcFixture({ models: MODELS });
    expect(await ask(fixture.client(), method.modelReady, request)).toMatchObject({ code: 0, message: { ready } });
  });

  it('ModelReady of a version that is no number is an error', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const asked = await ask(fixture.client(), method.modelReady, { name: 'simple', version: 'one' });
    expect(asked).toMatchObject({ code: 3, details: expect.stringContaining("version string 'one'") });
  });
});

describe('metadata', () => {
  it('of the server', async () => {
    fixture = await grpcFixture({ models: MODELS });
    expect(await ask(fixture.client(), method.serverMetadata, {})).toMatchObject({
      code: 0,
      message: { name: 'triton', version: '0.1.0', extensions: expect.arrayContaining(['sequence', 'statistics']) },
    });
  });

  it('of a model, all versions or the one asked for', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const client = fixture.client();
    expect(await ask(client, method.modelMetadata, { name: 'simple' })).toMatchObject({
      message: {
        name: 'simple',
        versions: ['1'],
        platform: 'onnxruntime',
        inputs: [
          { name: 'INPUT0', datatype: 'INT32', shape: [-1n, 2n] },
          { name: 'INPUT1', datatype: 'INT32', shape: [-1n, 2n] },
        ],
      },
    });
    const all = await ask(client, method.modelMetadata, { name: 'plain' });
    expect(all).toMatchObject({ message: { versions: ['1', '3'], inputs: [{ datatype: 'BYTES', shape: [-1n] }] } });
    const one = await ask(client, method.modelMetadata, { name: 'plain', version: '01' });
    expect(one).toMatchObject({ message: { versions: ['1'] } });
  });

  it('the config, typed', async () => {
    fixture = await grpcFixture({ models: MODELS });
    expect(await ask(fixture.client(), method.modelConfig, { name: 'simple' })).toMatchObject({
      code: 0,
      message: {
        config: {
          name: 'simple',
          backend: 'onnxruntime',
          maxBatchSize: 8,
          input: [{ name: 'INPUT0', dataType: DataType.TYPE_INT32, dims: [2n] }, { name: 'INPUT1' }],
        },
      },
    });
  });

  it('of an unknown model is an error, and so is its config', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const client = fixture.client();
    const unknown = {
      code: 5,
      details: "Request for unknown model: 'missing' is not found",
      detail: 'NOT_FOUND',
    };
    expect(await ask(client, method.modelMetadata, { name: 'missing' })).toEqual(unknown);
    expect(await ask(client, method.modelConfig, { name: 'missing' })).toEqual(unknown);
  });
});

describe('a call that is not served', () => {
  it('of a method that there is not', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const asked = await askBytes(fixture.client(), '/grpc.health.v1.Health/Watch', new Uint8Array(0));
    expect(asked).toMatchObject({ code: 12, details: 'unknown method /grpc.health.v1.Health/Watch' });
  });

  it('with a message that is none is refused', async () => {
    fixture = await grpcFixture({ models: MODELS });
    const asked = await askBytes(
      fixture.client(),
      '/inference.GRPCInferenceService/ModelReady',
      Uint8Array.of(0x0a, 9),
    );
    expect(asked).toMatchObject({ code: 3, detail: 'INVALID_ARG; field=message' });
  });
});

it('every method of the services is served, once', async () => {
  fixture = await grpcFixture();
  const sharedMemory = createSharedMemory(false);
  const served = grpcCalls({
    ...doorFixture(fixture),
    sharedMemory,
    bytesInFlight: createBytesInFlight(1),
    forwards: undefined,
    onLoopback: true,
  });
  const methods = [...GRPCInferenceService.methods, ...Health.methods];
  expect(served.map(({ path }) => path).sort()).toEqual(methods.map(pathOf).sort());
});

it('the .proto files have the services that clients know', () => {
  const proto = readFileSync(new URL('../../proto/grpc_service.proto', import.meta.url), 'utf8');
  const names = [...proto.matchAll(/^ {2}rpc (\w+)/gm)].map(([, name]) => name);
  expect(names).toEqual(GRPCInferenceService.methods.map(({ name }) => name));
  expect(names).toHaveLength(20);
});
