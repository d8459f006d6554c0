import { afterEach, describe, expect, test } from 'vitest';
import { modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { type HttpFixture, httpFixture, openConnection, post } from './http-fixture.ts';

const EAGER = `${SIMPLE} dynamic_batching {}
  parameters { key: "nereid.eager_batch" value { string_value: "true" } }`;
const PATH = '/v2/models/simple/infer';
const tensor = (name: string) => ({ name, datatype: 'INT32', shape: [1, 2], data: [1, 2] });
const WHOLE = post(PATH, JSON.stringify({ inputs: [tensor('INPUT0'), tensor('INPUT1')] }));

let fixture: HttpFixture;
let url: string;

async function serve(config: string): Promise<void> {
  fixture = await httpFixture({ models: [modelRecord(config)] });
  ({ url } = await fixture.http.listen());
}

afterEach(async () => {
  await fixture.http.close(0);
  await fixture.gateway.close();
});

/** What the owner is told with a request that is sent now. */
async function told(): Promise<number | undefined> {
  const before = fixture.received.length;
  const client = await openConnection(url);
  client.socket.write(WHOLE);
  await fixture.arrived(before + 1);
  client.socket.destroy();
  const message = fixture.received[before];
  return message?.kind === 'infer' ? message.coming : undefined;
}

/** A request of which half has come. */
async function half(rest = WHOLE.slice(0, -10)) {
  const client = await openConnection(url);
  client.socket.write(rest);
  return client;
}

describe('an owner hears of requests that its gateway still receives', () => {
  test('for a model whose batches are closed early, until they are there', async () => {
    await serve(EAGER);
    const client = await half();
    await expect.poll(told).toBe(1);
    const before = fixture.received.length;
    client.socket.write(WHOLE.slice(-10));
    await fixture.arrived(before + 1);
    expect(await told()).toBeUndefined();
    client.socket.destroy();
  });

  test.each(['its client leaves', 'it is refused'])('until %s', async (how) => {
    await serve(EAGER);
    const client = await half(
      how === 'it is refused' ? post(PATH, '{"inputs": 7          }').slice(0, -10) : undefined,
    );
    await expect.poll(told).toBe(1);
    if (how === 'it is refused') client.socket.write('         }');
    else client.socket.destroy();
    await expect.poll(told).toBeUndefined();
    client.socket.destroy();
  });

  test('and of no other model', async () => {
    await serve(SIMPLE);
    const client = await half();
    expect(await told()).toBeUndefined();
    expect(await told()).toBeUndefined();
    client.socket.destroy();
  });
});
