import { getEventListeners } from 'node:events';
import {
  type InferMessage,
  type InferRequest,
  type Message,
  type Outcome,
  REQUEST_DEFAULTS,
  sequenceNeedsStart,
  type Tensor,
} from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import {
  echo,
  type GatewayFixture,
  gatewayFixture,
  identity,
  modelRecord,
  responseTo,
  SIMPLE,
} from './gateway-fixture.ts';

const int32 = (name: string): Tensor => ({ name, datatype: 'INT32', shape: [1, 2], data: new Uint8Array(8) });

const REQUEST: InferRequest = {
  ...REQUEST_DEFAULTS,
  modelName: 'simple',
  id: 'r1',
  inputs: [int32('INPUT0'), int32('INPUT1')],
};

const code = (outcome: Outcome) => (outcome.ok ? 'ok' : outcome.error.code);

function inferAt(fixture: GatewayFixture, index: number): InferMessage {
  const message = fixture.received[index];
  if (message?.kind !== 'infer') throw new Error(`message ${index} is ${message?.kind}, not infer`);
  return message;
}

describe('infer', () => {
  it('refuses a request that asks to be recorded where nothing can be, however it is asked', async () => {
    const { gateway, received } = await gatewayFixture({ answer: echo, unrecorded: 'no Redis' });
    const request = { ...REQUEST, journal: true };
    const error = {
      code: 'UNAVAILABLE',
      message: "nothing can be recorded: no Redis; leave 'nereid_journal' out to have the request run",
      field: 'parameters.nereid_journal',
    };
    expect(await gateway.infer(request)).toEqual({ ok: false, error });
    expect(gateway.refusal(request)).toEqual(error);
    for await (const { outcome } of gateway.inferStream(request)) expect(outcome).toEqual({ ok: false, error });
    expect(received).toEqual([]);
    expect(await gateway.infer({ ...REQUEST, journal: false })).toMatchObject({ ok: true });
  });

  it('sends the request to the owner under its epoch and hands back its answer', async () => {
    const fixture = await gatewayFixture({ answer: echo });
    const outcome = await fixture.gateway.infer(REQUEST);
    expect(outcome).toMatchObject({ ok: true, response: { id: 'r1', modelVersion: '1' } });
    expect(fixture.received).toEqual([
      {
        kind: 'infer',
        model: 'simple',
        epoch: fixture.directory.owner('simple'),
        id: 'gw-1:1',
        g: 1,
        low: 1,
        prev: 0,
        session: null,
        step: -1,
        sends: 1,
        msLeft: 0,
        replyTo: 'gw-1',
        request: REQUEST,
      },
    ]);
    expect(fixture.gateway.waiting).toBe(0);
  });

  it('numbers requests and tells which are settled', async () => {
    const fixture = await gatewayFixture({ answer: echo });
    for (let i = 0; i < 3; i++) await fixture.gateway.infer(REQUEST);
    const sent = fixture.received.map((message) => (message.kind === 'infer' ? [message.id, message.low] : []));
    expect(sent).toEqual([
      ['gw-1:1', 1],
      ['gw-1:2', 2],
      ['gw-1:3', 3],
    ]);
  });

  it.each<readonly [string, Partial<InferRequest>, string, string]>([
    ['unknown model', { modelName: 'no' }, 'NOT_FOUND', "Request for unknown model: 'no' is not found"],
    [
      'unknown version',
      { modelVersion: '7' },
      'NOT_FOUND',
      "Request for unknown model: 'simple' version 7 is not found",
    ],
    ['wrong output', { requestedOutputs: ['X'] }, 'INVALID_ARG', "unexpected inference output 'X' for model 'simple'"],
    [
      'missing input',
      { inputs: [int32('INPUT0')] },
      'INVALID_ARG',
      "[request id: r1] expected 2 inputs but got 1 inputs for model 'simple'. Got input(s) ['INPUT0'], " +
        "but missing required input(s) ['INPUT1']. Please provide all required input(s).",
    ],
    [
      'decoupled model',
      { modelName: 'stream' },
      'UNSUPPORTED',
      "model 'stream' is decoupled: it may answer any number of times, infer waits for one answer",
    ],
  ])('refuses at the door: %s', async (_name, change, expected, message) => {
    const stream = identity('stream', 'INT32', '2', 'model_transaction_policy { decoupled: true }');
    const models = [modelRecord(stream), modelRecord(SIMPLE)];
    const fixture = await gatewayFixture({ models, answer: echo });
    const outcome = await fixture.gateway.infer({ ...REQUEST, ...change });
    expect(outcome).toMatchObject({ ok: false, error: { code: expected, message } });
    expect([fixture.received, fixture.gateway.waiting]).toEqual([[], 0]);
  });

  it('waits for an owner, but not for ever, and with a timer only so long', async () => {
    const fixture = await gatewayFixture();
    await fixture.directory.release('simple', 'co-1');
    const outcome = fixture.gateway.infer(REQUEST);
    fixture.clock.advanceUs(4_999_999);
    expect(fixture.gateway.waiting).toBe(1);
    fixture.clock.advanceUs(1);
    expect(await outcome).toEqual({
      ok: false,
      error: {
        code: 'UNAVAILABLE',
        message: "no coordinator owns model 'simple' now; try again in a few seconds",
      },
    });
    expect([fixture.received, fixture.clock.liveTimers]).toEqual([[], 0]);
  });

  it('cancels a request that has met no owner without a message', async () => {
    const fixture = await gatewayFixture();
    await fixture.directory.release('simple', 'co-1');
    const controller = new AbortController();
    const outcome = fixture.gateway.infer(REQUEST, controller.signal);
    controller.abort();
    expect(code(await outcome)).toBe('CANCELLED');
    fixture.clock.advanceUs(1_000_000);
    expect([fixture.received, fixture.clock.liveTimers]).toEqual([[], 0]);
  });

  it('refuses one request more than it may hold, and takes another once one is settled', async () => {
    const fixture = await gatewayFixture({ limits: { requests_pending_max: 2 } });
    const first = fixture.gateway.infer(REQUEST);
    const second = fixture.gateway.infer(REQUEST);
    const refused = await fixture.gateway.infer(REQUEST);
    expect(refused).toEqual({
      ok: false,
      error: { code: 'UNAVAILABLE', message: '[request id: r1] Exceeds maximum queue size' },
    });
    await fixture.arrived(2);
    for (const index of [0, 1]) {
      const message = inferAt(fixture, index);
      fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    }
    expect([code(await first), code(await second), fixture.gateway.waiting]).toEqual(['ok', 'ok', 0]);
  });

  it("answers as a full queue where the owner's mailbox is full", async () => {
    const fixture = await gatewayFixture({ mailboxLimits: { messages_max: 1, bytes_max: 1e9 } });
    const outcomes = [fixture.gateway.infer(REQUEST), fixture.gateway.infer({ ...REQUEST, id: '' })];
    expect(await outcomes[1]).toEqual({
      ok: false,
      error: { code: 'UNAVAILABLE', message: '[request id: <id_unknown>] Exceeds maximum queue size' },
    });
    expect(fixture.gateway.waiting).toBe(1);
    await fixture.gateway.close();
    expect(code((await outcomes[0]) as Outcome)).toBe('UNAVAILABLE');
  });

  it('answers 503 where the owner has no mailbox any more and none comes', async () => {
    const fixture = await gatewayFixture();
    await fixture.coordinator.close();
    const outcome = fixture.gateway.infer(REQUEST);
    await Promise.resolve();
    fixture.clock.advanceUs(5_500_000);
    expect(code(await outcome)).toBe('UNAVAILABLE');
    expect(fixture.gateway.waiting).toBe(0);
  });

  it('drops answers to nobody and second answers', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    const message = inferAt(fixture, 0);
    const failure: Outcome = { ok: false, error: { code: 'INTERNAL', message: 'second' } };
    fixture.coordinator.send('gw-1', responseTo({ ...message, id: 'gw-0:1' }, failure));
    fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    fixture.coordinator.send('gw-1', responseTo(message, failure));
    expect(code(await outcome)).toBe('ok');
    expect(fixture.gateway.waiting).toBe(0);
    expect(fixture.gateway.refusedMessages).toBe(2);
  });

  it('ends a request whose model keeps sequences by now', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    fixture.coordinator.send('gw-1', { kind: 'moved', model: 'simple', id: 'gw-1:1', sent: null, current: 'x' });
    expect(await outcome).toEqual({ ok: false, error: sequenceNeedsStart('simple', 0n) });
  });
});

