/** Priorities and queue policies, at the owner of a model. */
import { describe, expect, test } from 'vitest';
import { batchesOf, type FakeWorker, fakeCluster, fakeModel, fakeRequest, serving, settle } from './fake-cluster.ts';

const ALONE = 'max_batch_size: 1';
const LEVELS = `${ALONE} dynamic_batching { priority_levels: 3 default_priority_level: 2 }`;
const policy = (text: string) => `${ALONE} dynamic_batching { default_queue_policy { ${text} } }`;
const EXPIRING = policy('default_timeout_microseconds: 100000 allow_timeout_override: true');

async function queueing(config: string) {
  const cluster = await serving(config);
  const send = (more: Parameters<typeof fakeRequest>[1] = {}) =>
    cluster.gateway.infer(fakeRequest('m', { shape: [1, 1], ...more }));
  return { ...cluster, send };
}

/** Ends batch after batch; the ids of all requests in the order in which they ran. */
async function runAll(worker: FakeWorker): Promise<string[]> {
  const ran: string[] = [];
  while (worker.executes.length > 0) {
    ran.push(...worker.finish().entries.map(({ id }) => id));
    await settle();
  }
  return ran;
}

test('requests go by their priority', async () => {
  const { worker, coordinator, send } = await queueing(LEVELS);
  const blocker = send();
  await settle();
  const [low, none, beyond, high] = [3n, 0n, 9n, 1n].map((priority) => send({ priority }));
  await settle();
  expect(batchesOf(worker)).toEqual([[blocker]]);
  expect(await runAll(worker)).toEqual([blocker, high, none, beyond, low]);
  await coordinator.stop();
});

test('what came while the model was being loaded goes by its priority, too', async () => {
  const { directory, ...cluster } = fakeCluster([fakeModel('m', LEVELS)]);
  const worker = await cluster.worker();
  const gateway = cluster.gateway();
  const sent: string[] = [];
  const stop = directory.watch(() => {
    if (sent.length > 0 || directory.record('m')?.versions[0]?.state !== 'LOADING') return;
    for (const priority of [3n, 1n]) sent.push(gateway.infer(fakeRequest('m', { shape: [1, 1], priority })));
  });
  await cluster.coordinator.start();
  stop();
  await settle();
  expect(gateway.stale).toEqual([]);
  expect(await runAll(worker)).toEqual([sent[1], sent[0]]);
  await cluster.coordinator.stop();
});

describe('a queue time-out', () => {
  test('ends a request when it is due, in words without its id, as a failure that was rejected', async () => {
    const { worker, gateway, coordinator, send, pass, clock, metrics } = await queueing(EXPIRING);
    send();
    const late = send({ id: 'mine' });
    const sooner = send({ timeoutUs: 20_000n });
    const longer = send({ timeoutUs: 900_000n });
    await settle();
    await pass(19.999);
    expect(gateway.outcome(sooner)).toBe('none');
    await pass(0.001);
    expect(gateway.outcome(sooner)).toBe('UNAVAILABLE: Request timeout expired');
    await pass(79.999);
    expect([late, longer].map(gateway.outcome)).toEqual(['none', 'none']);
    await pass(0.001);
    expect([late, longer].map(gateway.outcome)).toEqual([
      'UNAVAILABLE: Request timeout expired',
      'UNAVAILABLE: Request timeout expired',
    ]);
    expect(clock.liveTimers).toBe(0);
    expect(await metrics()).toContain('nv_inference_request_failure{model="m",version="1",reason="REJECTED"} 3');
    await runAll(worker);
    await coordinator.stop();
  });

  test('is over once the request was sent', async () => {
    const { worker, gateway, coordinator, send, pass } = await queueing(EXPIRING);
    const running = send();
    await settle();
    await pass(5_000);
    await runAll(worker);
    expect(gateway.outcome(running)).toBe('ok');
    await coordinator.stop();
  });

  test('may delay instead', async () => {
    const delaying = policy('default_timeout_microseconds: 100000 timeout_action: DELAY');
    const { worker, coordinator, send, pass } = await queueing(delaying);
    const blocker = send();
    await settle();
    const delayed = send();
    await settle();
    await pass(150);
    const fresh = send();
    await settle();
    expect(await runAll(worker)).toEqual([blocker, fresh, delayed]);
    await coordinator.stop();
  });
});

