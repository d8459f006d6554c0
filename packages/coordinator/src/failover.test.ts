/** What docs/protocol.md asks of coordinators that are processes of their own, rule by rule. */
import { LOAD_FAILED } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { timing } from '@nereid/transport';
import { afterEach, describe, expect, test } from 'vitest';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { type FakeCluster, type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

const started: { readonly cluster: FakeCluster; readonly coordinators: Set<Coordinator> }[] = [];
afterEach(async () => {
  for (const { cluster, coordinators } of started.splice(0)) {
    const stopped = Promise.all([...coordinators].map((coordinator) => coordinator.stop(0)));
    await cluster.pass(1);
    await stopped;
    expect(cluster.clock.liveTimers).toBe(0);
    for (const { counts } of coordinators) expect(counts).toEqual({ queued: 0, running: 0, waits: 0 });
  }
});

/** Coordinators in separate processes, `co-1` started. */
async function cluster(models = [fakeModel('m')], options: Partial<CoordinatorOptions> = {}) {
  const made = fakeCluster(models, { instanceDepth: 1, ...options }, { timing: timing() });
  const coordinators = new Set<Coordinator>();
  started.push({ cluster: made, coordinators });
  const states = new Set<string>();
  made.directory.watch(() => {
    const record = made.directory.record('m');
    states.add(record === undefined ? 'none' : record.versions.map(({ state }) => state).join());
  });
  const start = async (coordinator: Coordinator) => {
    coordinators.add(coordinator);
    const over = coordinator.start();
    await settle();
    return over;
  };
  const worker = await made.worker();
  await start(made.coordinator);
  await settle();
  states.clear();
  return {
    ...made,
    worker,
    addWorker: made.worker,
    /** What the record of `m` has said since. */
    states,
    async startAnother(id: string) {
      const coordinator = made.another(id, { instanceDepth: 1, ...options });
      await start(coordinator);
      return coordinator;
    },
    /** Dies with all it knows; its leases run out at once. */
    async killFirst() {
      coordinators.delete(made.coordinator);
      await made.kill('co-1');
    },
  };
}

const idsOf = (worker: FakeWorker) => worker.executes.flatMap(({ entries }) => entries.map(({ id }) => id));
function modelRecordOf(model: string, { directory }: Pick<FakeCluster, 'directory'>) {
  const record = directory.record(model);
  if (record === undefined) throw new Error(`no record of ${model}`);
  return record;
}

const ownerOf = ({ directory }: Pick<FakeCluster, 'directory'>, model = 'm') => directory.owner(model)?.owner;

describe('ownership', () => {
  test('each model has one owner, is loaded once, and stays where it is', async () => {
    const models = Array.from({ length: 8 }, (_, index) => fakeModel(`m${index}`));
    const world = await cluster(models);
    await world.startAnother('co-2');
    await world.pass(1_000);
    expect(models.map(({ name }) => ownerOf(world, name))).toEqual(models.map(() => 'co-1'));
    expect(world.worker.controls.map(({ model }) => model).sort()).toEqual(models.map(({ name }) => name));
  });

  test('coordinators that start together share the models', async () => {
    const made = fakeCluster(
      Array.from({ length: 16 }, (_, index) => fakeModel(`m${index}`)),
      {},
      { timing: timing() },
    );
    const coordinators = new Set([made.coordinator, made.another('co-2')]);
    started.push({ cluster: made, coordinators });
    const worker = await made.worker();
    for (const id of ['co-1', 'co-2']) await made.directory.register({ id, role: 'coordinator', draining: false });
    const failures = Promise.all([...coordinators].map((coordinator) => coordinator.start()));
    await settle();
    expect(await failures).toEqual([[], []]);
    const owners = made.directory.records().map(({ name }) => ownerOf(made, name));
    expect([owners.length, new Set(owners)]).toEqual([16, new Set(['co-1', 'co-2'])]);
    expect(worker.controls).toHaveLength(16);
  });
});

describe('takeover', () => {
  test('R9: the record stays READY, requests are taken at once, and the worker is used once it has answered', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(500);
    expect(ownerOf(world)).toBe('co-2');
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['none', []]);
    world.worker.slow = false;
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
    expect([...world.states]).toEqual(['READY']);
  });

  test('where no worker answers in time the model is what it is', async () => {
    const world = await cluster([fakeModel('m')], { takeoverWaitMs: 5_000 });
    await world.startAnother('co-2');
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(0);
    await world.worker.leave();
    await world.pass(4_999);
    expect(world.directory.record('m')?.versions[0]?.state).toBe('READY');
    await world.pass(1);
    expect(world.directory.record('m')?.versions[0]?.state).toBe('UNAVAILABLE');
  });

  test('R26: what still runs is not run twice by a resend, and ends by its own done', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    await world.killFirst();
    await world.pass(500);
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    const next = gateway.infer(fakeRequest('m'));
    await settle();
    // Its instance holds one batch at a time, whoever sent it.
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
    expect(idsOf(world.worker)).toEqual([next]);
    world.worker.finish();
    await settle();
  });

  test('R27: the next owner passes on that a stream runs, asks after it each second, and passes its cancel on', async () => {
    const world = await cluster([fakeModel('m', 'model_transaction_policy { decoupled: true }')]);
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.streams = [{ id: request, execution: 'wk-1/1' }];
    await world.killFirst();
    await world.pass(500);
    const sign = { kind: 'running', model: 'm', streams: world.worker.streams };
    expect(gateway.running).toEqual([sign]);
    // It has begun, so its gateway does not send it again.
    for (let looks = 0; looks < 6; looks++) await world.pass(500);
    expect(gateway.running.length).toBeGreaterThanOrEqual(3);
    expect(world.worker.cancels).toEqual([]);
    gateway.cancel('m', request);
    await settle();
    expect(world.worker.cancels).toMatchObject([{ id: request, epoch: { owner: 'co-2' } }]);
    world.worker.finish('cancelled');
    await settle();
  });

  test('R26: a copy that was queued before its worker answered is not run either', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.slow = true;
    await world.killFirst();
    await world.pass(500);
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    world.worker.slow = false;
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['ok', []]);
  });

  test.each(['no longer listed', 'gone'] as const)(
    'R26: what was running at a worker and is %s runs again',
    async (how) => {
      const world = await cluster();
      await world.startAnother('co-2');
      const gateway = world.gateway();
      const request = gateway.infer(fakeRequest('m'));
      await settle();
      await world.killFirst();
      await world.pass(500);
      gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
      const other = await world.addWorker('wk-2');
      await settle();
      if (how === 'gone') await world.worker.leave();
      else {
        world.worker.executes.shift();
        world.worker.describe('m');
      }
      await settle();
      const again = [...idsOf(world.worker), ...idsOf(other)];
      expect(again.filter((id) => id === request)).toEqual([request, ...(how === 'gone' ? [request] : [])]);
      (how === 'gone' || idsOf(other).length > 0 ? other : world.worker).finish();
      await settle();
      expect(gateway.outcome(request)).toBe('ok');
    },
  );

  test('other files than those it is served from are loaded as at any reload', async () => {
    const world = await cluster();
    world.files.set('m', fakeModel('m', '', { contentHash: 'hash-2' }));
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(500);
    expect(world.directory.record('m')).toMatchObject({ contentHash: 'hash-2', versions: [{ state: 'READY' }] });
    expect(world.worker.controls.map(({ action, contentHash }) => `${action} ${contentHash}`)).toEqual([
      'load hash-1',
      'load hash-1',
      'unload ',
      'load hash-2',
    ]);
  });

  test('files that cannot be read do not touch a model that runs', async () => {
    const world = await cluster();
    world.files.set('m', new NereidError('UNAVAILABLE', 'gone', { reason: LOAD_FAILED }));
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(500);
    expect([ownerOf(world), [...world.states]]).toEqual(['co-2', ['READY']]);
  });

  test('a model unloaded on purpose stays so, one loaded by request goes on', async () => {
    const world = await cluster([fakeModel('m'), fakeModel('n')], { controlMode: 'explicit', loadModels: ['m'] });
    await world.startAnother('co-2');
    await world.coordinator.loadModel('n');
    await world.coordinator.unloadModel('m');
    await world.killFirst();
    await world.pass(500);
    expect([ownerOf(world, 'm'), ownerOf(world, 'n')]).toEqual(['co-2', 'co-2']);
    expect(world.directory.record('m')?.versions).toEqual([{ version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }]);
    expect(world.directory.record('n')?.versions[0]?.state).toBe('READY');
  });

  test('what comes while the lease is being taken waits for it', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    // A gateway hears of the new owner before the owner does.
    let sent: string | undefined;
    const stop = world.directory.watch(({ type }) => {
      if (type === 'owner' && ownerOf(world) === 'co-2') sent ??= gateway.infer(fakeRequest('m'));
    });
    await world.killFirst();
    await world.pass(500);
    stop();
    expect(gateway.stale).toEqual([]);
    expect(idsOf(world.worker)).toEqual([sent]);
    world.worker.finish();
    await settle();
  });

  test.each([
    ['that has a record and no owner', true],
    // Redis began anew before anybody took the model over: its gateway still remembers it.
    ['that has neither', false],
  ])('a request for a model %s is handed back, not refused', async (_rule, recorded) => {
    const world = await cluster();
    const gateway = world.gateway();
    if (recorded) await world.directory.publish('x', { ...modelRecordOf('m', world), name: 'x' });
    const request = gateway.infer(fakeRequest('x'));
    await settle();
    expect(gateway.outcome(request)).toBe('none');
    expect(gateway.stale).toEqual([{ kind: 'stale', model: 'x', id: request, known: null }]);
  });

  test('batches are told apart by their epoch: both owners count from 1', async () => {
    const world = await cluster([fakeModel('m')], { instanceDepth: 2 });
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const old = gateway.infer(fakeRequest('m'));
    await settle();
    await world.killFirst();
    await world.pass(500);
    const own = gateway.infer(fakeRequest('m'));
    await settle();
    expect(world.worker.executes.map(({ batch }) => batch)).toEqual([1, 1]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(old), gateway.outcome(own)]).toEqual(['ok', 'none']);
    // A copy of the one that still runs is known.
    gateway.infer(fakeRequest('m'), { id: own, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([own]);
    world.worker.finish();
    await settle();
  });
});

