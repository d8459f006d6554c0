import { expect, test } from 'vitest';
import { echo } from './gateway-fixture.ts';
import { GRPCInferenceService } from './grpc/gen/grpc_service_pb.ts';
import { ask, grpcFixture } from './grpc/grpc-fixture.ts';
import { httpFixture } from './http/http-fixture.ts';

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const DATA = { datatype: 'INT32', shape: [1, 2] };
const BODY = { inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, ...DATA, data: [1, 2] })) };

/** The trace of the request that reaches the coordinator. */
async function overHttp(path: string, body: object, traceparent: string | undefined) {
  const { http, gateway, received } = await httpFixture({ answer: echo });
  const { url } = await http.listen();
  const headers = traceparent === undefined ? {} : { traceparent };
  const { status } = await fetch(`${url}/v2/models/simple/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers,
  });
  await http.close(0);
  await gateway.close();
  const [message] = received;
  return { status, trace: message?.kind === 'infer' ? message.request.trace : 'none came' };
}

test.each([
  ['infer', BODY],
  ['generate', { INPUT0: [1, 2], INPUT1: [1, 2] }],
])('%s takes the trace of its caller, and leaves aside one that is malformed', async (path, body) => {
  expect(await overHttp(path, body, TRACE)).toMatchObject({ trace: TRACE });
  expect(await overHttp(path, body, 'mine')).toMatchObject({ trace: undefined });
  expect(await overHttp(path, body, undefined)).toMatchObject({ trace: undefined });
});

test('a gRPC call brings it as metadata', async () => {
  const fixture = await grpcFixture({ answer: echo });
  const inputs = ['INPUT0', 'INPUT1'].map((name) => {
    return { name, datatype: 'INT32', shape: [1n, 2n], contents: { intContents: [1, 2] } };
  });
  const call = { modelName: 'simple', inputs };
  const { modelInfer } = GRPCInferenceService.method;
  for (const traceparent of [TRACE, 'mine']) {
    expect(await ask(fixture.client(), modelInfer, call, { metadata: { traceparent } })).toMatchObject({ code: 0 });
  }
  const traces = fixture.received.flatMap((message) => (message.kind === 'infer' ? [message.request.trace] : []));
  expect(traces).toEqual([TRACE, undefined]);
  await fixture.close();
  await fixture.gateway.close();
});