test('a full level refuses with the id of the request, counted as rejected', async () => {
  const { worker, gateway, coordinator, send, metrics } = await queueing(policy('max_queue_size: 1'));
  send();
  await settle();
  const waits = send();
  const refused = send({ id: 'mine' });
  await settle();
  expect(batchesOf(worker)).toHaveLength(1);
  expect(gateway.outcome(refused)).toBe('UNAVAILABLE: [request id: mine] Exceeds maximum queue size');
  expect(await metrics()).toContain('nv_inference_request_failure{model="m",version="1",reason="REJECTED"} 1');
  await runAll(worker);
  expect(gateway.outcome(waits)).toBe('ok');
  await coordinator.stop();
});

test('a delay under a millisecond is kept to the microsecond', async () => {
  const config = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 250 }';
  const { worker, coordinator, send, clock } = await queueing(config);
  send();
  await settle();
  clock.advanceUs(249);
  await settle();
  expect(batchesOf(worker)).toEqual([]);
  clock.advanceUs(1);
  await settle();
  expect(batchesOf(worker)).toHaveLength(1);
  await runAll(worker);
  await coordinator.stop();
});

describe('a request whose batch was lost', () => {
  /** Each of two workers runs one request; others wait. */
  async function twoBusy(config: string) {
    const cluster = await queueing(config);
    const other = await cluster.addWorker('wk-2');
    await settle();
    const sent = [cluster.send(), cluster.send()];
    await settle();
    const lost = cluster.worker.executes[0]?.entries[0]?.id ?? '';
    return { ...cluster, other, lost, runs: sent.find((id) => id !== lost) ?? '' };
  }

  test.each([
    ['with its worker', (worker: FakeWorker) => worker.leave()],
    ['given back by it', async (worker: FakeWorker) => worker.giveBack()],
  ])('is the next of its level: %s', async (_how, lose) => {
    const { worker, other, coordinator, send, lost, runs } = await twoBusy(LEVELS);
    const waits = send();
    const high = send({ priority: 1n });
    await settle();
    await lose(worker);
    await settle();
    expect(await runAll(other)).toEqual([runs, high, lost, waits]);
    await coordinator.stop();
  });

  test('shares a batch with those of others that were lost at the same time, the highest level first', async () => {
    const config = 'max_batch_size: 8 dynamic_batching { priority_levels: 2 default_priority_level: 2 }';
    const { coordinator, ...cluster } = fakeCluster([fakeModel('m', config)]);
    const worker = await cluster.worker();
    worker.instances = 2;
    const gateway = cluster.gateway();
    await coordinator.start();
    const [low, high] = [2n, 1n].map((priority) => gateway.infer(fakeRequest('m', { priority })));
    await settle();
    expect(batchesOf(worker)).toEqual([[low], [high]]);
    const other = await cluster.worker('wk-2');
    await settle();
    await worker.leave();
    await settle();
    expect(batchesOf(other)).toEqual([[high, low]]);
    await runAll(other);
    await coordinator.stop();
  });

  test('is neither late nor one too many', async () => {
    const config = policy('max_queue_size: 1 default_timeout_microseconds: 100000');
    const { worker, other, gateway, coordinator, send, pass, lost, runs } = await twoBusy(config);
    await pass(90);
    const waits = send();
    await settle();
    await pass(50);
    await worker.leave();
    await settle();
    expect(gateway.outcome(lost)).toBe('none');
    await pass(40);
    expect(await runAll(other)).toEqual([runs, lost, waits]);
    await coordinator.stop();
  });
});
