import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { fakeRequest, serving, settle } from './fake-cluster.ts';
import type { FakeGateway } from './fake-gateway.ts';
import { createRunNotes, IN_NO_BATCH } from './run-notes.ts';
import { newBatch } from './sent-batch.ts';
import type { OwnedRequest } from './version-queue.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const DYNAMIC = 'max_batch_size: 4 dynamic_batching { }';

/** The runs that a coordinator tells of. */
async function runs(gateway: FakeGateway, about: string, parents: readonly string[] = []) {
  gateway.explain(about, parents);
  await settle();
  return gateway.explained.at(-1)?.runs ?? [];
}

function ownedRequest(requestId: string): OwnedRequest {
  const message = { id: `co-1:${requestId}`, model: 'm', request: fakeRequest('m', { id: requestId }) };
  return {
    ...{ id: message.id, message: message as OwnedRequest['message'], job: `m~${requestId}` },
    ...{ rows: 1, shapeKey: '', arrivedUs: 0, priority: 0, timeoutUs: 0, deadlineUs: undefined, patient: true },
    ...{ sender: 'co-1', coming: 0, sequence: undefined, foundWaiting: 0, foundAhead: 0, foundRunning: 0 },
  };
}

test('a request is found by token, client id and trace: what was before it, and how long all took', async () => {
  const { gateway, worker, clock, pass } = await serving(DYNAMIC);
  const before = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'))];
  await settle();
  const trace = `00-${TRACE}-00f067aa0ba902b7-01`;
  const id = gateway.infer(fakeRequest('m', { id: 'mine', trace, shape: [2, 4] }));
  await settle();
  await pass(5);
  while (worker.executes.length > 0) {
    worker.finish();
    await settle();
  }
  const told = await runs(gateway, 'mine');
  expect(told).toHaveLength(1);
  const [run] = told;
  expect(run).toMatchObject({
    ...{ process: 'co-1', id, requestId: 'mine', model: 'm', version: '1', trace: TRACE, parent: null, job: '' },
    ...{ state: 'ok', error: null, events: [], rows: 2, priority: 0, copies: 0, losses: 0 },
    tookUs: expect.closeTo(5_000, -1),
    arrivedMs: expect.closeTo(clock.wallMs() - 5, 0),
  });
  expect((run?.waiting ?? 0) + (run?.running ?? 0)).toBe(before.length);
  expect(run?.batch).toMatchObject({
    ...{ worker: 'wk-1', instance: 0, instanceName: 'm_0_0', slot: -1, reason: 'free' },
    timing: { waitNs: 1_000_500, inputNs: 2_000_999, inferNs: 3_000_000, outputNs: 4_000_000 },
  });
  expect(await runs(gateway, id)).toEqual(told);
  expect(await runs(gateway, TRACE)).toEqual(told);
  expect(await runs(gateway, 'other')).toEqual([]);
});

test('two clients in one batch are named to each other, also while it runs', async () => {
  const config = 'max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 1000000 }';
  const { gateway, worker } = await serving(config);
  const [a, b] = [gateway.infer(fakeRequest('m', { id: 'a' })), gateway.infer(fakeRequest('m', { id: 'b' }))];
  await settle();
  const others = [{ id: b, requestId: 'b' }];
  const batch = { reason: 'full', requests: 2, rows: 2, others };
  expect(await runs(gateway, a)).toMatchObject([{ state: 'running', batch: { ...batch, timing: null } }]);
  worker.finish();
  await settle();
  expect(await runs(gateway, a)).toMatchObject([{ state: 'ok', batch }]);
});

test('what stays with a job names the others of its batch, which are not over yet', () => {
  const clock = virtualClock();
  const notes = createRunNotes({ id: 'co-1', clock });
  const epoch = { number: 1, owner: 'co-1' };
  const requests = ['a', 'b'].map(ownedRequest);
  const source = { model: 'm', version: '1', load: 0, epoch: () => epoch, nextBatch: () => 7, answersTo: undefined };
  const batch = newBatch(source, { worker: 'wk-1', index: 0, name: 'm_0_0' }, requests, 0);
  const [request] = requests;
  if (request === undefined) throw new Error('no request');
  const run = notes.of('co-1:a', { source, entry: { ...IN_NO_BATCH, request, batch } }, { state: 'ok' });
  expect(run).toMatchObject({ state: 'ok', batch: { number: 7, others: [{ id: 'co-1:b', requestId: 'b' }] } });
});

