import { type InferRequest, type Outcome, REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import { timing } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { echo, type GatewayFixture, gatewayFixture, modelRecord, responseTo, SIMPLE } from './gateway-fixture.ts';

const int32 = (name: string): Tensor => ({ name, datatype: 'INT32', shape: [1, 2], data: new Uint8Array(8) });
const REQUEST: InferRequest = {
  ...REQUEST_DEFAULTS,
  modelName: 'simple',
  inputs: [int32('INPUT0'), int32('INPUT1')],
};
const OTHER: InferRequest = { ...REQUEST, modelName: 'other' };

const sentTo = (fixture: GatewayFixture) =>
  fixture.received.flatMap((message) =>
    message.kind === 'infer' ? [`${message.id} ${message.epoch.number} ${message.sends}`] : [],
  );

const code = (outcome: Outcome) => (outcome.ok ? 'ok' : outcome.error.code);

/** A gateway whose messages may be lost; time passes in steps in which what was sent arrives. */
async function lossyGateway(models = [modelRecord(SIMPLE)]) {
  const fixture = await gatewayFixture({ timing: timing(), models });
  return {
    ...fixture,
    async pass(ms: number) {
      fixture.clock.advanceUs(ms * 1000);
      for (let turn = 0; turn < 4; turn++) await Promise.resolve();
    },
    answerLast() {
      const last = fixture.received.at(-1);
      if (last?.kind !== 'infer') throw new Error('no request came');
      fixture.coordinator.send('gw-1', responseTo(last, echo(last)));
    },
  };
}

describe('R8: a request is sent again', () => {
  it('by the sweep: 1 s after the last send, then 2, then every 4', async () => {
    const gateway = await lossyGateway();
    const outcome = gateway.gateway.infer(REQUEST);
    const sends: number[] = [];
    for (let ms = 0; ms <= 15_000; ms += 250) {
      await gateway.pass(ms === 0 ? 0 : 250);
      while (sends.length < gateway.received.length) sends.push(ms);
    }
    expect(sends).toEqual([0, 1_000, 3_000, 7_000, 11_000, 15_000]);
    gateway.answerLast();
    expect(code(await outcome)).toBe('ok');
  });

  it('R24: each time with how long its caller still waits, and a little more', async () => {
    const gateway = await lossyGateway();
    const outcome = gateway.gateway.infer(REQUEST, undefined, 2_499.5);
    await gateway.pass(0);
    await gateway.pass(1_000);
    await gateway.pass(2_000);
    const told = gateway.received.map((message) => (message.kind === 'infer' ? message.msLeft : undefined));
    expect(told).toEqual([2_700, 1_700, 1]);
    gateway.answerLast();
    expect(code(await outcome)).toBe('ok');
  });

  it('in the order of g, under the new epoch, when the owner changes; those of other models are not', async () => {
    const gateway = await lossyGateway([modelRecord(SIMPLE), modelRecord(SIMPLE.replace('simple', 'other'))]);
    const outcomes = [REQUEST, OTHER, REQUEST].map((request) => gateway.gateway.infer(request));
    await gateway.pass(0);
    expect(sentTo(gateway)).toEqual(['gw-1:1 1 1', 'gw-1:2 1 1', 'gw-1:3 1 1']);
    await gateway.directory.acquire('simple', 'co-1');
    await gateway.pass(0);
    expect(sentTo(gateway).slice(3)).toEqual(['gw-1:1 2 2', 'gw-1:3 2 2']);
    await gateway.gateway.close();
    expect((await Promise.all(outcomes)).map(code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE', 'UNAVAILABLE']);
  });

  it('after an interruption, all of them in the order of g', async () => {
    const gateway = await lossyGateway([modelRecord(SIMPLE), modelRecord(SIMPLE.replace('simple', 'other'))]);
    for (const request of [REQUEST, OTHER, REQUEST]) void gateway.gateway.infer(request);
    await gateway.pass(0);
    gateway.interrupt();
    await gateway.pass(0);
    expect(sentTo(gateway).slice(3)).toEqual(['gw-1:1 1 2', 'gw-1:2 1 2', 'gw-1:3 1 2']);
    await gateway.gateway.close();
    gateway.interrupt();
    expect(gateway.received).toHaveLength(6);
  });

  it('to the next owner, where the first one is gone: its death costs a delay only', async () => {
    const gateway = await lossyGateway();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.pass(0);
    await gateway.directory.release('simple', 'co-1');
    await gateway.pass(2_300);
    const late = gateway.gateway.infer(REQUEST);
    await gateway.directory.acquire('simple', 'co-1');
    await gateway.pass(0);
    expect(sentTo(gateway)).toEqual(['gw-1:1 1 1', 'gw-1:1 2 2', 'gw-1:2 2 1']);
    gateway.answerLast();
    expect(code(await late)).toBe('ok');
    expect(gateway.gateway.waiting).toBe(1);
    await gateway.gateway.close();
    await outcome;
  });

  it('and not given up for a full mailbox, unless it was the first send', async () => {
    const fixture = await gatewayFixture({ timing: timing(), mailboxLimits: { messages_max: 1, bytes_max: 1e9 } });
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    fixture.coordinator.send('co-1', { kind: 'stale', model: 'simple', id: 'x', known: null });
    fixture.clock.advanceUs(1_000_000);
    await Promise.resolve();
    expect(fixture.gateway.waiting).toBe(1);
    fixture.coordinator.send('co-1', { kind: 'stale', model: 'simple', id: 'x', known: null });
    expect(code(await fixture.gateway.infer(REQUEST))).toBe('UNAVAILABLE');
    await fixture.gateway.close();
    await outcome;
  });

  it('as for the first time, where the only copy was refused unseen, and not where another may be taken', async () => {
    const gateway = await lossyGateway();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.pass(0);
    const refuse = async (number: number) => {
      const known = { number, owner: 'co-1' };
      gateway.coordinator.send('gw-1', { kind: 'stale', model: 'simple', id: 'gw-1:1', known });
      await gateway.pass(0);
    };
    await refuse(7);
    expect(sentTo(gateway).at(-1)).toBe('gw-1:1 7 1');
    await gateway.pass(1_000);
    await refuse(9);
    expect(sentTo(gateway).at(-1)).toBe('gw-1:1 9 3');
    gateway.answerLast();
    expect(code(await outcome)).toBe('ok');
  });

  it('with no timer a tick after the last outcome', async () => {
    const gateway = await lossyGateway();
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.pass(0);
    expect(gateway.clock.liveTimers).toBe(1);
    gateway.answerLast();
    expect(code(await outcome)).toBe('ok');
    await gateway.pass(500);
    expect(gateway.clock.liveTimers).toBe(0);
    await gateway.gateway.close();
  });

  it('never for want of an answer where no message is lost', async () => {
    const fixture = await gatewayFixture();
    void fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    expect(fixture.clock.liveTimers).toBe(0);
    await fixture.gateway.close();
  });
});

describe('a gateway', () => {
  it('is in the directory from start to close', async () => {
    const { gateway, directory } = await gatewayFixture();
    await gateway.start();
    expect(directory.processes('gateway')).toEqual([{ id: 'gw-1', role: 'gateway', draining: false }]);
    await gateway.close();
    expect(directory.processes('gateway')).toEqual([]);
  });
});