describe('leases', () => {
  test('R5: without a sure lease nothing is sent, and all is dropped without an answer', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    world.unsure.add('m');
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(request), idsOf(world.worker), world.coordinator.counts.queued]).toEqual(['none', [], 0]);
    expect(await world.metrics()).not.toContain('nv_inference_request_success{');
    const { number = 0 } = world.directory.owner('m') ?? {};
    world.unsure.clear();
    await world.pass(250);
    expect(world.directory.owner('m')).toEqual({ number: number + 1, owner: 'co-1' });
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([...world.states]).toEqual(['READY']);
  });

  test('R5: so it is where the directory names another owner', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const requests = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'), { msLeft: 60_000 })];
    await settle();
    await Promise.all([world.directory.release('m', 'co-1'), world.directory.acquire('m', 'co-9')]);
    await settle();
    world.worker.finish();
    await world.pass(1_000);
    expect(ownerOf(world)).toBe('co-9');
    expect(idsOf(world.worker)).toEqual([]);
    expect(requests.map((id) => gateway.outcome(id))).toEqual(['ok', 'none']);
    expect(world.coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  });

  test('a lease that Redis forgot is taken again, and the model goes on', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    await world.directory.release('m', 'co-1');
    await settle();
    expect(ownerOf(world)).toBe('co-1');
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), world.coordinator.counts.running]).toEqual(['ok', 0]);
  });

  test('R7: after an interruption each model has a new epoch, known to its workers, and its record is published', async () => {
    const world = await cluster([fakeModel('m'), fakeModel('n')]);
    const before = ['m', 'n'].map((model) => world.directory.owner(model)?.number ?? 0);
    await world.directory.withdraw('n');
    world.interrupt();
    await settle();
    const after = ['m', 'n'].map((model) => world.directory.owner(model)?.number ?? 0);
    expect(after.map((number, index) => number > (before[index] ?? 0))).toEqual([true, true]);
    expect(world.directory.record('n')?.versions[0]?.state).toBe('READY');
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    await settle();
    expect(world.worker.executes.map(({ epoch }) => epoch.number)).toEqual([after[0]]);
    world.worker.finish();
    await settle();
  });

  test('R7: a batch that was out is known by its answer, also under the new epoch', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.interrupt();
    await settle();
    gateway.infer(fakeRequest('m'), { id: request, sends: 2 });
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect([gateway.outcome(request), world.coordinator.counts.running]).toEqual(['ok', 0]);
  });

  test('R4: one refusal among many takes one new epoch', async () => {
    const world = await cluster([fakeModel('m')], { instanceDepth: 2 });
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.refuse({ number: 40, owner: 'co-0' });
    world.worker.refuse({ number: 40, owner: 'co-0' });
    await settle();
    expect(world.worker.executes.map(({ epoch }) => epoch.number)).toEqual([41, 41]);
    world.worker.finish();
    world.worker.finish();
    await settle();
  });
});

