import { describe, expect, test } from 'vitest';
import { batchesOf, fakeCluster, fakeModel, fakeRequest, serving, settle } from './fake-cluster.ts';
import type { FakeGateway } from './fake-gateway.ts';

const BATCHING = 'max_batch_size: 8 dynamic_batching {}';
const FULL = 'UNAVAILABLE: [request id: mine] Exceeds maximum queue size';

/** Sends so many requests of one row. */
const many = (gateway: FakeGateway, count: number) =>
  Array.from({ length: count }, () => gateway.infer(fakeRequest('m')));

describe('R29: a request whose data the worker did not find', () => {
  test('goes back to its sender, is forgotten, and is run when it comes again', async () => {
    const { worker, gateway, coordinator, metrics } = await serving();
    const request = fakeRequest('m');
    const id = gateway.infer(request);
    await settle();
    worker.mute = true;
    worker.finish('blob', false);
    await settle();
    expect(gateway.missing).toEqual([id]);
    expect(gateway.outcome(id)).toBe('none');
    expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
    expect(await metrics()).not.toMatch(/nv_inference_request_failure\{.*\} [1-9]/);
    worker.mute = false;
    gateway.infer(request, { id, sends: 2 });
    await settle();
    worker.finish();
    await settle();
    expect(gateway.outcome(id)).toBe('ok');
    await coordinator.stop();
  });

  test('ends as cancelled where nobody waits for it', async () => {
    const { worker, gateway, coordinator } = await serving();
    const id = gateway.infer(fakeRequest('m'));
    await settle();
    gateway.cancel('m', id);
    await settle();
    worker.mute = true;
    worker.finish('blob', false);
    await settle();
    expect(gateway.missing).toEqual([]);
    expect(gateway.outcome(id)).toMatch(/^CANCELLED/);
    await coordinator.stop();
  });
});

describe('a line of a batch', () => {
  const line = (gateway: FakeGateway) => gateway.infer(fakeRequest('m', { background: true }));

  test('goes to an instance that runs nothing, fills what is left of others, and is answered as they are', async () => {
    const { worker, gateway, coordinator } = await serving(BATCHING);
    const lines = [line(gateway), line(gateway), line(gateway)];
    await settle();
    expect(batchesOf(worker)).toEqual([[lines[0]]]);
    expect(coordinator.counts).toMatchObject({ queued: 2, running: 1 });
    // The instance has a second place, for full batches of others alone.
    const full = many(gateway, 8);
    await settle();
    expect(batchesOf(worker)).toEqual([[lines[0]], full]);
    worker.finish();
    await settle();
    const last = gateway.infer(fakeRequest('m'));
    worker.finish();
    await settle();
    expect(batchesOf(worker)).toEqual([[last, ...lines.slice(1)]]);
    worker.finish();
    await settle();
    expect(lines.map(gateway.outcome)).toEqual(['ok', 'ok', 'ok']);
    expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
    await coordinator.stop();
  });

  test('goes on where an instance holds fewer batches than before, since these take longer now', async () => {
    const { worker, gateway, coordinator } = await serving();
    const lines = Array.from({ length: 12 }, () => line(gateway));
    const fast = { waitNs: 0, inputNs: 0, inferNs: 20_000, outputNs: 0 };
    for (const [index] of lines.entries()) {
      worker.timing = { ...fast, inferNs: index < 4 ? 20_000 : 50_000_000 };
      await settle();
      worker.finish();
    }
    await settle();
    expect(lines.map(gateway.outcome)).toEqual(Array(12).fill('ok'));
    await coordinator.stop();
  });

  test('that is cancelled leaves, and one of a lost worker runs at the next', async () => {
    const { worker, addWorker, gateway, coordinator } = await serving();
    const lines = [line(gateway), line(gateway)];
    await settle();
    expect(batchesOf(worker)).toEqual([[lines[0]]]);
    gateway.cancel('m', lines[1] ?? '');
    await settle();
    expect(gateway.outcome(lines[1] ?? '')).toMatch(/^CANCELLED/);
    const next = await addWorker('wk-2');
    await worker.leave();
    await settle();
    expect(batchesOf(next)).toEqual([[lines[0]]]);
    next.finish();
    await settle();
    expect(gateway.outcome(lines[0] ?? '')).toBe('ok');
    await coordinator.stop();
  });
});

