import { LIMITS } from '@nereid/config';
import type { BlobTensor } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { type AnswerOrderListener, createAnswerOrder } from './answer-order.ts';
import { idsOf, startedCluster } from './fake-apart.ts';
import { type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

const SINGLES = 'max_batch_size: 1 dynamic_batching { preserve_ordering: true }';
const STREAMS = `${SINGLES} model_transaction_policy { decoupled: true }`;

/** One model `m`, two workers with one instance each, two gateways; one batch at a time goes to an instance. */
async function ordered(config = SINGLES) {
  const cluster = await startedCluster([fakeModel('m', config)]);
  const other = await cluster.addWorker('wk-2');
  await settle();
  const gateways = [cluster.gateway('gw-1'), cluster.gateway('gw-2')] as const;
  const [first] = gateways;
  return {
    ...cluster,
    other,
    gateways,
    answered: first.answered,
    /** One request after the other, by turns at each gateway; their ids. */
    async send(count: number) {
      const ids: string[] = [];
      for (let index = 0; index < count; index++) {
        ids.push(gateways[index % 2 === 0 ? 0 : 1].infer(fakeRequest('m')));
        await settle();
      }
      return ids;
    },
  };
}

/** As each gateway gets them: it takes in one go what came for it in a turn. */
const atGateways = (ids: readonly (string | undefined)[]) =>
  ['gw-1', 'gw-2'].map((gateway) => ids.filter((id) => id?.startsWith(gateway)));

async function finish(worker: FakeWorker, ...how: Parameters<FakeWorker['finish']>) {
  worker.finish(...how);
  await settle();
}

describe('preserve_ordering: answers over two workers and two gateways', () => {
  test('a slow first batch holds the answer of the second one back', async () => {
    const { worker, other, send, answered } = await ordered();
    const [first, second, third, fourth] = await send(4);
    expect([idsOf(worker), idsOf(other)]).toEqual([[first], [second]]);
    await finish(other);
    expect(idsOf(other)).toEqual([third]);
    await finish(other);
    await finish(other);
    expect(answered).toEqual([]);
    await finish(worker);
    expect(atGateways(answered)).toEqual(atGateways([first, second, third, fourth]));
  });

  test('without it each goes as it comes, and not by way of the owner', async () => {
    const { worker, other, send, answered } = await ordered('max_batch_size: 1 dynamic_batching { }');
    const [first, second] = await send(2);
    expect(worker.executes.map(({ entries }) => entries[0]?.replyTo)).toEqual(['gw-1']);
    await finish(other);
    await finish(worker);
    expect(answered).toEqual([second, first]);
  });

  test('while an answer waits its request is known: it is not run again, and can be cancelled', async () => {
    const { worker, other, send, answered, gateways, coordinator } = await ordered();
    const [first, second] = await send(2);
    await finish(other);
    gateways[1].infer(fakeRequest('m'), { id: second ?? '', sends: 2 });
    await settle();
    expect(idsOf(other)).toEqual([]);
    expect(coordinator.counts).toEqual({ queued: 0, running: 1, waits: 0 });
    gateways[1].cancel('m', second ?? '');
    await settle();
    await finish(worker);
    expect(answered).toEqual([first]);
  });

  test('a lost worker: its request runs again and keeps its place', async () => {
    const { worker, other, send, answered, gateways } = await ordered();
    const [first, second, third] = await send(3);
    await finish(other);
    await worker.leave();
    await settle();
    await finish(other);
    expect(answered).toEqual([]);
    expect(idsOf(other)).toEqual([first]);
    await finish(other);
    expect(atGateways(answered)).toEqual(atGateways([first, second, third]));
    expect(gateways[0].outcome(first ?? '')).toBe('ok');
  });

  test('one that fails for good answers in its place and releases those behind it', async () => {
    const { worker, other, send, answered, gateways, addWorker } = await ordered();
    const [first, second] = await send(2);
    await finish(other);
    await worker.leave();
    await settle();
    expect(idsOf(other)).toEqual([first]);
    await addWorker('wk-3');
    await other.leave();
    await settle();
    expect(answered).toEqual([first, second]);
    expect(gateways[0].outcome(first ?? '')).toMatch(/lost twice/);
    expect(gateways[1].outcome(second ?? '')).toBe('ok');
  });

  test('a running one that is cancelled holds nobody up', async () => {
    const { worker, other, send, answered, gateways } = await ordered();
    const [first, second] = await send(2);
    await finish(other);
    gateways[0].cancel('m', first ?? '');
    await settle();
    expect(answered).toEqual([second]);
    expect(worker.cancels.map(({ id }) => id)).toEqual([first]);
    await finish(worker, 'cancelled');
  });

  test('an error is an answer like any other; one without its data makes room for those behind it', async () => {
    const { worker, other, send, answered, gateways } = await ordered();
    const [first, second, third] = await send(3);
    await finish(other, 'error', false);
    worker.mute = true;
    await finish(worker, 'blob', false);
    expect(answered).toEqual([second]);
    expect(gateways[0].missing).toEqual([first]);
    worker.mute = false;
    gateways[0].infer(fakeRequest('m'), { id: first ?? '', sends: 2 });
    await settle();
    await finish(worker);
    expect(answered).toEqual([second]);
    await finish(other);
    expect(answered).toEqual([second, third, first]);
  });

  test('an answer that is lost on its way holds nobody up once its batch is over', async () => {
    const { worker, other, send, answered, loss } = await ordered();
    const [first, second] = await send(2);
    await finish(other);
    loss.of = ({ kind }) => kind === 'response';
    worker.finish();
    loss.of = () => false;
    await settle();
    expect(answered).toEqual([second]);
    expect(first).toBeDefined();
  });

  test('beside a limit: the one that all wait for is the next to go, though others wait for longer', async () => {
    const { worker, other, send, answered } = await ordered();
    const [first, second, third] = await send(3);
    const blob = { place: 'redis', id: 'x', bytes: LIMITS.ordered_bytes_held_max } as const;
    other.outputs = [{ name: 'B', datatype: 'UINT8', shape: [blob.bytes], blob }];
    await finish(other);
    expect([idsOf(worker), idsOf(other)]).toEqual([[first], []]);
    await worker.leave();
    await settle();
    expect(idsOf(other)).toEqual([first]);
    await finish(other);
    await finish(other);
    expect(atGateways(answered)).toEqual(atGateways([first, second, third]));
  });

  test('streams: the first flows, the next one waits for its end and then comes whole', async () => {
    const { worker, other, send, answered } = await ordered(STREAMS);
    const [first, second] = await send(2);
    other.part(0, 0);
    worker.part(0, 0);
    other.part(0, 1);
    await settle();
    expect(answered).toEqual([`${first}/0`]);
    worker.part(0, 1);
    worker.part(0, 2, true);
    await settle();
    expect(answered.slice(1)).toEqual([`${first}/1`, first, `${second}/0`, `${second}/1`]);
    other.part(0, 2, true);
    await settle();
    expect(answered.slice(5)).toEqual([second]);
    for (const one of [worker, other]) {
      one.mute = true;
      await finish(one);
    }
  });

  test('drain: what was accepted is answered in its order, then the model goes', async () => {
    const { worker, other, send, answered, coordinator } = await ordered();
    const ids = await send(3);
    const stopped = coordinator.stop();
    await settle();
    await finish(other);
    await finish(other);
    expect(answered).toEqual([]);
    await finish(worker);
    expect(atGateways(answered)).toEqual(atGateways(ids));
    await stopped;
  });
});

describe('preserve_ordering over a change of owner', () => {
  test('a late answer of the batch of an earlier owner goes by way of the present one, in its order', async () => {
    const { worker, other, send, answered, gateways, killFirst, startAnother } = await ordered();
    const [first, second] = await send(2);
    await killFirst();
    await startAnother('co-2');
    await settle();
    for (const [index, id] of [first, second].entries()) {
      gateways[index === 0 ? 0 : 1].infer(fakeRequest('m'), { id: id ?? '', sends: 2 });
    }
    await settle();
    expect([worker.executes.length, other.executes.length]).toEqual([1, 1]);
    await finish(other);
    expect(answered).toEqual([]);
    await finish(worker);
    expect(answered).toEqual([first, second]);
  });

  test('what its owner held is run again by the next one', async () => {
    const { worker, other, send, answered, gateways, killFirst, startAnother } = await ordered();
    const [first, second] = await send(2);
    await finish(other);
    await killFirst();
    await startAnother('co-2');
    await settle();
    expect(answered).toEqual([]);
    for (const [index, id] of [first, second].entries()) {
      gateways[index === 0 ? 0 : 1].infer(fakeRequest('m'), { id: id ?? '', sends: 2 });
    }
    await settle();
    expect(idsOf(other)).toEqual([second]);
    await finish(other);
    await finish(worker);
    expect(answered).toEqual([first, second]);
  });

  test('an answer whose request the present owner does not know yet is passed on', async () => {
    const { worker, send, answered, killFirst, startAnother } = await ordered();
    const [first] = await send(1);
    await killFirst();
    await startAnother('co-2');
    await settle();
    await finish(worker);
    expect(answered).toEqual([first]);
  });
});

test('in one process, too', async () => {
  const cluster = fakeCluster([fakeModel('m', SINGLES)], { instanceDepth: 1 });
  const worker = await cluster.worker();
  worker.instances = 2;
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  const ids = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'))];
  await settle();
  const [slow] = worker.executes.splice(0, 1);
  await finish(worker);
  expect(gateway.answered).toEqual([]);
  if (slow !== undefined) worker.executes.push(slow);
  await finish(worker);
  expect(gateway.answered).toEqual(ids);
  await cluster.coordinator.stop();
});

describe('what is held', () => {
  const message = (id: string, chunk = 0, last = true) =>
    ({
      kind: 'response',
      model: 'm',
      id,
      outcome: { ok: true, response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] } },
      execution: 'wk/1',
      chunk,
      last,
    }) as const;

  function held(limits = { answers_max: 2, bytes_max: 1_000_000 }) {
    const passed: string[] = [];
    const told: string[] = [];
    const kept = new Set<unknown>();
    const order = createAnswerOrder({
      owner: 'co-1',
      passOn: ({ id, outcome }) => void passed.push(outcome.ok ? id : `${id} ${outcome.error.reason}`),
      largeTensors: {
        keep(tensors) {
          for (const tensor of tensors) kept.add(tensor);
        },
        letGo(tensors) {
          for (const tensor of tensors) kept.delete(tensor);
        },
      },
      limits,
    });
    const listener: AnswerOrderListener = { room: () => told.push('room'), cancel: (id) => told.push(`cancel ${id}`) };
    order.listen(listener);
    return { order, passed, told, kept };
  }

  test('at a limit nothing more is sent, until answers have gone', () => {
    const { order, told, passed } = held();
    for (const id of ['a:1', 'b:1', 'b:2']) order.sent(id);
    order.take(message('b:1'));
    expect(order.full).toBe(false);
    order.take(message('b:2'));
    expect(order.full).toBe(true);
    order.take(message('a:1'));
    expect([order.full, told, passed]).toEqual([false, ['room'], ['a:1', 'b:1', 'b:2']]);
  });

  test('its bytes are bounded as well', () => {
    const { order } = held({ answers_max: 100, bytes_max: 200 });
    for (const id of ['a:1', 'b:1']) order.sent(id);
    order.take(message('b:1'));
    expect(order.full).toBe(true);
  });

  test('the one that all wait for is sent again also at a limit', () => {
    const { order, told } = held();
    for (const id of ['a:1', 'b:1', 'b:2']) order.sent(id);
    for (const id of ['b:1', 'b:2']) order.take(message(id));
    order.waitsAgain('a:1');
    expect([order.full, told]).toEqual([false, ['room']]);
    order.sent('a:1');
    expect(order.full).toBe(true);
  });

  test('a stream that goes on at a limit is cancelled, and says so in its place', () => {
    const { order, told, passed } = held();
    for (const id of ['a:1', 'b:1']) order.sent(id);
    for (const chunk of [0, 1, 2, 3]) order.take(message('b:1', chunk, false));
    expect(told).toContain('cancel b:1');
    order.take(message('a:1'));
    expect(passed).toEqual(['a:1', 'b:1 stream_unread']);
  });

  test('large tensors are kept from running out while they are held, and no longer', () => {
    const { order, kept } = held();
    const tensor: BlobTensor = {
      name: 'B',
      datatype: 'UINT8',
      shape: [9],
      blob: { place: 'redis', id: 'x', bytes: 9 },
    };
    const large = (id: string) => {
      const { outcome, ...rest } = message(id);
      return { ...rest, outcome: { ...outcome, response: { ...outcome.response, outputs: [tensor] } } };
    };
    for (const id of ['a:1', 'b:1', 'b:2']) order.sent(id);
    order.take(large('b:1'));
    expect(kept).toEqual(new Set([tensor]));
    order.dropped('b:1');
    expect(kept.size).toBe(0);
    order.take(large('b:2'));
    expect(kept.size).toBe(1);
    order.take(large('a:1'));
    expect(kept.size).toBe(0);
  });
});
