/** A worker's standing in the directory (docs/protocol.md R1, R10, R38), and which models it takes. */
import type { ModelRecord } from '@nereid/config';
import type { Message } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import {
  createLocalDirectory,
  createLocalTransport,
  type Directory,
  type ProcessRecord,
  type Transport,
  timing,
} from '@nereid/transport';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWorker, type WorkerOptions } from './worker.ts';
import { createHarness, EPOCH, type Harness, int32, request } from './worker-harness.ts';

const settle = async () => {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** A worker without models, between an owner and a directory in which registrations lapse. */
function worldOfOne(options: Partial<WorkerOptions> = {}) {
  const clock = virtualClock();
  const lane = createLocalTransport({ messages_max: 100, bytes_max: 1e6 });
  const local = createLocalDirectory<ModelRecord>();
  const lapsed = new Set<string>();
  const interruptions = new Set<() => void>();
  const registrations: ProcessRecord[] = [];
  const failures = { left: 0 };
  const transport: Transport = {
    ...lane,
    onInterruption(listener) {
      interruptions.add(listener);
      return () => void interruptions.delete(listener);
    },
  };
  const directory: Directory<ModelRecord> = {
    ...local,
    registered: (id) => !lapsed.has(id) && local.registered(id),
    async register(process) {
      if (failures.left > 0) {
        failures.left--;
        throw new Error('Redis is away');
      }
      registrations.push(process);
      await local.register(process);
    },
  };
  const received: Message[] = [];
  const owner = transport.open('co-1', (messages) => void received.push(...messages));
  let ids = 1;
  const worker = createWorker({
    id: 'wk-1',
    clock,
    log: createLog({ level: 'silent' }),
    transport,
    directory,
    openModel: async () => ({ directory: '', contentHash: '', release() {} }),
    backendSettings: {},
    loadsMax: 1,
    limits: {
      instance_start_timeout_ms: 1,
      instance_restart_attempts_max: 1,
      instance_restart_backoff_min_ms: 1,
      instance_restart_backoff_max_ms: 1,
      instances_per_model_max: 1,
      sequence_answers_max: 1,
      sequence_answers_waited_max: 1,
      sequence_answer_bytes_max: 1,
      kept_bytes_max: 1,
      model_calls_max: 1,
      requests_pending_max: 1,
      stream_unread_chunks_max: 1,
      stream_unread_bytes_max: 1,
    },
    timing: timing(),
    newId: () => `wk-${++ids}`,
    ...options,
  });
  return {
    clock,
    directory,
    local,
    lapsed,
    registrations,
    failures,
    received,
    worker,
    owner,
    interrupt() {
      for (const listener of interruptions) listener();
    },
    ask(worker: string, askedAt: number) {
      owner.send(worker, { kind: 'describe', model: 'm', epoch: { number: 1, owner: 'co-1' }, askedAt });
    },
    /** Who answered what. */
    answers: () =>
      received.flatMap((message) =>
        message.kind === 'described' ? [`${message.worker} ${message.askedAt} ${message.draining}`] : [],
      ),
    workers: () => local.processes('worker').map(({ id }) => id),
  };
}

describe('R10: a worker whose registration lapsed', () => {
  it('handles nothing more of what it was sent, and goes on under a new id (R1)', async () => {
    const world = worldOfOne();
    await world.worker.start();
    world.ask('wk-1', 1);
    await settle();
    world.lapsed.add('wk-1');
    world.ask('wk-1', 2);
    await settle();
    expect([world.worker.id, world.workers()]).toEqual(['wk-2', ['wk-2']]);
    // It offers what it has under the new id, unasked.
    expect(world.answers()).toEqual(['wk-1 1 false', 'wk-2 0 false']);
    world.ask('wk-1', 3);
    world.ask('wk-2', 4);
    await settle();
    expect(world.answers().slice(2)).toEqual(['wk-2 4 false']);
    await world.worker.stop();
    expect([world.workers(), world.clock.liveTimers]).toEqual([[], 0]);
  });

  it('finds out by itself where nobody writes to it, at the next heartbeat or when it is told', async () => {
    const world = worldOfOne();
    await world.worker.start();
    world.lapsed.add('wk-1');
    world.clock.advanceUs(500_000);
    await settle();
    expect(world.worker.id).toBe('wk-2');
    world.lapsed.add('wk-2');
    await world.local.leave('wk-2');
    await settle();
    expect([world.worker.id, world.workers()]).toEqual(['wk-3', ['wk-3']]);
    await world.worker.stop();
  });

  it('tries again with each heartbeat where it cannot register, and leaves nothing behind', async () => {
    const world = worldOfOne();
    await world.worker.start();
    world.failures.left = 2;
    world.lapsed.add('wk-1');
    for (let beats = 0; beats < 3; beats++) {
      world.clock.advanceUs(500_000);
      await settle();
    }
    expect([world.worker.id, world.workers()]).toEqual(['wk-4', ['wk-4']]);
    await world.worker.stop();
    expect([world.workers(), world.clock.liveTimers]).toEqual([[], 0]);
  });

  it('keeps what comes while it is registering', async () => {
    const world = worldOfOne();
    const started = world.worker.start();
    world.ask('wk-1', 1);
    await started;
    await settle();
    expect(world.answers()).toEqual(['wk-1 1 false']);
    await world.worker.stop();
  });
});

describe('a worker', () => {
  it('tells its present owners unasked what it holds after an interruption', async () => {
    const world = worldOfOne();
    await world.worker.start();
    world.ask('wk-1', 1);
    await settle();
    world.interrupt();
    await settle();
    expect(world.answers()).toEqual(['wk-1 1 false', 'wk-1 0 false']);
    await world.worker.stop();
  });

  it('R38: registers as draining, tells its owners, leaves', async () => {
    const world = worldOfOne();
    await world.worker.start();
    world.ask('wk-1', 1);
    await settle();
    await world.worker.stop();
    await settle();
    expect(world.registrations.map(({ draining }) => draining)).toEqual([false, true]);
    expect(world.answers()).toEqual(['wk-1 1 false', 'wk-1 0 true']);
    expect([world.workers(), world.clock.liveTimers]).toEqual([[], 0]);
  });
});

describe('with models', () => {
  let harness: Harness;
  let directory: Directory<ModelRecord>;
  const lapsed = new Set<string>();
  beforeEach(async () => {
    lapsed.clear();
    const local = createLocalDirectory<ModelRecord>();
    directory = { ...local, registered: (id) => !lapsed.has(id) && local.registered(id) };
    harness = await createHarness({ directory, newId: () => 'wk-next', holds: (model) => model !== 'declined' });
  });
  afterEach(async () => {
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  const SLOW = `export async function execute([{ inputs }]) { await new Promise((go) => setTimeout(go, 50)); return [{ outputs: { Y: inputs.get('X') } }]; }`;
  const x = request([int32('X', [1], [1])]);

  it('R10: a fenced one keeps them loaded and answers what it runs, under the new id', async () => {
    await harness.javascript('m', SLOW);
    await harness.load('m');
    const running = harness.execute('m', [x]);
    await settle();
    lapsed.add('wk-test');
    const offered = harness.described('m', ({ worker }) => worker === 'wk-next');
    harness.owner.send('wk-test', { kind: 'describe', model: 'm', epoch: EPOCH, askedAt: 1 });
    expect((await offered).versions[0]).toMatchObject({ state: 'READY', running: ['gw-test:1'] });
    const { outcomes, done } = await running;
    expect([outcomes[0]?.ok, done.worker]).toEqual([true, 'wk-next']);
    expect(harness.worker.refusedMessages, 'the question to the old id').toBe(1);
    expect(harness.threads).toHaveLength(1);
  });

  it('R38: a draining one ends what it runs, and gives back what comes after', async () => {
    await harness.javascript('m', SLOW);
    await harness.load('m');
    const running = harness.execute('m', [x]);
    await settle();
    const told = harness.described('m', ({ draining }) => draining);
    const stopped = harness.worker.stop();
    await told;
    const back = harness.next('done', ({ batch }) => batch === 2);
    harness.start('m', [x]);
    expect(await back).toMatchObject({ executed: false, entries: [{ id: 'gw-test:2', result: 'noslot' }] });
    expect((await running).outcomes[0]?.ok).toBe(true);
    await stopped;
    expect(harness.received.filter(({ kind }) => kind === 'response')).toHaveLength(1);
  });

  it('one that wants a GPU which is not here is left to other workers; with KIND_AUTO it goes on CPUs', async () => {
    await harness.javascript('auto', SLOW);
    const open = async (kind: string) => {
      const { config } = await harness.control('auto');
      return JSON.stringify({ ...JSON.parse(config), instanceGroup: [{ name: 'g', kind, count: 0 }] });
    };
    const declined = await harness.load('auto', { config: await open('KIND_GPU') });
    expect(declined.versions).toMatchObject([
      { state: 'UNAVAILABLE', reason: expect.stringMatching(/^not held here: .*no GPUs are available/) },
    ]);
    const held = await harness.load('auto', { config: await open('KIND_AUTO') });
    expect(held.versions).toMatchObject([{ state: 'READY', instances: [{ name: 'g_0' }] }]);
  });

  it('one that it does not take is described as not held, and never loaded', async () => {
    await harness.javascript('declined', SLOW);
    const { versions } = await harness.load('declined');
    expect(versions).toEqual([
      { version: '1', state: 'UNAVAILABLE', reason: 'not held here', instances: [], running: [] },
    ]);
    expect(harness.threads).toEqual([]);
    harness.owner.send(
      'wk-test',
      await harness.control('declined', { action: 'unload', config: '', versions: [], contentHash: '' }),
    );
    const answer = harness.next('described', ({ askedAt }) => askedAt === 9);
    harness.owner.send('wk-test', { kind: 'describe', model: 'declined', epoch: EPOCH, askedAt: 9 });
    expect((await answer).versions).toEqual([]);
  });
});