describe('a request', () => {
  test('goes to a worker with all that it needs, and its answer frees the instance', async () => {
    const { worker, gateway, coordinator, directory } = await serving('', { instanceDepth: 1 });
    const [first, second] = many(gateway, 2);
    await settle();
    expect(worker.executes).toEqual([
      {
        kind: 'execute',
        model: 'm',
        epoch: directory.owner('m'),
        version: '1',
        batch: 1,
        instance: 0,
        entries: [{ id: first, replyTo: 'gw-1', request: fakeRequest('m'), session: null, slot: -1 }],
      },
    ]);
    expect(coordinator.counts).toEqual({ queued: 1, running: 1, waits: 0 });
    worker.finish();
    await settle();
    expect(gateway.outcome(first ?? '')).toBe('ok');
    expect(batchesOf(worker)).toEqual([[second]]);
    worker.finish();
    await settle();
    expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
    await coordinator.stop();
  });

  test.each([
    ['no version: the greatest READY one', '', '10'],
    ['a version by number', '9', '9'],
    ['leading zeros do not matter', '09', '9'],
  ])('%s', async (_rule, modelVersion, expected) => {
    const { worker, gateway, coordinator } = await serving('', {}, ['9', '10']);
    gateway.infer(fakeRequest('m', { modelVersion }));
    await settle();
    expect(worker.executes.map(({ version }) => version)).toEqual([expected]);
    worker.finish();
    await settle();
    await coordinator.stop();
  });

  test("an unknown model or version is refused in Triton's words", async () => {
    const { gateway, coordinator, clock } = await serving();
    const model = gateway.infer(fakeRequest('x'));
    const version = gateway.infer(fakeRequest('m', { modelVersion: '7' }));
    await settle();
    expect(gateway.outcome(model)).toBe("NOT_FOUND: Request for unknown model: 'x' is not found");
    expect(gateway.outcome(version)).toBe("NOT_FOUND: Request for unknown model: 'm' version 7 is not found");
    await coordinator.stop();
    expect(clock.liveTimers).toBe(0);
  });

  test('R6: meant for another epoch it is handed back with the present one', async () => {
    const { gateway, coordinator, directory, worker } = await serving();
    const epoch = { number: 99, owner: 'co-1' };
    const request = gateway.infer(fakeRequest('m'), { epoch });
    gateway.cancel('m', request, epoch);
    await settle();
    const known = directory.owner('m');
    expect(gateway.stale).toEqual([
      { kind: 'stale', model: 'm', id: request, known },
      { kind: 'stale', model: 'm', id: request, known },
    ]);
    expect(worker.executes).toEqual([]);
    expect(coordinator.refusedMessages).toBe(2);
    await coordinator.stop();
  });

  test('a model that another coordinator owns is handed on', async () => {
    const { gateway, coordinator, directory } = await serving();
    const known = await directory.acquire('x', 'co-2');
    const request = gateway.infer(fakeRequest('x'), { epoch: { number: 1, owner: 'co-1' } });
    await settle();
    expect(gateway.stale).toEqual([{ kind: 'stale', model: 'x', id: request, known }]);
    await coordinator.stop();
  });

  test('R25: copies of a queued or running request are dropped, a finished id runs again', async () => {
    const { worker, gateway, coordinator } = await serving('', { instanceDepth: 1 });
    const running = gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'));
    gateway.infer(fakeRequest('m'), { id: running, sends: 2 });
    gateway.infer(fakeRequest('m'), { id: queued, sends: 2 });
    await settle();
    expect(coordinator.counts).toEqual({ queued: 1, running: 1, waits: 0 });
    worker.finish();
    await settle();
    worker.finish();
    await settle();
    expect(worker.executes).toEqual([]);
    gateway.infer(fakeRequest('m'), { id: running, sends: 3 });
    await settle();
    expect(batchesOf(worker)).toEqual([[running]]);
    worker.finish();
    await settle();
    await coordinator.stop();
  });

  test('a full queue refuses with the request id, at once, and counts it', async () => {
    const { gateway, coordinator, metrics, worker } = await serving('', { instanceDepth: 1, queueMax: 1 });
    many(gateway, 2);
    const refused = gateway.infer(fakeRequest('m', { id: 'mine' }));
    const nameless = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(refused)).toBe(FULL);
    expect(gateway.outcome(nameless)).toBe('UNAVAILABLE: [request id: <id_unknown>] Exceeds maximum queue size');
    expect(await metrics()).toContain('nv_inference_request_failure{model="m",version="1",reason="REJECTED"} 2');
    worker.finish();
    await settle();
    worker.finish();
    await settle();
    await coordinator.stop();
  });
});

