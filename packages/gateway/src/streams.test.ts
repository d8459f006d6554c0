import type { StreamedAnswer } from '@nereid/caller';
import type { InferRequest, Outcome, ResponseMessage, Tensor } from '@nereid/protocol';
import { REQUEST_DEFAULTS } from '@nereid/protocol';
import { type Timing, timing } from '@nereid/transport';
import { describe, expect, test } from 'vitest';
import { type GatewayFixture, gatewayFixture, identity, modelRecord } from './gateway-fixture.ts';

const int32 = (name: string, value: number): Tensor => ({
  name,
  datatype: 'INT32',
  shape: [1],
  data: new Uint8Array(Int32Array.of(value).buffer),
});
const REQUEST: InferRequest = { ...REQUEST_DEFAULTS, modelName: 'stream', inputs: [int32('INPUT', 0)] };
const STREAM = modelRecord(identity('stream', 'INT32', '1', 'model_transaction_policy { decoupled: true }'));

const answer = (value: number | undefined): Outcome => ({
  ok: true,
  response: {
    modelName: 'stream',
    modelVersion: '1',
    id: '',
    parameters: {},
    outputs: value === undefined ? [] : [int32('OUTPUT', value)],
  },
});

const told = ({ outcome, last }: StreamedAnswer) => {
  const what = outcome.ok
    ? outcome.response.outputs.map(({ data }) => Buffer.from(data).readInt32LE(0))
    : (outcome.error.reason ?? outcome.error.code);
  return last ? ['last', what] : what;
};

interface Parts extends GatewayFixture {
  pass(ms: number): Promise<void>;
  /** Starts a stream whose answers gather in `got`. */
  ask(): unknown[];
  chunk(chunk: number, value: number | undefined, more?: Partial<ResponseMessage>): Promise<void>;
  cancels(): readonly string[];
}

async function streamingGateway(limits = {}, times: Timing | null = timing()): Promise<Parts> {
  const fixture = await gatewayFixture({ ...(times === null ? {} : { timing: times }), models: [STREAM], limits });
  const pass = async (ms: number) => {
    fixture.clock.advanceUs(ms * 1000);
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
  };
  return {
    ...fixture,
    pass,
    ask() {
      const got: unknown[] = [];
      const read = async () => {
        for await (const each of fixture.gateway.inferStream(REQUEST)) got.push(told(each));
      };
      void read();
      return got;
    },
    chunk(chunk, value, more = {}) {
      const outcome = answer(value);
      const last = value === undefined;
      const message = { model: 'stream', id: 'gw-1:1', outcome, execution: 'wk-1/1', chunk, last, ...more };
      fixture.coordinator.send('gw-1', { kind: 'response', ...message });
      return pass(0);
    },
    cancels: () =>
      fixture.received.flatMap((message) =>
        message.kind === 'cancel' ? [`${message.id} ${message.epoch.number}`] : [],
      ),
  };
}

const kinds = ({ received }: GatewayFixture) => received.map(({ kind }) => kind);

