import { describe, expect, test } from 'vitest';
import { batchesOf, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

const DELAY_MS = 400;
const DELAYED = `max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: ${DELAY_MS * 1000} }`;
const EAGER = `${DELAYED} parameters { key: "nereid.eager_batch" value { string_value: "true" } }`;
/** Of the delay, for clients that were just answered. */
const AWAITED_MS = 50;

async function serving(config: string) {
  const cluster = fakeCluster([fakeModel('m', config)]);
  const worker = await cluster.worker();
  worker.instances = 2;
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  const send = async (more: Parameters<typeof gateway.infer>[1] = {}) => {
    const id = gateway.infer(fakeRequest('m'), more);
    await settle();
    return id;
  };
  const finish = async () => {
    worker.finish();
    await settle();
  };
  const sent = () => batchesOf(worker);
  const worker2 = async () => {
    const second = await cluster.worker('wk-2');
    await settle();
    return second;
  };
  return { ...cluster, worker, worker2, gateway, send, finish, sent };
}

describe('nereid.eager_batch', () => {
  test('a lone client does not wait, again and again', async () => {
    const { send, finish, sent, coordinator, clock } = await serving(EAGER);
    for (let round = 0; round < 3; round++) {
      const id = await send();
      expect(sent()).toEqual([[id]]);
      clock.advanceUs(5_000);
      await finish();
    }
    await coordinator.stop();
    expect(clock.liveTimers).toBe(0);
  });

  test('without it it waits for the whole delay', async () => {
    const { send, sent, finish, pass, coordinator } = await serving(DELAYED);
    await send();
    await pass(DELAY_MS - 1);
    expect(sent()).toEqual([]);
    await pass(1);
    expect(sent()).toHaveLength(1);
    await finish();
    await coordinator.stop();
  });

  test('what comes while another runs waits for its client, then goes with it', async () => {
    const { send, sent, finish, pass, coordinator } = await serving(EAGER);
    await send();
    const second = await send();
    await pass(AWAITED_MS + 1);
    expect(sent()).toHaveLength(1);
    await finish();
    expect(sent()).toEqual([]);
    const third = await send();
    expect(sent()).toEqual([[second, third]]);
    await finish();
    await coordinator.stop();
  });

  test('where that client stays away it goes a moment later', async () => {
    const { send, sent, finish, pass, coordinator } = await serving(EAGER);
    await send();
    const second = await send();
    await finish();
    await pass(AWAITED_MS - 1);
    expect(sent()).toEqual([]);
    await pass(1);
    expect(sent()).toEqual([[second]]);
    await finish();
    await coordinator.stop();
  });

  test('a gateway that still receives others is waited for, not longer than a moment', async () => {
    const { send, sent, finish, pass, coordinator } = await serving(EAGER);
    const first = await send({ coming: 1 });
    expect(sent()).toEqual([]);
    const second = await send();
    expect(sent()).toEqual([[first, second]]);
    await finish();
    await pass(DELAY_MS);
    const third = await send({ coming: 1 });
    await pass(AWAITED_MS);
    expect(sent()).toEqual([[third]]);
    await finish();
    await coordinator.stop();
  });

  test('a deadline is kept, by what a batch takes on average', async () => {
    const { send, sent, finish, pass, coordinator, clock } = await serving(EAGER);
    await send();
    // The fake's times: it ran for 9 ms, after 1 ms in its worker.
    clock.advanceUs(20_000);
    await finish();
    await send({ coming: 1 });
    await pass(AWAITED_MS);
    const waits = await send({ msLeft: 300 });
    // 200 ms are the door's, 19 ms a batch and its way, 2 ms a margin.
    await pass(78);
    expect(sent()).toHaveLength(1);
    await pass(2);
    expect(sent()[1]).toEqual([waits]);
    await finish();
    await finish();
    await coordinator.stop();
  });

  test('what a batch takes is known after the first one', async () => {
    const { send, sent, finish, pass, coordinator, clock } = await serving(EAGER);
    await send();
    clock.advanceUs(20_000);
    await finish();
    // Another is under way, which comes too late for it.
    const waits = await send({ coming: 1, msLeft: 260 });
    await pass(39);
    expect(sent()).toEqual([]);
    await pass(1);
    expect(sent()).toEqual([[waits]]);
    await finish();
    await coordinator.stop();
  });

  test('only clients that were answered are waited for, not those of a batch that came back', async () => {
    const { send, sent, finish, pass, coordinator, worker, ...cluster } = await serving(EAGER);
    await send();
    await finish();
    await pass(DELAY_MS);
    const other = await cluster.worker2();
    const again = await send();
    const [busy, idle] = worker.executes.length > 0 ? [worker, other] : [other, worker];
    busy.giveBack();
    await settle();
    expect(batchesOf(idle)).toEqual([[again]]);
    idle.finish();
    await settle();
    const next = await send();
    expect(batchesOf(idle)).toEqual([[next]]);
    idle.finish();
    await settle();
    await coordinator.stop();
  });
});

describe('a queue that drains', () => {
  test.each(['stop', 'unload'] as const)('by %s sends what waits without waiting for company', async (how) => {
    const cluster = fakeCluster([fakeModel('m', DELAYED)], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    const ids = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'))];
    await settle();
    expect(worker.executes).toEqual([]);
    const over = how === 'stop' ? cluster.coordinator.stop() : cluster.coordinator.unloadModel('m');
    await settle();
    expect(batchesOf(worker)).toEqual([ids]);
    worker.finish();
    await settle();
    await over;
    expect(ids.map((id) => gateway.outcome(id))).toEqual(['ok', 'ok']);
    await cluster.coordinator.stop();
  });
});