describe('batches', () => {
  test('what waits together goes together; other shapes apart', async () => {
    const { worker, gateway, coordinator } = await serving(BATCHING);
    const first = gateway.infer(fakeRequest('m', { shape: [2, 4] }));
    const rest = [
      gateway.infer(fakeRequest('m', { shape: [3, 4] })),
      gateway.infer(fakeRequest('m', { shape: [4, 4] })),
      gateway.infer(fakeRequest('m', { shape: [4, 4] })),
      gateway.infer(fakeRequest('m', { shape: [1, 5] })),
    ];
    await settle();
    const batches: string[][] = [];
    while (worker.executes.length > 0) {
      batches.push(worker.finish().entries.map(({ id }) => id));
      await settle();
    }
    expect(batches).toEqual([[first], [rest[0], rest[1]], [rest[2]], [rest[3]]]);
    await coordinator.stop();
  });

  test('a delay is honoured to the microsecond, and its timer goes with the last request', async () => {
    const { worker, gateway, coordinator, clock } = await serving(
      'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 250 }',
    );
    const [kept, left] = many(gateway, 2);
    await settle();
    clock.advanceUs(249);
    await settle();
    expect(worker.executes).toEqual([]);
    clock.advanceUs(1);
    await settle();
    expect(batchesOf(worker)).toEqual([[kept, left]]);
    worker.finish();
    await settle();
    const [only] = many(gateway, 1);
    await settle();
    expect(clock.liveTimers).toBe(1);
    gateway.cancel('m', only ?? '');
    await settle();
    expect(clock.liveTimers).toBe(0);
    await coordinator.stop();
  });

  test('depth: 2 batches per instance without dynamic batching; with it 1 while what waits can grow', async () => {
    for (const [config, depth] of [
      ['', 2],
      [BATCHING, 1],
    ] as const) {
      const { worker, gateway, coordinator } = await serving(config);
      many(gateway, 3);
      await settle();
      expect(worker.executes).toHaveLength(depth);
      while (worker.executes.length > 0) {
        worker.finish();
        await settle();
      }
      await coordinator.stop();
    }
  });

  test('go to the least loaded instance', async () => {
    const cluster = fakeCluster([fakeModel('m')]);
    const worker = await cluster.worker();
    worker.instances = 2;
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    many(gateway, 4);
    await settle();
    expect(worker.executes.map(({ instance }) => instance)).toEqual([0, 1, 0, 1]);
    while (worker.executes.length > 0) worker.finish();
    await settle();
    await cluster.coordinator.stop();
  });
});

