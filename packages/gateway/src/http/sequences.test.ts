import type { EvictMessage, ListedSequence, ListMessage } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { identity, modelRecord } from '../gateway-fixture.ts';
import { parseRestricted } from '../restricted.ts';
import { httpFixture } from './http-fixture.ts';

const MODELS = [modelRecord(identity('m', 'FP32', '-1', 'sequence_batching { }'))];
const PATH = '/nereid/v1/sequences';

const KEPT: ListedSequence = {
  version: '1',
  session: 'gw-1:7',
  correlationId: 5n,
  place: { worker: 'wk-1', instance: 1, instanceName: 'm_0_1', slot: 2 },
  backlog: -1,
  steps: 4,
  waiting: 1,
  idleUs: 1_500,
  ageUs: 2_000_000,
};
const WAITS: ListedSequence = { ...KEPT, session: 'gw-2:1', correlationId: 'é', place: null, backlog: 3, steps: 0 };

type Request = { readonly method?: 'GET' | 'DELETE'; readonly url: string };

/** Asks once, with an owner that tells this. */
async function call({ method = 'GET', url }: Request, sequences: readonly ListedSequence[], more = false) {
  const fixture = await httpFixture({ models: MODELS });
  const answer = fixture.http.inject({ method, url });
  await fixture.arrived(1);
  const question = fixture.received[0] as ListMessage | EvictMessage;
  fixture.coordinator.send('gw-1', { kind: 'listed', model: 'm', id: question.id, sequences, more });
  const { statusCode, body } = await answer;
  return { statusCode, body: JSON.parse(body), question };
}

const KEPT_JSON = {
  model: 'm',
  version: '1',
  sequence_id: 5,
  session: 'gw-1:7',
  worker: 'wk-1',
  instance: 'm_0_1',
  slot: 2,
  steps: 4,
  waiting: 1,
  idle_ms: 1.5,
  age_ms: 2_000,
};

describe('GET /nereid/v1/sequences', () => {
  it('tells where each sequence is, or its place in the backlog', async () => {
    const { statusCode, body, question } = await call({ url: PATH }, [KEPT, WAITS]);
    const { worker, instance, slot, ...rest } = KEPT_JSON;
    expect([statusCode, body]).toEqual([
      200,
      { sequences: [KEPT_JSON, { ...rest, session: 'gw-2:1', sequence_id: 'é', backlog: 3, steps: 0 }] },
    ]);
    expect(question).toMatchObject({ kind: 'list', model: 'm', after: '', limit: 100 });
  });

  it('goes on where an earlier answer ended', async () => {
    const first = await call({ url: `${PATH}?model=m&limit=1` }, [KEPT], true);
    expect(first.body.next).toBe('m/gw-1:7');
    const second = await call({ url: `${PATH}?limit=2&after=${encodeURIComponent(first.body.next)}` }, []);
    expect(second.question).toMatchObject({ after: 'gw-1:7', limit: 2 });
    expect(second.body).toEqual({ sequences: [] });
  });

  it('tells ids beyond 2^53 as text, since JSON readers round them', async () => {
    const { body } = await call({ url: PATH }, [{ ...KEPT, correlationId: 2n ** 53n }]);
    expect(body.sequences[0].sequence_id).toBe('9007199254740992');
  });

  it.each([
    ['?limit=0', 'limit'],
    ['?limit=1001', 'limit'],
    ['?limit=x', 'limit'],
    ['?after=x', 'after'],
    ['?model=m&model=n', 'model'],
    ['?model=%', 'model'],
  ])('%s is 400 and names the field', async (query, field) => {
    const { http } = await httpFixture({ models: MODELS });
    const answer = await http.inject({ method: 'GET', url: PATH + query });
    expect([answer.statusCode, answer.json().field]).toEqual([400, field]);
  });

  it('of a model that keeps none is 404', async () => {
    const { http } = await httpFixture({ models: MODELS });
    const answer = await http.inject({ method: 'GET', url: `${PATH}?model=other` });
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'NOT_FOUND']);
  });
});

describe('DELETE /nereid/v1/sequences/{session}', () => {
  it('ends a sequence and tells what it was', async () => {
    const { statusCode, body, question } = await call({ method: 'DELETE', url: `${PATH}/gw-1:7?model=m` }, [KEPT]);
    expect([statusCode, body]).toEqual([200, KEPT_JSON]);
    expect(question).toMatchObject({ kind: 'evict', model: 'm', session: 'gw-1:7' });
  });

  it('is 404 where there is none', async () => {
    const { statusCode, body, question } = await call({ method: 'DELETE', url: `${PATH}/gw-1%3A8` }, []);
    expect([statusCode, body.field]).toEqual([404, 'session']);
    expect(question).toMatchObject({ session: 'gw-1:8' });
  });

  it('is an admin call, and statistics where those are restricted', async () => {
    const parsed = parseRestricted(['statistics:key=secret']);
    if (!parsed.ok) throw new Error(parsed.error.message);
    const { http } = await httpFixture({ models: MODELS, http: { restricted: parsed.value, adminKey: 'admin' } });
    const url = `${PATH}/gw-1:7`;
    const refused = async (headers: Record<string, string>) => {
      const { statusCode, json } = await http.inject({ method: 'DELETE', url, headers });
      return [statusCode, json().field];
    };
    expect(await refused({ 'Nereid-Admin-Key': 'admin' })).toEqual([403, 'key']);
    expect(await refused({ key: 'secret' })).toEqual([403, 'Nereid-Admin-Key']);
    expect(await refused({ key: 'secret', 'Nereid-Admin-Key': 'wrong' })).toEqual([403, 'Nereid-Admin-Key']);
  });
});
