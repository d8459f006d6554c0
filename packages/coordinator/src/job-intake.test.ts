import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, createJobQueues, type JobQueues, type NewJob, type StoredJob, timing } from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type FakeCluster, type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';

let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];
let model: string;
let models = 0;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  models++;
  model = `m${models}`;
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function openQueues(): JobQueues {
  const connector = connectRedis(server.url, { name: 'test:1' });
  const clock = systemClock();
  const queues = createJobQueues({ connector, timing: timing(0.4), clock, log: createLog({ level: 'silent' }) });
  cleanups.push(async () => {
    await queues.close();
    connector.close();
    expect(clock.liveTimers).toBe(0);
  });
  return queues;
}

interface World {
  readonly cluster: FakeCluster;
  readonly worker: FakeWorker;
  readonly queues: JobQueues;
  /** Stops the coordinator at once. */
  stop(): Promise<void>;
  add(id: string, data?: unknown, more?: Partial<NewJob>): Promise<void>;
  find(id: string): Promise<StoredJob | undefined>;
  ended(id: string): Promise<StoredJob | undefined>;
  /** Waits until the worker holds so many batches. */
  batches(count: number): Promise<void>;
}

/** `first` is done before the coordinator starts. */
async function world(
  config = '',
  first = async (_cluster: FakeCluster) => {},
  as = (opened: JobQueues): JobQueues => opened,
): Promise<World> {
  const queues = as(openQueues());
  const cluster = fakeCluster([fakeModel(model, config)], {}, { jobs: queues });
  const worker = await cluster.worker();
  await first(cluster);
  await cluster.coordinator.start();
  const stop = async () => {
    const stopping = cluster.coordinator.stop(0);
    await cluster.pass(1);
    await stopping;
  };
  cleanups.push(stop);
  return {
    cluster,
    worker,
    queues,
    stop,
    add: (id, data = jobData(), more = {}) =>
      queues.add(model, {
        id,
        createdMs: Date.now(),
        data,
        priority: 0,
        delayMs: 0,
        attempts: 3,
        resultTtlS: 60,
        ...more,
      }),
    find: (id) => queues.find(model, id),
    ended: (id) => queues.wait(model, id, 20_000),
    batches: (count) => expect.poll(() => worker.executes.length).toBe(count),
  };
}

const jobData = (more: object = {}) => ({
  inputs: [{ name: 'A', datatype: 'FP32', shape: [1], data: [1] }],
  ...more,
});

test('a job runs and gives its return value', async () => {
  const { worker, add, ended, batches, find } = await world();
  await add('j1', jobData({ id: 'mine' }));
  await batches(1);
  expect((await find('j1'))?.state).toBe('running');
  expect(worker.executes[0]?.entries[0]?.request).toMatchObject({ id: 'mine', modelName: model });
  worker.finish();
  expect(await ended('j1')).toMatchObject({
    state: 'completed',
    result: { model_name: model, model_version: '1', outputs: [] },
    attemptsMade: 1,
  });
});