describe('cancelled and late requests', () => {
  test('a queued one leaves and is answered; a running one may end well all the same', async () => {
    const { worker, gateway, coordinator, metrics } = await serving('', { instanceDepth: 1 });
    const [running, queued] = many(gateway, 2);
    await settle();
    gateway.cancel('m', running ?? '');
    gateway.cancel('m', queued ?? '');
    gateway.cancel('m', 'gw-1:99');
    await settle();
    expect(gateway.outcome(queued ?? '')).toBe('CANCELLED: Request cancelled');
    expect(coordinator.counts).toEqual({ queued: 0, running: 1, waits: 0 });
    worker.finish();
    await settle();
    expect(worker.executes).toEqual([]);
    const text = await metrics();
    expect(text).toContain('nv_inference_request_failure{model="m",version="1",reason="CANCELED"} 1');
    expect(text).toContain('nv_inference_request_success{model="m",version="1"} 1');
    await coordinator.stop();
  });

  test('the worker of a running one is told, and says whether it ran', async () => {
    const { worker, gateway, coordinator, directory, metrics } = await serving('', { instanceDepth: 2 });
    const [first, next] = many(gateway, 2);
    await settle();
    gateway.cancel('m', next ?? '');
    await settle();
    const epoch = directory.owner('m');
    expect(worker.cancels).toEqual([{ kind: 'cancel', model: 'm', epoch, id: next, g: 0, low: 1, session: null }]);
    expect(coordinator.counts).toEqual({ queued: 0, running: 2, waits: 0 });
    worker.finish();
    worker.finish('cancelled', false);
    await settle();
    expect([first, next].map((id) => gateway.outcome(id ?? ''))).toEqual(['ok', 'CANCELLED: Request cancelled']);
    expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
    const text = await metrics();
    expect(text).toContain('nv_inference_exec_count{model="m",version="1"} 1');
    expect(text).toContain('nv_inference_request_success{model="m",version="1"} 1');
    expect(text).toContain('nv_inference_request_failure{model="m",version="1",reason="CANCELED"} 1');
    await coordinator.stop();
  });

  test.each(['lost', 'refused'] as const)('a running one whose batch is %s does not run again', async (how) => {
    const { worker, gateway, coordinator, metrics, addWorker } = await serving(BATCHING);
    many(gateway, 1);
    const [kept, left] = many(gateway, 2);
    await settle();
    worker.finish();
    await settle();
    expect(batchesOf(worker)).toEqual([[kept, left]]);
    gateway.cancel('m', left ?? '');
    const next = how === 'lost' ? await addWorker('wk-2') : worker;
    await settle();
    if (how === 'lost') await worker.leave();
    else worker.refuse({ number: 5, owner: 'co-1' });
    await settle();
    expect(batchesOf(next)).toEqual([[kept]]);
    expect(gateway.outcome(left ?? '')).toBe('CANCELLED: Request cancelled');
    expect(await metrics()).toContain('nv_inference_request_failure{model="m",version="1",reason="CANCELED"} 1');
    next.finish();
    await settle();
    await coordinator.stop();
  });

  test('a deadline ends a queued request on time; one that runs is left to its gateway', async () => {
    const { worker, gateway, coordinator, pass, metrics, clock } = await serving('', { instanceDepth: 1 });
    const running = gateway.infer(fakeRequest('m'), { msLeft: 100 });
    const queued = gateway.infer(fakeRequest('m'), { msLeft: 100 });
    await settle();
    expect(clock.liveTimers).toBe(1);
    await pass(99);
    expect(gateway.outcome(queued)).toBe('none');
    await pass(1);
    expect(gateway.outcome(queued)).toBe('UNAVAILABLE: Request timeout expired');
    expect(clock.liveTimers).toBe(0);
    worker.finish();
    await settle();
    expect(gateway.outcome(running)).toBe('ok');
    expect(await metrics()).toContain('nv_inference_request_failure{model="m",version="1",reason="REJECTED"} 1');
    await coordinator.stop();
  });
});

describe('lost instances and workers', () => {
  test('an instance that is down gets nothing; its batches are ended by its worker', async () => {
    const { worker, gateway, coordinator } = await serving('', { instanceDepth: 1 });
    const [first, second] = many(gateway, 2);
    await settle();
    worker.setReady('m', false);
    worker.finish('error', false);
    await settle();
    expect(gateway.outcome(first ?? '')).toBe('INTERNAL: model failed');
    expect(worker.executes).toEqual([]);
    worker.setReady('m', true);
    await settle();
    expect(batchesOf(worker)).toEqual([[second]]);
    worker.finish();
    await settle();
    await coordinator.stop();
  });

  test('an instance that is back before its old batch is over has only the rest of its places', async () => {
    const { worker, gateway, coordinator } = await serving('', { instanceDepth: 2 });
    many(gateway, 5);
    await settle();
    expect(worker.executes).toHaveLength(2);
    worker.setReady('m', false);
    worker.setReady('m', true);
    await settle();
    expect(worker.executes).toHaveLength(2);
    worker.finish();
    await settle();
    expect(worker.executes).toHaveLength(2);
    while (worker.executes.length > 0) {
      worker.finish();
      await settle();
    }
    await coordinator.stop();
  });

  test('batches of a worker that is gone run elsewhere, once', async () => {
    const cluster = await serving(BATCHING);
    const { gateway, coordinator } = cluster;
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    const other = await cluster.addWorker('wk-2');
    await settle();
    await cluster.worker.leave();
    await settle();
    expect(batchesOf(other)).toEqual([[request]]);
    const third = await cluster.addWorker('wk-3');
    await settle();
    await other.leave();
    await settle();
    expect(third.executes).toEqual([]);
    expect(gateway.outcome(request)).toBe(
      'UNAVAILABLE: the instance that ran the request was lost twice; try again later',
    );
    await coordinator.stop();
  });
});
