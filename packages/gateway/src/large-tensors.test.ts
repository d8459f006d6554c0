/** What a gateway does about tensors that go beside its messages (docs/protocol.md R29, R30). */
import {
  type CarriedTensor,
  type InferRequest,
  REQUEST_DEFAULTS,
  type ResponseMessage,
  type Tensor,
} from '@nereid/protocol';
import { timing } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { echo, gatewayFixture, responseTo } from './gateway-fixture.ts';

const int32 = (name: string): Tensor => ({ name, datatype: 'INT32', shape: [1, 2], data: new Uint8Array(8) });
const REQUEST: InferRequest = {
  ...REQUEST_DEFAULTS,
  modelName: 'simple',
  inputs: [int32('INPUT0'), int32('INPUT1')],
};

async function gatewayWithTensors() {
  const released: CarriedTensor[] = [];
  const rewritten: CarriedTensor[] = [];
  const fixture = await gatewayFixture({
    timing: timing(),
    largeTensors: {
      release: (tensors) => void released.push(...tensors),
      rewrite: (tensors) => void rewritten.push(...tensors),
      keep: () => {},
      letGo: () => {},
      discard: () => {},
      put: async () => undefined,
      lifetimeMs: 12_000,
    },
  });
  const sent = () => {
    const last = fixture.received.at(-1);
    if (last?.kind !== 'infer') throw new Error('no request came');
    return last;
  };
  return {
    ...fixture,
    released,
    rewritten,
    sent,
    missing: () => fixture.coordinator.send('gw-1', { kind: 'missing', model: 'simple', id: sent().id }),
    answer: (message: ResponseMessage = responseTo(sent(), echo(sent()))) => fixture.coordinator.send('gw-1', message),
  };
}

describe('R29: the inputs of a request', () => {
  it('are released at its outcome, and not before', async () => {
    const gateway = await gatewayWithTensors();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.arrived(1);
    expect(gateway.released).toEqual([]);
    gateway.answer();
    expect((await outcome).ok).toBe(true);
    expect(gateway.released).toEqual(REQUEST.inputs);
  });

  it.each([
    ['its caller leaves', async (_gateway: unknown, leave: AbortController) => leave.abort()],
    ['the gateway closes', async ({ gateway }: Awaited<ReturnType<typeof gatewayWithTensors>>) => gateway.close()],
  ])('are released when %s', async (_when, end) => {
    const gateway = await gatewayWithTensors();
    const leave = new AbortController();
    const outcome = gateway.gateway.infer(REQUEST, leave.signal);
    await gateway.arrived(1);
    await end(gateway, leave);
    expect((await outcome).ok).toBe(false);
    expect(gateway.released).toEqual(REQUEST.inputs);
  });

  it('are put down anew and sent at once where a worker did not find them', async () => {
    const gateway = await gatewayWithTensors();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.arrived(1);
    gateway.missing();
    await gateway.arrived(2);
    expect(gateway.rewritten).toEqual(REQUEST.inputs);
    expect(gateway.sent()).toMatchObject({ id: 'gw-1:1', sends: 2 });
    gateway.answer();
    expect((await outcome).ok).toBe(true);
  });

  it('are given up where they are lost for the fifth time', async () => {
    const gateway = await gatewayWithTensors();
    const outcome = gateway.gateway.infer(REQUEST);
    for (let losses = 1; losses <= 5; losses++) {
      await gateway.arrived(losses);
      gateway.missing();
    }
    expect(await outcome).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    expect(gateway.received.filter(({ kind }) => kind === 'infer')).toHaveLength(5);
  });

  it('of a request that is over are not asked for again', async () => {
    const gateway = await gatewayWithTensors();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.arrived(1);
    gateway.answer();
    await outcome;
    gateway.missing();
    await new Promise((resolve) => setImmediate(resolve));
    expect(gateway.received).toHaveLength(1);
  });
});

it('an answer whose outputs are gone counts as none: the request is sent again', async () => {
  const gateway = await gatewayWithTensors();
  const outcome = gateway.gateway.infer(REQUEST);
  await gateway.arrived(1);
  const blob = { place: 'redis', id: 'gone', bytes: 8 } as const;
  const outputs = [{ name: 'OUTPUT0', datatype: 'INT32', shape: [1, 2], blob }] as const;
  const response = { modelName: 'simple', modelVersion: '1', id: '', parameters: {}, outputs };
  gateway.answer({ ...responseTo(gateway.sent(), echo(gateway.sent())), outcome: { ok: true, response } });
  await gateway.arrived(2);
  expect(gateway.released).toEqual([]);
  gateway.answer();
  expect((await outcome).ok).toBe(true);
});
