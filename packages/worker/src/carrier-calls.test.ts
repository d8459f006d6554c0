import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createCarrierCalls } from './carrier-calls.ts';
import { WINDOW_CHUNKS_MAX } from './chunk-window.ts';
import { answerWith, fixtureCaller } from './fixture-caller.ts';
import type { InstanceBatch } from './instance-batch.ts';
import type { AnswerOrder, CallReport } from './instance-messages.ts';
import { int32Values, request } from './worker-harness.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function batchOf(requests: number): InstanceBatch {
  return {
    batch: 1,
    requests: Array.from({ length: requests }, (_, i) => request([], i === 1 ? { trace: TRACE } : {})),
    ids: Array.from({ length: requests }, (_, i) => `gw-1:${i}`),
    receivedNs: 0,
    cancelled: undefined,
    settle() {},
  };
}

/** The calls of a carrier that holds the batches 1 and 2, of two requests each. */
function carried() {
  const fixture = fixtureCaller();
  const first = batchOf(2);
  const second = batchOf(2);
  const orders: AnswerOrder[] = [];
  const held = new Map([
    [1, first],
    [2, second],
  ]);
  const carrier = createCarrierCalls({ caller: fixture.caller, held, post: (order) => orders.push(order) });
  let number = 0;
  return {
    made: fixture.calls,
    streams: () => fixture.streams,
    carrier,
    first,
    orders,
    call(places?: CallReport['places'], modelName = 'called') {
      carrier.take({ kind: 'call', call: ++number, request: request([], { modelName }), places });
    },
    cancel(batch: InstanceBatch, position: number) {
      batch.cancelled ??= new Set();
      batch.cancelled.add(position);
      carrier.cancelled(batch);
    },
    over(batch: InstanceBatch) {
      held.delete(1);
      carrier.over(batch);
    },
  };
}

const place = (sequence: number, position: number) => ({ sequence, position });

test('a call is answered once, by a copy of its outputs', async () => {
  const { made, call, orders } = carried();
  call();
  const outcome = answerWith([1, 2]);
  made[0]?.answer(outcome);
  await turn();
  expect(orders).toMatchObject([{ kind: 'answer', call: 1, last: true, decoupled: false, bytes: 8, outcome }]);
  const [order] = orders;
  const copy = order?.outcome.ok === true ? order.outcome.response.outputs[0] : undefined;
  expect(int32Values(copy)).toEqual([1, 2]);
  expect(copy?.data.buffer).not.toBe(outcome.ok && outcome.response.outputs[0]?.data.buffer);
});

test('a call belongs to the trace of the requests that it is made for, and names the first', async () => {
  const { made, call } = carried();
  call([place(1, 1)]);
  call();
  call([]);
  call([place(7, 0)]);
  const said = made.map(({ request: { trace, inner } }) => [trace, inner]);
  expect(said).toEqual([
    [TRACE, { keep: [], parent: { id: 'gw-1:1', step: -1 } }],
    [TRACE, { keep: [], parent: { id: 'gw-1:0', step: -1 } }],
    [undefined, { keep: [] }],
    [undefined, { keep: [] }],
  ]);
});

test.each([
  ['for one request', [place(1, 0)], 0, true],
  ['for another one', [place(1, 1)], 0, false],
  ['for one in another batch', [place(2, 0)], 0, false],
  ['for all that run', undefined, 0, false],
  ['for nobody', [], 0, false],
])('made %s: the cancel of the first cancels it or not', (_what, places, position, cancelled) => {
  const { made, call, cancel, first } = carried();
  call(places);
  cancel(first, position);
  expect(made[0]?.cancelled).toBe(cancelled);
});

test.each([[undefined], [[place(1, 0), place(1, 1)]]])(
  'made for several (%o) it is cancelled with the last of them',
  async (places) => {
    const { made, call, cancel, first, orders } = carried();
    call(places);
    cancel(first, 0);
    expect(made[0]?.cancelled).toBe(false);
    cancel(first, 1);
    expect(made[0]?.cancelled).toBe(true);
    await turn();
    expect(orders).toMatchObject([{ call: 1, last: true, outcome: { ok: false, error: { code: 'CANCELLED' } } }]);
  },
);

test('made while all are cancelled, nobody is called', () => {
  const { made, call, cancel, first, orders } = carried();
  cancel(first, 0);
  cancel(first, 1);
  call();
  expect(made).toEqual([]);
  expect(orders).toMatchObject([{ call: 1, last: true, outcome: { ok: false, error: { code: 'CANCELLED' } } }]);
});

test('it goes on when the batch is over', async () => {
  const { made, call, cancel, first, over, orders } = carried();
  call();
  over(first);
  cancel(first, 0);
  cancel(first, 1);
  expect(made[0]?.cancelled).toBe(false);
  made[0]?.answer(answerWith([1]));
  await turn();
  expect(orders).toMatchObject([{ call: 1, outcome: { ok: true } }]);
});

test('a call that its model leaves is cancelled, and told to be over', async () => {
  const { made, call, carrier, orders } = carried();
  call();
  carrier.take({ kind: 'call-left', call: 1 });
  expect(made[0]?.cancelled).toBe(true);
  await turn();
  expect(orders).toMatchObject([{ call: 1, last: true, outcome: { ok: false } }]);
});

test('with its carrier all end, and nobody is told', async () => {
  const { made, call, carrier, orders, ...rest } = carried();
  call();
  call([], `stream${WINDOW_CHUNKS_MAX + 2}`);
  await turn();
  const before = orders.length;
  carrier.end();
  made[0]?.answer(answerWith([1]));
  await turn();
  expect([made[0]?.cancelled, rest.streams(), orders.length - before]).toEqual([true, 0, 0]);
});

test('answers of a stream go as its model reads them', async () => {
  const { call, carrier, orders, streams } = carried();
  call([], `stream${WINDOW_CHUNKS_MAX + 2}`);
  await turn();
  expect([orders.length, streams()]).toEqual([WINDOW_CHUNKS_MAX, 1]);
  carrier.take({ kind: 'call-read', call: 1, chunks: WINDOW_CHUNKS_MAX, bytes: 0 });
  await turn();
  expect([orders.length, streams()]).toEqual([WINDOW_CHUNKS_MAX + 2, 0]);
  expect(orders.map(({ last }) => last).indexOf(true)).toBe(WINDOW_CHUNKS_MAX + 1);
});

test('a stream that is left while nothing passes ends', async () => {
  const { call, carrier, streams } = carried();
  call([], `stream${WINDOW_CHUNKS_MAX * 2}`);
  await turn();
  carrier.take({ kind: 'call-left', call: 1 });
  await turn();
  expect(streams()).toBe(0);
});