test('what its level is behind, of a model with priorities', async () => {
  const levels = 'max_batch_size: 1 dynamic_batching { priority_levels: 2 default_priority_level: 2 }';
  const { gateway, worker } = await serving(levels);
  for (let count = 0; count < 4; count++) gateway.infer(fakeRequest('m'));
  const first = gateway.infer(fakeRequest('m', { priority: 1n }));
  const second = gateway.infer(fakeRequest('m', { priority: 2n }));
  await settle();
  expect(worker.executes).toHaveLength(1);
  expect(await runs(gateway, first)).toMatchObject([{ priority: 1, waiting: 3, ahead: 0, running: 1 }]);
  expect(await runs(gateway, second)).toMatchObject([{ priority: 2, waiting: 4, ahead: 4, running: 1 }]);
});

test('a lost worker shows as a retry; a second loss as the failure', async () => {
  const { gateway, worker, addWorker } = await serving();
  const id = gateway.infer(fakeRequest('m'));
  await settle();
  const next = await addWorker('wk-2');
  await settle();
  await worker.leave();
  await settle();
  expect(next.executes).toHaveLength(1);
  const events = [{ what: 'its batch was lost at wk-1' }];
  expect(await runs(gateway, id)).toMatchObject([{ state: 'running', losses: 1, events, batch: { worker: 'wk-2' } }]);
  await next.leave();
  await settle();
  expect(await runs(gateway, id)).toMatchObject([
    { state: 'error', losses: 2, error: { code: 'UNAVAILABLE' }, batch: { timing: null } },
  ]);
});

test('a request that comes to no queue, and one whose worker takes no more', async () => {
  const { gateway, worker } = await serving();
  const refused = gateway.infer(fakeRequest('m', { modelVersion: '7' }));
  const id = gateway.infer(fakeRequest('m'));
  await settle();
  expect(await runs(gateway, refused)).toMatchObject([{ state: 'error', error: { code: 'NOT_FOUND' }, batch: null }]);
  await worker.drain();
  worker.giveBack();
  await settle();
  const events = [{ what: 'wk-1 takes no more, or does not have its sequence' }];
  expect(await runs(gateway, id)).toMatchObject([{ state: 'waiting', losses: 0, events }]);
});

test('errors of models, copies, cancels, and ids that are too long', async () => {
  const { gateway, worker } = await serving();
  const id = gateway.infer(fakeRequest('m', { id: 'x'.repeat(1_000) }));
  await settle();
  gateway.infer(fakeRequest('m'), { id, g: 1, sends: 2 });
  await settle();
  worker.finish('error');
  await settle();
  const error = { code: 'INTERNAL', message: 'model failed', reason: '' };
  expect(await runs(gateway, id)).toMatchObject([{ state: 'error', copies: 1, error, requestId: 'x'.repeat(256) }]);
  const first = gateway.infer(fakeRequest('m'));
  for (let count = 0; count < 4; count++) gateway.infer(fakeRequest('m'));
  const second = gateway.infer(fakeRequest('m'));
  await settle();
  gateway.cancel('m', second);
  await settle();
  expect(await runs(gateway, second)).toMatchObject([{ state: 'error', error: { code: 'CANCELLED' } }]);
  expect(await runs(gateway, first)).toMatchObject([{ state: 'running' }]);
});

test('a cancelled request that its worker runs already in another batch has left', async () => {
  const { gateway, worker } = await serving();
  const id = gateway.infer(fakeRequest('m'));
  await settle();
  gateway.cancel('m', id);
  await settle();
  worker.mute = true;
  worker.finish('duplicate', false);
  await settle();
  expect(await runs(gateway, id)).toMatchObject([{ state: 'left', events: [{ what: 'wk-1 runs it already' }] }]);
});

test('calls are found by the request that they were made for', async () => {
  const { gateway } = await serving();
  const id = gateway.infer(fakeRequest('m', { inner: { keep: [], parent: { id: 'gw-9:4', step: 2 } } }));
  await settle();
  expect(await runs(gateway, '', ['gw-9:3', 'gw-9:4'])).toMatchObject([{ id, parent: { id: 'gw-9:4', step: 2 } }]);
  expect(await runs(gateway, 'gw-9:4')).toEqual([]);
});

test('no more are told than were asked for, the newest first', async () => {
  const { gateway, worker } = await serving();
  const ids = [1, 2, 3].map(() => gateway.infer(fakeRequest('m', { id: 'same' })));
  await settle();
  while (worker.executes.length > 0) {
    worker.finish();
    await settle();
  }
  gateway.explain('same', [], 2);
  await settle();
  const told = gateway.explained.at(-1);
  expect(told?.runs.map((run) => run.id)).toEqual([ids[2], ids[1]]);
  expect(told?.more).toBe(true);
});