test('preserve_ordering: a job and a request that somebody waits for are answered in the order of their batches', async () => {
  const { cluster, worker, add, ended, find } = await world(
    'max_batch_size: 1 dynamic_batching { preserve_ordering: true }',
  );
  const other = await cluster.worker('wk-2');
  await settle();
  const rows = { inputs: [{ name: 'A', datatype: 'FP32', shape: [1, 1], data: [1] }] };
  const gateway = cluster.gateway();
  const first = gateway.infer(fakeRequest(model));
  await settle();
  await add('j1', rows);
  await expect.poll(() => worker.executes.length + other.executes.length).toBe(2);
  const third = gateway.infer(fakeRequest(model));
  await settle();
  const slow = worker.executes.some(({ entries }) => entries[0]?.id === first) ? worker : other;
  const quick = slow === worker ? other : worker;
  while (quick.executes.length > 0) {
    quick.finish();
    await settle();
  }
  expect((await find('j1'))?.state).toBe('running');
  expect(gateway.answered).toEqual([]);
  while (slow.executes.length > 0) {
    slow.finish();
    await settle();
  }
  expect(await ended('j1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
  expect(gateway.answered).toEqual([first, third]);
});

test('jobs share batches with requests that somebody waits for', async () => {
  const config =
    'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1000000 preferred_batch_size: [ 4 ] }';
  const { cluster, worker, add, ended, batches } = await world(config);
  const gateway = cluster.gateway();
  const rows = { inputs: [{ name: 'A', datatype: 'FP32', shape: [1, 1], data: [1] }] };
  const waiting = [1, 2].map(() => gateway.infer(fakeRequest(model, { shape: [1, 1] })));
  await settle();
  await add('j1', rows);
  await add('j2', rows);
  await batches(1);
  expect(worker.executes[0]?.entries).toHaveLength(4);
  worker.finish();
  expect((await ended('j1'))?.state).toBe('completed');
  expect((await ended('j2'))?.state).toBe('completed');
  expect(waiting.map((id) => gateway.outcome(id))).toEqual(['ok', 'ok']);
});

describe('a wrong job fails at once, with the text of HTTP', () => {
  const tensor = { name: 'A', datatype: 'FP32', shape: [1], data: [1] };
  test.each([
    ['no inputs', {}, "INVALID_ARG: Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"],
    [
      'a wrong datatype',
      { id: 'r', inputs: [{ ...tensor, datatype: 'INT32' }] },
      'INVALID_ARG: [request id: r] inference input ',
    ],
    [
      'an unknown output',
      { inputs: [tensor], outputs: [{ name: 'X' }] },
      "INVALID_ARG: unexpected inference output 'X'",
    ],
    ['an unknown version', { inputs: [tensor], model_version: '9' }, 'NOT_FOUND: Request for unknown model: '],
    [
      'a step number of no sequence',
      { inputs: [tensor], sequence_index: 1 },
      'INVALID_ARG: sequence_index numbers a step',
    ],
  ])('%s', async (_what, data, text) => {
    const { add, ended, worker } = await world();
    await add('j1', data);
    const job = await ended('j1');
    expect(job).toMatchObject({ state: 'failed', attemptsMade: 1 });
    expect(job?.failedReason?.slice(0, text.length)).toBe(text);
    expect(worker.executes).toEqual([]);
  });
});

test('a failed model is tried as often as the job has attempts', async () => {
  const { worker, queues, add, ended, batches } = await world();
  await add('j1', jobData(), { attempts: 1 });
  await batches(1);
  worker.finish('error');
  expect(await ended('j1')).toMatchObject({ state: 'failed', failedReason: 'INTERNAL: model failed', attemptsMade: 1 });
  await add('j2', jobData(), { attempts: 2 });
  await batches(1);
  worker.finish('error');
  await expect.poll(async () => (await queues.find(model, 'j2'))?.state).toBe('delayed');
  await expect.poll(() => worker.executes.length, { timeout: 10_000 }).toBe(1);
  worker.finish();
  expect(await ended('j2')).toMatchObject({ state: 'completed', attemptsMade: 2 });
});

test('an output without the form that the job asks for fails it', async () => {
  const { worker, add, ended, batches } = await world();
  await add('j1', jobData({ respond: 'json' }));
  await batches(1);
  worker.outputs = [{ name: 'B', datatype: 'FP16', shape: [1], data: new Uint8Array(2) }];
  worker.finish();
  expect((await ended('j1'))?.failedReason).toContain("respond 'b64'");
});

test('a job gives the classes of an output where it asks for them', async () => {
  const { worker, add, ended, batches } = await world();
  await add('j1', jobData({ outputs: [{ name: 'B', parameters: { classification: 1 } }] }));
  await batches(1);
  worker.outputs = [{ name: 'B', datatype: 'INT8', shape: [2], data: Uint8Array.of(3, 5) }];
  worker.finish();
  expect(await ended('j1')).toMatchObject({
    state: 'completed',
    result: { outputs: [{ name: 'B', datatype: 'BYTES', shape: [1], data: ['5:1'] }] },
  });
});

test('a job whose answer was lost runs again (R33)', async () => {
  const { cluster, worker, add, ended, find, batches } = await world();
  await add('j1');
  await batches(1);
  worker.mute = true;
  worker.finish();
  await settle();
  // Once unknown to the queue it waits for its answer, then it is put in again.
  await cluster.pass(1000);
  expect(worker.executes).toHaveLength(0);
  await cluster.pass(1000);
  expect(worker.executes).toHaveLength(1);
  expect((await find('j1'))?.state).toBe('running');
  worker.mute = false;
  worker.finish();
  expect(await ended('j1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
});

test('a job whose tensors a worker did not find is put down anew and runs again (R29)', async () => {
  const { cluster, worker, add, ended, batches } = await world();
  await add('j1');
  await batches(1);
  const inputs = worker.executes[0]?.entries[0]?.request.inputs;
  worker.mute = true;
  worker.finish('blob', false);
  await settle();
  expect(cluster.tensors.rewritten).toEqual(inputs);
  expect(cluster.tensors.released).toEqual([]);
  await batches(1);
  worker.mute = false;
  worker.finish();
  expect(await ended('j1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
  expect(cluster.tensors.released).toEqual(inputs);
});

test('a job whose outputs were gone runs again', async () => {
  const { cluster, worker, add, ended, batches } = await world();
  await add('j1');
  await batches(1);
  worker.outputs = [{ name: 'B', datatype: 'FP32', shape: [1], blob: { place: 'redis', id: 'gone', bytes: 4 } }];
  worker.finish();
  await settle();
  await cluster.pass(1000);
  await cluster.pass(1000);
  await batches(1);
  worker.outputs = [];
  worker.finish();
  expect(await ended('j1')).toMatchObject({ state: 'completed', attemptsMade: 1 });
});

test('a job whose answers are lost again and again fails', async () => {
  const { cluster, worker, add, ended, batches } = await world();
  await add('j1', jobData(), { attempts: 1 });
  await batches(1);
  worker.mute = true;
  for (let sends = 1; sends <= 5; sends++) {
    worker.finish();
    await settle();
    await cluster.pass(1000);
    await cluster.pass(1000);
  }
  expect((await ended('j1'))?.failedReason).toContain('the answer was lost 5 times');
});

test('a job that runs for long is not put in twice', async () => {
  const { cluster, worker, add, ended, batches } = await world();
  await add('j1');
  await batches(1);
  for (let second = 0; second < 5; second++) await cluster.pass(1000);
  expect(worker.executes).toHaveLength(1);
  worker.finish();
  expect((await ended('j1'))?.state).toBe('completed');
});

test('a passed deadline fails a job, before it runs and while it waits', async () => {
  const { cluster, worker, add, ended, batches } = await world();
  Object.assign(cluster.clock, { wallMs: () => Date.now() });
  await add('j1', jobData({ deadline_ms: 20 }), { delayMs: 40 });
  expect(await ended('j1')).toMatchObject({
    state: 'failed',
    failedReason: 'UNAVAILABLE: Request timeout expired',
    attemptsMade: 1,
  });
  // Two fill the instance.
  for (const id of ['j2', 'j3']) await add(id);
  await batches(2);
  await add('j4', jobData({ deadline_ms: 60_000 }));
  await expect.poll(() => cluster.coordinator.counts.queued).toBe(1);
  Object.assign(cluster.clock, { wallMs: () => Date.now() + 60_000 });
  await cluster.pass(60_000);
  expect(await ended('j4')).toMatchObject({ state: 'failed', failedReason: 'UNAVAILABLE: Request timeout expired' });
  worker.finish();
});

test('no queue time-out ends a job', async () => {
  const config =
    'max_batch_size: 1 dynamic_batching { default_queue_policy { default_timeout_microseconds: 1000 allow_timeout_override: true } }';
  const { cluster, worker, add, ended, batches } = await world(config);
  const rows = { inputs: [{ name: 'A', datatype: 'FP32', shape: [1, 1], data: [1] }] };
  await add('j1', rows);
  await batches(1);
  await add('j2', { ...rows, parameters: { timeout: 5 } });
  await expect.poll(() => cluster.coordinator.counts.queued).toBe(1);
  await cluster.pass(1000);
  worker.finish();
  await batches(1);
  worker.finish();
  expect(await ended('j2')).toMatchObject({ state: 'completed', attemptsMade: 1 });
});

test('no more jobs are taken than may wait, and all are taken in the end', async () => {
  const { worker, add, ended, queues } = await world();
  const ids = Array.from({ length: 60 }, (_, index) => `j${index}`);
  for (const id of ids) await add(id);
  await expect.poll(async () => (await queues.counts(model)).running).toBeGreaterThan(0);
  await settle();
  const { running } = await queues.counts(model);
  expect(running).toBeLessThanOrEqual(16 + worker.executes.length + 16);
  let over = false;
  const all = Promise.all(ids.map(ended)).finally(() => {
    over = true;
  });
  while (!over) {
    while (worker.executes.length > 0) worker.finish();
    await settle();
  }
  expect((await all).every((job) => job?.state === 'completed')).toBe(true);
});

test('steps of sequences are taken once every worker has said what it has', async () => {
  const silent: FakeWorker[] = [];
  const { cluster, worker, add, batches, find } = await world(
    'max_batch_size: 1 sequence_batching { }',
    async (cluster) => {
      const other = await cluster.worker('wk-2');
      other.slow = true;
      silent.push(other);
    },
  );
  const tensor = { name: 'A', datatype: 'FP32', shape: [1, 1], data: [1] };
  await add('j1', { inputs: [tensor], parameters: { sequence_id: 5, sequence_start: true } });
  await cluster.pass(1_000);
  expect([(await find('j1'))?.state, worker.executes]).toEqual(['waiting', []]);
  for (const other of silent) await other.leave();
  await cluster.pass(1_000);
  await batches(1);
  worker.finish();
});

test('a stopping coordinator gives its jobs back', async () => {
  const { add, find, batches, stop } = await world();
  await add('j1');
  await batches(1);
  await stop();
  expect(await find('j1')).toMatchObject({ state: 'waiting', attemptsMade: 0 });
});

test('jobs wait while no worker holds the model, and go on with the next', async () => {
  const { cluster, worker, add, find, ended, batches } = await world();
  await add('j1');
  await batches(1);
  await worker.leave();
  await settle();
  await add('j2');
  await expect.poll(async () => (await find('j2'))?.state).toMatch(/waiting|delayed/);
  const next = await cluster.worker('wk-2');
  await expect
    .poll(
      async () => {
        await cluster.pass(1000);
        while (next.executes.length > 0) next.finish();
        return [(await find('j1'))?.state, (await find('j2'))?.state];
      },
      { timeout: 10_000 },
    )
    .toEqual(['completed', 'completed']);
  expect(await ended('j2')).toMatchObject({ attemptsMade: 1 });
});

test('a job whose lock another holds is taken out of the queue', async () => {
  const { cluster, worker, add, find, batches } = await world();
  await add('j1');
  await batches(1);
  await add('j2');
  await expect.poll(() => cluster.coordinator.counts.queued + worker.executes.length).toBe(2);
  const connection = connectRedis(server.url, { name: 'test:2' }).connect('thief');
  cleanups.push(() => connection.close());
  await connection.ready();
  await connection.client.set(`bull:infer.${model}:j1:lock`, 'another');
  await expect.poll(() => worker.cancels.length + cluster.coordinator.counts.queued).toBeGreaterThan(0);
  await expect.poll(() => worker.cancels.map(({ model }) => model)).toEqual([model]);
  worker.finish();
  expect((await find('j1'))?.state).toBe('running');
});

describe('a job of a decoupled model', () => {
  const config = 'model_transaction_policy { decoupled: true } max_batch_size: 0';
  const value = (worker: FakeWorker, byte: number) => {
    worker.outputs = [{ name: 'B', datatype: 'INT8', shape: [1], data: Uint8Array.of(byte) }];
  };
  const outputs = (data: number) => [{ name: 'B', datatype: 'INT8', shape: [1], data: [data] }];
  const progress = async ({ find }: World) => (await find('j1'))?.progress;

  test('tells each answer as its progress, and the last one is its result', async () => {
    const streaming = await world(config);
    const { worker, add, ended, batches } = streaming;
    await add('j1');
    await batches(1);
    expect(await progress(streaming)).toBeUndefined();
    value(worker, 1);
    worker.part(0, 0);
    await expect.poll(() => progress(streaming)).toEqual({ n: 1, outputs: outputs(1) });
    value(worker, 2);
    worker.part(0, 1);
    worker.outputs = [];
    worker.part(0, 2, true);
    expect(await ended('j1')).toMatchObject({
      state: 'completed',
      result: { outputs: outputs(2) },
      progress: { n: 2, outputs: outputs(2) },
      attemptsMade: 1,
    });
    worker.mute = true;
    worker.finish();
  });

  test('of which a part was lost is tried again, and what ran is cancelled', async () => {
    const streaming = await world(config);
    const { worker, add, ended, batches } = streaming;
    await add('j1', jobData(), { attempts: 1 });
    await batches(1);
    value(worker, 1);
    worker.part(0, 0);
    worker.part(0, 2);
    expect(await ended('j1')).toMatchObject({
      state: 'failed',
      failedReason: `UNAVAILABLE: the stream of model '${model}' broke off: a part of it was lost`,
    });
    expect(worker.cancels).toHaveLength(1);
    worker.mute = true;
    worker.finish('cancelled');
  });

  test('begins anew where its worker is lost', async () => {
    const streaming = await world(config);
    const { cluster, worker, add, ended, batches } = streaming;
    await add('j1');
    await batches(1);
    value(worker, 1);
    worker.part(0, 0);
    worker.part(0, 1);
    await expect.poll(() => progress(streaming)).toEqual({ n: 2, outputs: outputs(1) });
    const other = await cluster.worker('wk-2');
    await worker.leave();
    await cluster.pass(1);
    await expect.poll(() => other.executes.length).toBe(1);
    value(other, 5);
    other.part(0, 0);
    await expect.poll(() => progress(streaming)).toEqual({ n: 1, outputs: outputs(5) });
    value(other, 6);
    other.part(0, 1, true);
    expect(await ended('j1')).toMatchObject({ state: 'completed', result: { outputs: outputs(6) }, attemptsMade: 1 });
    other.mute = true;
    other.finish();
  });
});

describe('a job that is cancelled', () => {
  test('before it is taken fails at once, also where its data are wrong', async () => {
    const { worker, add, ended } = await world();
    await add('j1', jobData({ cancelled: true }));
    await add('j2', { cancelled: true });
    for (const id of ['j1', 'j2']) {
      expect(await ended(id)).toMatchObject({
        state: 'failed',
        failedReason: 'CANCELLED: the job was cancelled',
        attemptsMade: 1,
      });
    }
    expect(worker.executes).toEqual([]);
  });

  test('while it runs fails at once, and its worker is told', async () => {
    const { cluster, worker, add, ended, batches, queues } = await world();
    await add('j1');
    await batches(1);
    await queues.changes.cancel(model, 'j1');
    const gateway = cluster.gateway();
    gateway.cancelJob(model, 'j1');
    expect(await ended('j1')).toMatchObject({ state: 'failed', failedReason: 'CANCELLED: the job was cancelled' });
    await expect.poll(() => worker.cancels.length).toBe(1);
    // What it still answers is nobody's.
    worker.finish();
    await settle();
    expect(cluster.coordinator.counts).toMatchObject({ queued: 0, running: 0 });
    expect(cluster.coordinator.heldJobs).toBe(0);
    await add('j2');
    await batches(1);
    worker.finish();
    expect(await ended('j2')).toMatchObject({ state: 'completed' });
  });

  test('while it waits behind others leaves their queue', async () => {
    const { cluster, worker, add, ended, batches } = await world();
    for (const id of ['j1', 'j2']) await add(id);
    await batches(2);
    await add('j3');
    await expect.poll(() => cluster.coordinator.counts.queued).toBe(1);
    cluster.gateway().cancelJob(model, 'j3');
    expect(await ended('j3')).toMatchObject({ state: 'failed', failedReason: 'CANCELLED: the job was cancelled' });
    expect(cluster.coordinator.counts.queued).toBe(0);
    worker.finish();
    worker.finish();
    expect(await ended('j2')).toMatchObject({ state: 'completed' });
  });

  test('that is taken and not held yet, as while its tensors are read, is not run', async () => {
    let handOn = () => {};
    const read = new Promise<void>((resolve) => {
      handOn = resolve;
    });
    let isTaken = false;
    const { cluster, worker, queues, add, ended } = await world('', undefined, (opened) => ({
      ...opened,
      take: (name, options) =>
        opened.take(name, {
          ...options,
          taken(job) {
            isTaken = true;
            void read.then(() => options.taken(job));
            return true;
          },
        }),
    }));
    await add('j1');
    await expect.poll(() => isTaken).toBe(true);
    await queues.changes.cancel(model, 'j1');
    const finds = vi.spyOn(queues, 'find');
    cluster.gateway().cancelJob(model, 'j1');
    await expect.poll(() => finds.mock.results.length).toBe(1);
    await finds.mock.results[0]?.value;
    await settle();
    handOn();
    expect(await ended('j1')).toMatchObject({ state: 'failed', failedReason: 'CANCELLED: the job was cancelled' });
    expect(worker.executes).toEqual([]);
  });

  test('which has ended by then is no matter when it is retried', async () => {
    const { cluster, worker, queues, add, ended, batches } = await world();
    await add('j1', {});
    await ended('j1');
    const finds = vi.spyOn(queues, 'find');
    cluster.gateway().cancelJob(model, 'j1');
    await expect.poll(() => finds.mock.results.length).toBe(1);
    await finds.mock.results[0]?.value;
    await (await queues.openBullQueue(model, 'infer').getJob('j1'))?.updateData(jobData());
    await queues.changes.retry(model, 'j1');
    await batches(1);
    worker.finish();
    expect(await ended('j1')).toMatchObject({ state: 'completed' });
  });

  test('elsewhere is no matter of this owner', async () => {
    const { cluster, worker, add, ended, batches } = await world();
    cluster.gateway().cancelJob(model, 'none');
    await add('j1');
    await batches(1);
    worker.finish();
    expect(await ended('j1')).toMatchObject({ state: 'completed' });
  });

  test('being a step ends its sequence', async () => {
    const config = 'max_batch_size: 1 sequence_batching { max_sequence_idle_microseconds: 600000000 }';
    const { cluster, worker, add, ended, batches } = await world(config);
    const tensor = { name: 'A', datatype: 'FP32', shape: [1, 1], data: [1] };
    const step = (parameters: object, more: object = {}) => ({
      inputs: [tensor],
      parameters: { sequence_id: 5, ...parameters },
      ...more,
    });
    await add('j1', step({ sequence_start: true }));
    await batches(1);
    worker.finish();
    expect(await ended('j1')).toMatchObject({ state: 'completed' });
    // Tensors beside a cancelled job are not read.
    const { data: _data, ...beside } = { ...tensor, blob: { ref: 'jb-gone', byte_size: 4 } };
    await add('j2', step({}, { cancelled: true, inputs: [beside] }));
    expect(await ended('j2')).toMatchObject({ failedReason: 'CANCELLED: the job was cancelled' });
    await add('j3', step({}));
    expect((await ended('j3'))?.failedReason).toMatch(/^INVALID_ARG: .*START flag/);
    expect(cluster.coordinator.heldJobs).toBe(0);
  });
});
