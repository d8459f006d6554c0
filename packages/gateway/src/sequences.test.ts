import type { EvictMessage, ListedSequence, ListMessage } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { type GatewayFixture, gatewayFixture, identity, modelRecord, readyVersion } from './gateway-fixture.ts';

const sequenceModel = (name: string, versions = [readyVersion('1')]) =>
  modelRecord(identity(name, 'FP32', '-1', 'sequence_batching { }'), versions);

const MODELS = [
  sequenceModel('b'),
  modelRecord(identity('plain', 'FP32')),
  sequenceModel('a'),
  sequenceModel('unready', [{ version: '1', state: 'LOADING', reason: '' }]),
];

const listed = (session: string): ListedSequence => ({
  version: '1',
  session,
  correlationId: 5n,
  place: null,
  backlog: 0,
  steps: 1,
  waiting: 2,
  idleUs: 3,
  ageUs: 4,
});

type Question = ListMessage | EvictMessage;

/** Answers the n-th question (from 1) once it is there. */
async function tell(fixture: GatewayFixture, n: number, sequences: readonly ListedSequence[], more = false) {
  await fixture.arrived(n);
  const { model, id } = fixture.received[n - 1] as Question;
  fixture.coordinator.send('gw-1', { kind: 'listed', model, id, sequences, more });
}

const asked = ({ received }: GatewayFixture) =>
  received.map((message) => {
    if (message.kind === 'list') return `list ${message.model} ${message.limit} behind '${message.after}'`;
    return message.kind === 'evict' ? `evict ${message.model} ${message.session}` : message.kind;
  });

describe('the list of sequences', () => {
  it('is told by the owners of all ready models that keep any, by name', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.sequences.list({ model: '', limit: 10, after: undefined });
    await tell(fixture, 1, [listed('gw-1:1'), listed('gw-1:2')]);
    await tell(fixture, 2, [listed('gw-1:3')]);
    expect(await answer).toEqual({
      ok: true,
      value: {
        sequences: [
          { model: 'a', ...listed('gw-1:1') },
          { model: 'a', ...listed('gw-1:2') },
          { model: 'b', ...listed('gw-1:3') },
        ],
        next: undefined,
      },
    });
    expect(asked(fixture)).toEqual(["list a 10 behind ''", "list b 8 behind ''"]);
    expect(fixture.clock.liveTimers).toBe(0);
  });

  it('ends at its limit and goes on behind that', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const first = fixture.gateway.sequences.list({ model: '', limit: 1, after: undefined });
    await tell(fixture, 1, [listed('gw-1:1')], true);
    expect(await first).toMatchObject({ value: { next: { model: 'a', session: 'gw-1:1' } } });
    // The page is full, and only who asks the next model knows whether that has any.
    const second = fixture.gateway.sequences.list({ model: '', limit: 1, after: { model: 'a', session: 'gw-1:1' } });
    await tell(fixture, 2, [listed('gw-1:2')]);
    expect(await second).toMatchObject({ value: { next: { model: 'a', session: 'gw-1:2' } } });
    const third = fixture.gateway.sequences.list({ model: '', limit: 1, after: { model: 'b', session: 'gw-1:2' } });
    await tell(fixture, 3, []);
    expect(await third).toEqual({ ok: true, value: { sequences: [], next: undefined } });
    expect(asked(fixture)).toEqual(["list a 1 behind ''", "list a 1 behind 'gw-1:1'", "list b 1 behind 'gw-1:2'"]);
  });

  it.each(['plain', 'missing', 'unready'])("of model '%s' is NOT_FOUND", async (model) => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = await fixture.gateway.sequences.list({ model, limit: 1, after: undefined });
    expect(answer).toMatchObject({ ok: false, error: { code: 'NOT_FOUND', field: 'model' } });
    expect(fixture.received).toEqual([]);
  });

  it('is UNAVAILABLE where an owner does not tell in time', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.sequences.list({ model: 'a', limit: 1, after: undefined });
    await fixture.arrived(1);
    fixture.clock.advanceUs(60_000_000);
    expect(await answer).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    expect(fixture.clock.liveTimers).toBe(0);
  });

  it('is refused at a gateway that has stopped', async () => {
    const { gateway } = await gatewayFixture({ models: MODELS });
    await gateway.close();
    expect(await gateway.sequences.list({ model: '', limit: 1, after: undefined })).toMatchObject({ ok: false });
  });
});

describe('evicting a sequence', () => {
  it('asks every owner that may keep it, and tells what it was', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.sequences.evict('gw-9:4', '');
    await tell(fixture, 1, []);
    await tell(fixture, 2, [listed('gw-9:4')]);
    expect(await answer).toEqual({ ok: true, value: { model: 'b', ...listed('gw-9:4') } });
    expect(asked(fixture)).toEqual(['evict a gw-9:4', 'evict b gw-9:4']);
  });

  it('asks one owner where the model is known', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.sequences.evict('gw-9:4', 'b');
    await tell(fixture, 1, []);
    expect(await answer).toMatchObject({ ok: false, error: { code: 'NOT_FOUND', field: 'session' } });
    expect(asked(fixture)).toEqual(['evict b gw-9:4']);
  });

  it('is UNAVAILABLE, not NOT_FOUND, where one of them did not tell', async () => {
    const fixture = await gatewayFixture({ models: MODELS });
    const answer = fixture.gateway.sequences.evict('gw-9:4', '');
    await tell(fixture, 1, []);
    await fixture.arrived(2);
    fixture.clock.advanceUs(60_000_000);
    expect(await answer).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
  });
});
