import { type InferMessage, type InferRequest, type Outcome, REQUEST_DEFAULTS } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { type CallMark, createCallNotes } from './call-notes.ts';
import type { PendingRequest } from './pending.ts';

const OK: Outcome = { ok: true, response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] } };
const FAILED: Outcome = { ok: false, error: { code: 'INTERNAL', message: 'no '.repeat(500), reason: 'why' } };

function opened() {
  const clock = virtualClock();
  const waiting: PendingRequest[] = [];
  const notes = createCallNotes({ id: 'gw-1', clock, recent_max: 4, kept_max: 2, waiting: () => waiting });
  const ask = (about: string, parents: readonly string[] = []) =>
    notes.tell({ kind: 'explain', id: 'gw-2:e1', about, parents, limit: 100 }).calls;
  return { clock, waiting, notes, ask };
}

function pending(g: number, of: Partial<InferRequest> = {}, more: Partial<PendingRequest> = {}): PendingRequest {
  const message: InferMessage = {
    ...{ kind: 'infer', model: 'm', epoch: { number: 1, owner: 'co-1' }, id: `gw-1:${g}`, g, low: 1, prev: 0 },
    ...{ session: null, step: -1, sends: 1, msLeft: 0, replyTo: 'gw-1' },
    request: { ...REQUEST_DEFAULTS, modelName: 'm', inputs: [], ...of },
  };
  return {
    ...{ message, resolve: () => {}, stream: undefined, step: undefined, settled: undefined, signal: undefined },
    ...{ onAbort: undefined, deadlineUs: undefined, sentUs: 0, resendMs: 0, redirects: 0, tensorLosses: 0 },
    ...{
      relocating: false,
      timed: undefined,
      missing: undefined,
      returned: false,
      strandedUs: undefined,
      arrivedUs: 0,
      mark: undefined,
      events: undefined,
    },
    ...more,
  };
}

test('a request is told while it waits and when it is over, with what happened to it', () => {
  const { clock, waiting, notes, ask } = opened();
  const mark: CallMark = { door: 'grpc', id: 'gw-1:1' };
  const waits = pending(1, { id: 'mine' }, { mark, events: [{ atUs: 500, what: 'sent to co-2' }] });
  waiting.push(waits);
  clock.advanceUs(2_000);
  const events = [{ afterUs: 500, what: 'sent to co-2' }];
  const expected = { id: 'gw-1:1', requestId: 'mine', door: 'grpc', owner: 'co-1', sends: 1, tookUs: 2_000, events };
  expect(ask('mine')).toMatchObject([{ ...expected, state: 'waiting' }]);
  waiting.pop();
  notes.ended(waits, OK);
  clock.advanceUs(9_000);
  expect(ask('mine')).toMatchObject([{ ...expected, state: 'ok', error: null }]);
});

test('texts are cut, and a failure stays for longer than what went well', () => {
  const { notes, ask } = opened();
  notes.ended(pending(1, { id: 'bad' }), FAILED);
  for (let g = 2; g <= 6; g++) notes.ended(pending(g, { id: 'good' }), OK);
  expect(ask('good').map(({ id }) => id)).toEqual(['gw-1:6', 'gw-1:5', 'gw-1:4', 'gw-1:3']);
  const [bad] = ask('bad');
  expect(bad).toMatchObject({ state: 'error', error: { code: 'INTERNAL', reason: 'why' } });
  expect(bad?.error?.message).toHaveLength(256);
  const long = { modelName: 'm'.repeat(500), modelVersion: '9'.repeat(500), id: 'x'.repeat(500) };
  notes.refused({ door: 'grpc', id: '' }, long, { code: 'INVALID_ARG', message: 'no such number' });
  const [refused] = ask(long.id);
  expect([refused?.model, refused?.version, refused?.requestId].map((text) => text?.length)).toEqual([256, 256, 256]);
});

test('no text of a request is kept whole, whatever a client sends', () => {
  const { notes, ask } = opened();
  const long = 'x'.repeat(100_000);
  const mark: CallMark = { door: 'grpc', id: '' };
  const request = pending(1, { id: 'long', modelName: long, modelVersion: long, correlationId: long }).message.request;
  notes.refused(mark, request, { code: 'NOT_FOUND', message: long, reason: long });
  notes.refused(mark, { id: 'long', modelName: long, modelVersion: long }, { code: 'NOT_FOUND', message: long });
  for (const told of ask('long'))
    expect(JSON.stringify({ ...told, correlationId: String(told.correlationId) }).length).toBeLessThan(2_000);
  expect(ask('long')).toHaveLength(2);
});

test('what was never sent gets a token of its own', () => {
  const { notes, ask } = opened();
  const refused: CallMark = { door: 'http', id: '' };
  const cached: CallMark = { door: 'http', id: '' };
  notes.refused(refused, { modelName: 'm', modelVersion: '', id: 'x' }, { code: 'NOT_FOUND', message: 'none' });
  notes.cached(cached, pending(1, { id: 'y' }).message.request);
  expect([refused.id, cached.id]).toEqual(['gw-1:r1', 'gw-1:r2']);
  expect(ask('gw-1:r1')).toMatchObject([{ requestId: 'x', sends: 0, owner: '', error: { code: 'NOT_FOUND' } }]);
  expect(ask('y')).toMatchObject([{ id: 'gw-1:r2', cached: true, state: 'ok' }]);
});

test('inner calls are found by the request that they were made for', () => {
  const { notes, ask } = opened();
  notes.ended(pending(1, { inner: { keep: [], parent: { id: 'gw-9:1', step: 2 } } }), OK);
  expect(ask('', ['gw-9:1'])).toMatchObject([{ id: 'gw-1:1', door: 'inner' }]);
  expect(ask('')).toEqual([]);
});