describe('R27: a stream at its gateway', () => {
  test('takes all answers of one execution in their order, up to the last', async () => {
    const gateway = await streamingGateway();
    const got = gateway.ask();
    await gateway.chunk(0, 10);
    await gateway.chunk(0, 99, { execution: 'wk-2/1' });
    await gateway.chunk(0, 10);
    await gateway.chunk(1, 11);
    await gateway.chunk(2, undefined);
    await gateway.chunk(1, 99, { execution: 'wk-2/1', last: true });
    expect(got).toEqual([[10], [11], ['last', []]]);
    expect(gateway.gateway.waiting).toBe(0);
    expect(gateway.cancels()).toEqual([]);
  });

  test('goes on after an answer that is an error', async () => {
    const gateway = await streamingGateway();
    const got = gateway.ask();
    await gateway.chunk(0, 0, { outcome: { ok: false, error: { code: 'INTERNAL', message: 'not this' } } });
    await gateway.chunk(1, 11);
    expect(got).toEqual(['INTERNAL', [11]]);
  });

  test('is sent again until it has begun, and never from then on', async () => {
    const gateway = await streamingGateway();
    gateway.ask();
    await gateway.pass(1_000);
    expect(kinds(gateway)).toEqual(['infer', 'infer']);
    await gateway.chunk(0, 10);
    await gateway.directory.acquire('stream', 'co-1');
    gateway.interrupt();
    await gateway.pass(2_500);
    gateway.coordinator.send('gw-1', {
      kind: 'stale',
      model: 'stream',
      id: 'gw-1:1',
      known: { number: 9, owner: 'co-1' },
    });
    await gateway.pass(0);
    expect(kinds(gateway)).toEqual(['infer', 'infer']);
  });

  test('is broken by a gap, and what runs is cancelled', async () => {
    const gateway = await streamingGateway();
    const got = gateway.ask();
    await gateway.chunk(0, 10);
    await gateway.chunk(2, 12);
    expect(got).toEqual([[10], ['last', 'stream_broken']]);
    expect(gateway.cancels()).toEqual(['gw-1:1 1']);
  });

  test('is broken by 3 s without a chunk or a sign of its execution', async () => {
    const gateway = await streamingGateway();
    const got = gateway.ask();
    await gateway.chunk(0, 10);
    const sign = (execution: string) => {
      const streams = [{ id: 'gw-1:1', execution }];
      gateway.coordinator.send('gw-1', { kind: 'running', model: 'stream', streams });
      return gateway.pass(0);
    };
    await gateway.pass(2_500);
    await sign('wk-1/1');
    await gateway.pass(2_500);
    await sign('wk-2/1');
    expect(got).toEqual([[10]]);
    await gateway.pass(1_000);
    expect(got).toEqual([[10], ['last', 'stream_broken']]);
    expect(gateway.cancels()).toEqual(['gw-1:1 1']);
  });

  test('is cancelled at the owner that there is by then', async () => {
    const gateway = await streamingGateway();
    const answers = gateway.gateway.inferStream(REQUEST);
    await gateway.chunk(0, 10);
    await gateway.directory.acquire('stream', 'co-1');
    await answers.return?.();
    await gateway.pass(0);
    expect(gateway.cancels()).toEqual(['gw-1:1 2']);
  });

  test('what runs on for nobody is cancelled again, once a second', async () => {
    const gateway = await streamingGateway();
    await gateway.chunk(5, 15);
    await gateway.chunk(6, 16);
    expect(gateway.cancels()).toHaveLength(1);
    await gateway.pass(1_000);
    gateway.coordinator.send('gw-1', { kind: 'running', model: 'stream', streams: [{ id: 'gw-1:1', execution: 'x' }] });
    await gateway.pass(0);
    expect(gateway.cancels()).toHaveLength(2);
    await gateway.pass(1_000);
    await gateway.chunk(7, undefined);
    expect(gateway.cancels()).toHaveLength(2);
  });

  test.each([
    ['chunks', { stream_unread_chunks_max: 2 }],
    ['bytes', { stream_unread_bytes_max: 8 }],
  ])('is cancelled where so many %s are unread, which can be read still', async (_, limits) => {
    const gateway = await streamingGateway(limits);
    const answers = gateway.gateway.inferStream(REQUEST);
    for (const value of [0, 1, 2, 3]) await gateway.chunk(value, value);
    expect(gateway.cancels()).toHaveLength(1);
    const got: unknown[] = [];
    for await (const each of answers) got.push(told(each));
    expect(got).toEqual([[0], [1], ['last', 'stream_unread']]);
  });

  test('a refusal before it has begun is its one answer', async () => {
    const gateway = await streamingGateway();
    const got = gateway.ask();
    const outcome: Outcome = { ok: false, error: { code: 'UNAVAILABLE', message: 'full' } };
    await gateway.chunk(0, 0, { outcome, last: true, execution: 'co-1/refused' });
    expect(got).toEqual([['last', 'UNAVAILABLE']]);
  });

  test.each([
    ['drops a refusal where another run of it may be meant', timing(), [[10], [11]]],
    ['ends with a refusal where no message is lost', null, [[10], ['last', 'UNAVAILABLE']]],
  ])('one that has begun %s', async (_, times, expected) => {
    const gateway = await streamingGateway({}, times);
    const got = gateway.ask();
    await gateway.chunk(0, 10);
    const outcome: Outcome = { ok: false, error: { code: 'UNAVAILABLE', message: 'lost' } };
    await gateway.chunk(0, 0, { outcome, last: true, execution: 'co-1/refused' });
    await gateway.chunk(1, 11);
    expect(got).toEqual(expected);
  });

  test('where one answer is waited for, a chunk that is not the last ends the wait with an error', async () => {
    const gateway = await streamingGateway();
    const plain = modelRecord(identity('stream', 'INT32', '1'));
    await gateway.directory.publish('stream', plain);
    const outcome = gateway.gateway.infer(REQUEST);
    await gateway.chunk(0, 10);
    expect(await outcome).toMatchObject({ ok: false, error: { code: 'UNSUPPORTED' } });
    expect(gateway.cancels()).toHaveLength(1);
  });
});
