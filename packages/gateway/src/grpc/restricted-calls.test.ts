import { afterEach, describe, expect, it } from 'vitest';
import { modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { compileForwardPattern } from '../header-forward.ts';
import { parseRestricted, type RestrictedApis } from '../restricted.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { Health } from './gen/health_pb.ts';
import { ask, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';
import { restrictedRefusal } from './restricted-calls.ts';
import { pathOf } from './unary.ts';

const { method } = GRPCInferenceService;

let fixture: GrpcFixture;
afterEach(() => fixture?.close());

function restricted(...entries: string[]): RestrictedApis {
  const parsed = parseRestricted(entries, 'grpc-restricted-protocol');
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
}

describe('restricted calls', () => {
  const KEYS = ['model-config:Admin-Key=secret', 'health,metadata:other=x'];

  it('need their key, in any case of its name, and nothing else needs one', async () => {
    fixture = await grpcFixture({ grpc: { restricted: restricted(...KEYS) } });
    const client = fixture.client();
    const config = (metadata: Record<string, string>) =>
      ask(client, method.modelConfig, { name: 'simple' }, { metadata });
    const refused = {
      code: 14,
      details: "This protocol is restricted, expecting header 'triton-grpc-protocol-Admin-Key'",
      detail: 'UNAVAILABLE',
    };
    expect(await config({})).toEqual(refused);
    expect(await config({ 'admin-key': 'secret' })).toEqual(refused);
    expect(await config({ 'triton-grpc-protocol-admin-key': 'other' })).toEqual(refused);
    expect(await config({ 'triton-grpc-protocol-admin-key': 'secret' })).toMatchObject({ code: 0 });
    expect(await ask(client, method.serverLive, {})).toMatchObject({ code: 14 });
    expect(await ask(client, Health.method.check, {})).toMatchObject({ code: 14 });
    const live = await ask(client, method.serverLive, {}, { metadata: { 'triton-grpc-protocol-other': 'x' } });
    expect(live).toMatchObject({ code: 0 });
    expect(await ask(client, method.modelInfer, { modelName: 'missing' })).toMatchObject({ code: 5 });
  });

  it('are refused before the model is looked for', async () => {
    fixture = await grpcFixture({ grpc: { restricted: restricted('inference:k=v') } });
    expect(await ask(fixture.client(), method.modelInfer, { modelName: 'missing' })).toMatchObject({ code: 14 });
  });

  it('every call of the services is in a category', () => {
    const all = restricted(
      'health,metadata,inference,shared-memory,model-config,model-repository,statistics,trace,logging:k=v',
    );
    const none = { get: () => undefined, headers: () => [] };
    for (const each of [...GRPCInferenceService.methods, ...Health.methods]) {
      expect(restrictedRefusal(all, { path: pathOf(each) }, none), each.name).toBeDefined();
    }
  });
});

describe('metadata that is passed on', () => {
  const forwards = (pattern: string) => {
    const compiled = compileForwardPattern(pattern, 'grpc-header-forward-pattern');
    if (!compiled.ok) throw new Error(compiled.error.message);
    return compiled.value;
  };
  const request = {
    modelName: 'simple',
    parameters: { kept: { parameterChoice: { case: 'int64Param' as const, value: 7n } } },
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1n, 2n] })),
    rawInputContents: [new Uint8Array(8), new Uint8Array(8)],
  };

  it('reaches the model as string parameters', async () => {
    fixture = await grpcFixture({ models: [modelRecord(SIMPLE)], grpc: { forwards: forwards('X-Tenant-.*') } });
    const metadata = { 'x-tenant-id': 'a', 'x-other': 'b' };
    void ask(fixture.client(), method.modelInfer, request, { metadata });
    await fixture.arrived(1);
    expect(fixture.received[0]).toMatchObject({ request: { parameters: { kept: 7n, 'x-tenant-id': 'a' } } });
    const [message] = fixture.received;
    expect(message?.kind === 'infer' && Object.keys(message.request.parameters)).toEqual(['kept', 'x-tenant-id']);
  });

  it('but not under a name that the protocol has', async () => {
    fixture = await grpcFixture({ models: [modelRecord(SIMPLE)], grpc: { forwards: forwards('.*') } });
    const asked = await ask(fixture.client(), method.modelInfer, request, { metadata: { priority: '1' } });
    expect(asked).toMatchObject({ code: 3, detail: 'INVALID_ARG; field=priority' });
  });
});