describe('R28: the probe', () => {
  test('queues a lost batch again', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    world.loss.of = ({ kind }) => kind === 'execute';
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.loss.of = () => false;
    await world.pass(500);
    expect(idsOf(world.worker)).toEqual([]);
    await world.pass(1_000);
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('fails a request whose batch is lost twice', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    world.loss.of = ({ kind }) => kind === 'execute';
    const request = gateway.infer(fakeRequest('m'));
    for (let half = 0; half < 6; half++) await world.pass(500);
    expect(gateway.outcome(request)).toBe(
      'UNAVAILABLE: the instance that ran the request was lost twice; try again later',
    );
  });

  test('frees the place of a batch whose done was lost', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    const next = gateway.infer(fakeRequest('m'));
    await settle();
    world.loss.of = ({ kind }) => kind === 'done';
    world.worker.finish();
    await settle();
    world.loss.of = () => false;
    expect([gateway.outcome(request), idsOf(world.worker)]).toEqual(['ok', []]);
    for (let half = 0; half < 3; half++) await world.pass(500);
    expect(idsOf(world.worker)).toEqual([next]);
    world.worker.finish();
    await settle();
    // The lost one cannot be told from one that never came.
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
  });

  test('leaves alone what still runs, and what was sent after the question', async () => {
    const world = await cluster([fakeModel('m')], { instanceDepth: 2 });
    const gateway = world.gateway();
    const first = gateway.infer(fakeRequest('m'));
    await settle();
    await world.pass(900);
    // The worker's answer to a question from before will not list this one.
    let sent: string | undefined;
    world.loss.of = ({ kind }) => {
      if (kind === 'described') sent ??= gateway.infer(fakeRequest('m'));
      return false;
    };
    await world.pass(600);
    for (let half = 0; half < 6; half++) await world.pass(500);
    expect(idsOf(world.worker)).toEqual([first, sent]);
    world.worker.finish();
    world.worker.finish();
    await settle();
    expect(world.coordinator.counts.running).toBe(0);
  });

  test('asks each worker now and then, and tells it again what it has not heard', async () => {
    const world = await cluster();
    world.loss.of = ({ kind }) => kind === 'control';
    const second = await world.addWorker('wk-2');
    await settle();
    expect(second.controls).toEqual([]);
    world.loss.of = () => false;
    await world.pass(500);
    expect(second.controls.map(({ action }) => action)).toEqual(['load']);
    await world.pass(500);
    const gateway = world.gateway();
    for (let n = 0; n < 2; n++) gateway.infer(fakeRequest('m'));
    await settle();
    expect([world.worker.executes.length, second.executes.length]).toEqual([1, 1]);
    world.worker.finish();
    second.finish();
    await settle();
  });

  test.each([
    ['has not heard of the present files', '', true],
    ['could not load the present files', 'Internal: broken', false],
  ])('does not believe a worker that holds other files: it %s', async (_rule, reason, toldAgain) => {
    const world = await cluster([fakeModel('m')], { instanceDepth: 1 });
    world.loss.of = ({ kind }, to) => to === 'wk-2' && (kind === 'control' || kind === 'describe');
    const second = await world.addWorker('wk-2');
    second.had('m', 'hash-0', reason);
    await settle();
    world.loss.of = () => false;
    // Asked again, since it has not answered.
    await world.pass(1_000);
    const gateway = world.gateway();
    for (let n = 0; n < 2; n++) gateway.infer(fakeRequest('m'));
    await settle();
    expect([world.worker.executes.length, second.executes.length, second.controls.length]).toEqual([1, 0, 0]);
    for (let half = 0; half < 3; half++) await world.pass(500);
    expect([second.executes.length, second.controls.length]).toEqual(toldAgain ? [1, 1] : [0, 0]);
    for (let n = 0; n < 2; n++) {
      for (const worker of [world.worker, second]) if (worker.executes.length > 0) worker.finish();
      await settle();
    }
    expect(world.coordinator.counts.running).toBe(0);
  });

  test('lets a load and an unload end whose messages were lost', async () => {
    const world = await cluster([fakeModel('m')], { controlMode: 'explicit' });
    world.loss.of = ({ kind }) => kind === 'control' || kind === 'described';
    const loaded = world.coordinator.loadModel('m');
    await world.pass(1_000);
    world.loss.of = () => false;
    for (let half = 0; half < 4; half++) await world.pass(500);
    expect((await loaded).versions[0]?.state).toBe('READY');
    world.loss.of = ({ kind }) => kind === 'control';
    const unloaded = world.coordinator.unloadModel('m');
    await world.pass(1_000);
    world.loss.of = () => false;
    for (let half = 0; half < 4; half++) await world.pass(500);
    await unloaded;
    expect(world.worker.controls.map(({ action }) => action)).toEqual(['load', 'unload']);
  });
});