describe('cancelling', () => {
  it('tells the owner, and settles at once', async () => {
    const fixture = await gatewayFixture();
    const controller = new AbortController();
    const outcome = fixture.gateway.infer(REQUEST, controller.signal);
    controller.abort();
    expect(code(await outcome)).toBe('CANCELLED');
    expect(fixture.gateway.waiting).toBe(0);
    await fixture.arrived(2);
    const epoch = fixture.directory.owner('simple');
    expect(fixture.received[1]).toEqual({
      kind: 'cancel',
      model: 'simple',
      epoch,
      id: 'gw-1:1',
      g: 1,
      low: 2,
      session: null,
    });
  });

  it('sends nothing for a signal that is aborted already', async () => {
    const fixture = await gatewayFixture();
    expect(code(await fixture.gateway.infer(REQUEST, AbortSignal.abort()))).toBe('CANCELLED');
    expect([fixture.received, fixture.gateway.waiting]).toEqual([[], 0]);
  });

  it('does nothing after the outcome', async () => {
    const fixture = await gatewayFixture({ answer: echo });
    const controller = new AbortController();
    expect(code(await fixture.gateway.infer(REQUEST, controller.signal))).toBe('ok');
    controller.abort();
    expect(code(await fixture.gateway.infer(REQUEST))).toBe('ok');
    expect(fixture.received.map((message) => message.kind)).toEqual(['infer', 'infer']);
  });
});

describe('the signal', () => {
  it.each<readonly [string, string, (fixture: GatewayFixture) => Promise<unknown> | unknown]>([
    ['an answer', 'ok', ({ coordinator, ...rest }) => coordinator.send('gw-1', answerTo(rest.received[0]))],
    ['a cancel', 'CANCELLED', () => undefined],
    [
      'no owner to send it to again',
      'UNAVAILABLE',
      async ({ coordinator, clock }) => {
        coordinator.send('gw-1', { kind: 'stale', model: 'simple', id: 'gw-1:1', known: null });
        await Promise.resolve();
        clock.advanceUs(5_500_000);
      },
    ],
    ["the gateway's end", 'UNAVAILABLE', ({ gateway }) => gateway.close()],
  ])('has no listener left after %s', async (name, expected, act) => {
    const fixture = await gatewayFixture();
    const controller = new AbortController();
    const outcome = fixture.gateway.infer(REQUEST, controller.signal);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    await fixture.arrived(1);
    if (name === 'a cancel') controller.abort();
    else await act(fixture);
    expect(code(await outcome)).toBe(expected);
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('gets no listener from a request refused at the door', async () => {
    const fixture = await gatewayFixture();
    const { signal } = new AbortController();
    expect(code(await fixture.gateway.infer({ ...REQUEST, inputs: [] }, signal))).toBe('INVALID_ARG');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

function answerTo(message: Message | undefined): Message {
  if (message?.kind !== 'infer') throw new Error(`no infer message but ${message?.kind}`);
  return responseTo(message, echo(message));
}

describe('stale', () => {
  const stale = (known: { number: number; owner: string } | null): Message => {
    return { kind: 'stale', model: 'simple', id: 'gw-1:1', known };
  };

  it('sends the request again to the owner that the directory knows by then', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    const next: InferMessage[] = [];
    const other = fixture.transport.open('co-2', (messages) => {
      for (const message of messages) {
        if (message.kind !== 'infer') continue;
        next.push(message);
        other.send('gw-1', responseTo(message, echo(message)));
      }
    });
    await fixture.directory.release('simple', 'co-1');
    const epoch = await fixture.directory.acquire('simple', 'co-2');
    fixture.coordinator.send('gw-1', stale(null));
    expect(code(await outcome)).toBe('ok');
    expect(next).toEqual([{ ...inferAt(fixture, 0), epoch, sends: 2 }]);
    expect(fixture.gateway.waiting).toBe(0);
  });

  it('takes the epoch that the refusal names where the directory has nothing newer', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    fixture.coordinator.send('gw-1', stale({ number: 9, owner: 'co-1' }));
    await fixture.arrived(2);
    const again = inferAt(fixture, 1);
    expect(again).toEqual({ ...inferAt(fixture, 0), epoch: { number: 9, owner: 'co-1' }, sends: 1 });
    fixture.coordinator.send('gw-1', responseTo(again, echo(again)));
    expect(code(await outcome)).toBe('ok');
  });

  it('waits where nobody knows another owner, and gives up where none comes', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    fixture.coordinator.send('gw-1', stale(null));
    await Promise.resolve();
    fixture.clock.advanceUs(4_000_000);
    expect(fixture.gateway.waiting).toBe(1);
    fixture.clock.advanceUs(1_000_000);
    expect(code(await outcome)).toBe('UNAVAILABLE');
    expect([fixture.gateway.waiting, fixture.clock.liveTimers]).toEqual([0, 0]);
  });

  it('is sent on at once four times, then waits for the directory to change', async () => {
    const fixture = await gatewayFixture();
    const outcome = fixture.gateway.infer(REQUEST);
    for (let refusals = 1; refusals <= 5; refusals++) {
      await fixture.arrived(refusals);
      fixture.coordinator.send('gw-1', stale({ number: 10 + refusals, owner: 'co-1' }));
    }
    await Promise.resolve();
    expect(fixture.received).toHaveLength(5);
    const epoch = await fixture.directory.acquire('simple', 'co-1');
    await fixture.arrived(6);
    const again = inferAt(fixture, 5);
    expect(again.epoch).toEqual(epoch);
    fixture.coordinator.send('gw-1', responseTo(again, echo(again)));
    expect(code(await outcome)).toBe('ok');
  });

  it('of an older copy is ignored', async () => {
    const fixture = await gatewayFixture();
    void fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    const epoch = await fixture.directory.acquire('simple', 'co-1');
    await fixture.arrived(2);
    fixture.coordinator.send('gw-1', stale(epoch ?? null));
    await Promise.resolve();
    await Promise.resolve();
    expect(fixture.received).toHaveLength(2);
    expect(fixture.clock.liveTimers).toBe(0);
    await fixture.gateway.close();
  });
});

describe('closing', () => {
  const stopping = 'Server is stopping, scheduler for model has stopped accepting new inference requests';

  it('lets running requests finish and refuses new ones', async () => {
    const fixture = await gatewayFixture();
    const running = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    const closed = fixture.gateway.close(5000);
    expect(fixture.gateway.ready()).toBe(false);
    expect(await fixture.gateway.infer(REQUEST)).toEqual({
      ok: false,
      error: { code: 'UNAVAILABLE', message: stopping },
    });
    const message = inferAt(fixture, 0);
    fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    expect(code(await running)).toBe('ok');
    await closed;
    expect([fixture.gateway.waiting, fixture.clock.liveTimers]).toEqual([0, 0]);
  });

  it('fails at the deadline what is left', async () => {
    const fixture = await gatewayFixture();
    const running = fixture.gateway.infer(REQUEST);
    await fixture.arrived(1);
    const closed = fixture.gateway.close(5000);
    fixture.clock.advanceUs(4_999_999);
    expect(fixture.gateway.waiting).toBe(1);
    fixture.clock.advanceUs(1);
    expect(await running).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE', message: stopping } });
    await closed;
    expect([fixture.gateway.waiting, fixture.clock.liveTimers]).toEqual([0, 0]);
  });

  it('needs no deadline where nothing waits', async () => {
    const fixture = await gatewayFixture();
    await fixture.gateway.close(5000);
    await fixture.gateway.close(5000);
    expect(fixture.clock.liveTimers).toBe(0);
  });
});