describe('workers', () => {
  test('R38: a draining one ends what it has and gets nothing more', async () => {
    const world = await cluster();
    const second = await world.addWorker('wk-2');
    await settle();
    const gateway = world.gateway();
    const first = gateway.infer(fakeRequest('m'));
    await settle();
    await world.worker.drain();
    const rest = [gateway.infer(fakeRequest('m')), gateway.infer(fakeRequest('m'))];
    await settle();
    expect([idsOf(world.worker), idsOf(second)]).toEqual([[first], [rest[0]]]);
    world.worker.finish();
    second.finish();
    await settle();
    expect([idsOf(world.worker), idsOf(second)]).toEqual([[], [rest[1]]]);
    second.finish();
    await settle();
    expect([first, ...rest].map((id) => gateway.outcome(id))).toEqual(['ok', 'ok', 'ok']);
  });

  test('R38: what a draining one gives back runs elsewhere, however often', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    const workers = [world.worker];
    for (const id of ['wk-2', 'wk-3', 'wk-4']) {
      const next = await world.addWorker(id);
      await settle();
      workers.at(-1)?.giveBack();
      workers.push(next);
      await settle();
      expect(idsOf(next)).toEqual([request]);
    }
    workers.at(-1)?.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('R38: what came back is not sent there again until it says what it holds', async () => {
    const world = await cluster();
    const gateway = world.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    world.worker.giveBack();
    await settle();
    expect(idsOf(world.worker)).toEqual([]);
    world.worker.describe('m');
    await settle();
    expect(idsOf(world.worker)).toEqual([request]);
    world.worker.finish();
    await settle();
  });

  test('one that does not take the model is no failure of it', async () => {
    const made = fakeCluster([fakeModel('m')], {}, { timing: timing() });
    started.push({ cluster: made, coordinators: new Set([made.coordinator]) });
    const other = await made.worker('wk-1');
    other.holds = false;
    const holder = await made.worker('wk-2');
    const over = made.coordinator.start();
    await settle();
    expect(await over).toEqual([]);
    expect(made.directory.record('m')?.versions).toEqual([{ version: '1', state: 'READY', reason: '' }]);
    const gateway = made.gateway();
    gateway.infer(fakeRequest('m'));
    await settle();
    expect([other.executes.length, holder.executes.length]).toEqual([0, 1]);
    holder.finish();
    await settle();
  });

  test('one that takes it and cannot load it does not fail the load where another holds it', async () => {
    const { made, start } = apart();
    await made.worker('wk-1');
    const failing = await made.worker('wk-2');
    failing.failures.set('1', 'Internal: broken');
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject({ state: 'READY', reason: '' });
  });

  test('nor does one that says nothing', async () => {
    const { made, start } = apart();
    const silent = await made.worker('wk-2');
    silent.slow = true;
    await made.worker('wk-1');
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
  });

  test('the record tells the GPUs that the workers use', async () => {
    const { made, start } = apart();
    await made.worker('wk-1');
    const withGpus = await made.worker('wk-2');
    withGpus.suffix = '_gpu1';
    await start();
    expect(made.directory.record('m')?.gpus).toBe(2);
  });

  test('two versions may be ready on different workers', async () => {
    const { made, start } = apart([fakeModel('m', '', { versions: ['1', '2'] })]);
    for (const [id, fails] of [
      ['wk-1', '1'],
      ['wk-2', '2'],
    ] as const) {
      const worker = await made.worker(id);
      worker.failures.set(fails, 'Internal: broken');
    }
    expect(await start()).toEqual([]);
    expect(made.directory.record('m')?.versions.map(({ state }) => state)).toEqual(['READY', 'READY']);
  });

  test('what this version does not serve fails the load also without any worker, and no worker changes that', async () => {
    const { made, start } = apart([fakeModel('m', 'sequence_batching {}')]);
    expect((await start()).map(({ error }) => error.message)).toEqual([expect.stringContaining('Unsupported')]);
    const worker = await made.worker();
    await settle();
    expect(versionOf(made)?.reason).toContain('Unsupported: sequence_batching');
    expect(worker.controls).toEqual([]);
  });

  test('where all that take it fail, the load fails', async () => {
    const { made, start } = apart();
    for (const id of ['wk-1', 'wk-2']) {
      const worker = await made.worker(id);
      worker.failures.set('1', 'Internal: broken');
    }
    expect((await start()).map(({ error }) => error.message)).toEqual([expect.stringContaining('Internal: broken')]);
  });
});

describe('a model that no worker takes', () => {
  const NOBODY = { state: 'UNAVAILABLE', reason: 'Unavailable: no worker holds the model' };

  test.each([
    ['without any worker', false],
    ['with one that takes others', true],
  ])('is no failed start, and is loaded when one comes that does: %s', async (_rule, present) => {
    const { made, start } = apart();
    if (present) Object.assign(await made.worker('wk-1'), { holds: false });
    expect(await start()).toEqual([]);
    expect(versionOf(made)).toMatchObject(NOBODY);
    const worker = await made.worker('wk-2');
    await settle();
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
    const gateway = made.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    worker.finish();
    await settle();
    expect(gateway.outcome(request)).toBe('ok');
  });

  test('waits on under another coordinator, also where it was loaded by name', async () => {
    const { made, start, coordinators } = apart(undefined, { controlMode: 'explicit', loadModels: ['m'] });
    expect(await start()).toEqual([]);
    const another = made.another('co-2', { controlMode: 'explicit' });
    coordinators.add(another);
    await another.start();
    await made.kill('co-1');
    coordinators.delete(made.coordinator);
    await made.pass(500);
    expect([ownerOf(made), versionOf(made)]).toEqual(['co-2', expect.objectContaining(NOBODY)]);
    await made.worker();
    await settle();
    expect(versionOf(made)).toMatchObject({ state: 'READY' });
  });

  test('what comes for it meanwhile is told that it is not ready, not that it is not there', async () => {
    const { made, start } = apart();
    await start();
    const gateway = made.gateway();
    const request = gateway.infer(fakeRequest('m'));
    await settle();
    expect(gateway.outcome(request)).toBe(
      "UNAVAILABLE: Request for unknown model: 'm' version 1 is not at ready state",
    );
  });

  test('the coordinator stops at once during the wait', async () => {
    const { made, start } = apart();
    await start();
    await made.coordinator.stop();
    expect(made.directory.owner('m')).toBeUndefined();
    expect(made.clock.liveTimers).toBe(0);
  });
});

/** A cluster whose first coordinator is not started yet. */
function apart(models = [fakeModel('m')], options: Parameters<typeof fakeCluster>[1] = {}) {
  const made = fakeCluster(models, options, { timing: timing() });
  const coordinators = new Set([made.coordinator]);
  started.push({ cluster: made, coordinators });
  const start = async () => {
    const over = made.coordinator.start();
    await settle();
    return over;
  };
  return { made, start, coordinators };
}

const versionOf = (made: Pick<FakeCluster, 'directory'>) => made.directory.record('m')?.versions[0];

describe('stopping', () => {
  test('with another coordinator there, models go on: records and workers stay, leases go last', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    const running = gateway.infer(fakeRequest('m'));
    await settle();
    const stopped = world.coordinator.stop();
    await settle();
    const late = gateway.infer(fakeRequest('m'));
    await settle();
    expect([gateway.outcome(late), gateway.stale.map(({ id }) => id)]).toEqual(['none', [late]]);
    expect(ownerOf(world)).toBe('co-1');
    world.worker.finish();
    await stopped;
    expect(gateway.outcome(running)).toBe('ok');
    await world.pass(250);
    expect(ownerOf(world)).toBe('co-2');
    gateway.infer(fakeRequest('m'), { id: late, sends: 2 });
    await settle();
    world.worker.finish();
    await settle();
    expect(gateway.outcome(late)).toBe('ok');
    expect(world.worker.controls.map(({ action }) => action)).toEqual(['load', 'load']);
    expect([...world.states]).toEqual(['READY']);
  });

  test('with a deadline past, what is queued is left to the next owner', async () => {
    const world = await cluster();
    await world.startAnother('co-2');
    const gateway = world.gateway();
    gateway.infer(fakeRequest('m'));
    const queued = gateway.infer(fakeRequest('m'));
    await settle();
    const stopped = world.coordinator.stop(1_000);
    await world.pass(1_000);
    await stopped;
    expect(gateway.outcome(queued)).toBe('none');
    world.worker.finish();
    await settle();
  });

  test.each([
    ['while a gateway waits for the next one', false, 1, ['load']],
    ['but not where that is stopping too', true, 0, ['load', 'unload']],
  ] as const)('alone, it leaves its models %s', async (_rule, draining, records, controls) => {
    const world = await cluster();
    await world.directory.register({ id: 'gw-7', role: 'gateway', draining });
    await world.coordinator.stop();
    expect(world.directory.records()).toHaveLength(records);
    expect(world.directory.owner('m')).toBeUndefined();
    expect(world.worker.controls.map(({ action }) => action)).toEqual(controls);
  });

  test('ends though the directory does not answer', async () => {
    const world = await cluster();
    world.away.yes = true;
    await world.coordinator.stop();
    world.away.yes = false;
  });
});

test('a record that nobody owns any more goes, by the coordinator with the lowest id', async () => {
  const world = await cluster();
  await world.startAnother('co-2');
  await world.directory.publish('x', { ...modelRecordOf('m', world), name: 'x' });
  await world.pass(2_000);
  await world.pass(2_000);
  await world.pass(2_000);
  expect(world.directory.record('x')).toBeDefined();
  await world.pass(2_000);
  expect(world.directory.records().map(({ name }) => name)).toEqual(['m']);
});

test('R36: the coordinator with the lowest id has mailboxes reaped, with all that live', async () => {
  const world = await cluster();
  await world.directory.register({ id: 'gw-7', role: 'gateway', draining: false });
  await world.startAnother('co-0');
  await world.pass(2_000);
  expect(world.reaped).toEqual([new Set(['co-0', 'co-1', 'wk-1', 'gw-7'])]);
});
