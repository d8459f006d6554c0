import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLog, virtualClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type LoadedStrategy, loadStrategy } from './batching-strategy.ts';
import { startedCluster } from './fake-apart.ts';
import { type FakeWorker, fakeCluster, fakeModel, fakeRequest, settle } from './fake-cluster.ts';
import type { OwnedRequest } from './version-queue.ts';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nereid-strategy-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

/** Closes a batch at more than 64 bytes of inputs, and writes each call down. */
const VOLUME = () => `
  import { appendFileSync } from 'node:fs';
  const note = (text) => appendFileSync(${JSON.stringify(join(directory, 'calls'))}, text + '\\n');
  let batches = 0;
  export const modelInit = (config) => note('modelInit ' + config.name);
  export function batchInit() {
    note('batchInit');
    return { number: ++batches, bytes: 0 };
  }
  export function include({ id, inputs }, batch) {
    const { byteSize } = inputs.get('A');
    const fits = batch.bytes + byteSize <= 64;
    if (fits) batch.bytes += byteSize;
    note('include ' + id + ' ' + fits);
    return fits;
  }
  export const batchEnd = ({ number }) => note('batchEnd ' + number);
  export const modelEnd = () => note('modelEnd');`;

const write = (source: string) => writeFileSync(join(directory, 'strategy.mjs'), source);
const calls = () => readFileSync(join(directory, 'calls'), 'utf8').trimEnd().split('\n');
const CONFIG = 'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1000000 }';
const model = (contentHash = 'hash-1', name = 'm') =>
  fakeModel(name, CONFIG, { directory, strategies: { 1: 'strategy.mjs' }, contentHash });
const sized = (id: string, bytes: number) =>
  fakeRequest('m', {
    id,
    inputs: [{ name: 'A', datatype: 'FP32', shape: [1, bytes / 4], data: new Uint8Array(bytes) }],
  });
const ids = (worker: FakeWorker) =>
  worker.executes.map(({ entries }) => entries.map(({ request }) => ('id' in request ? request.id : '')));

describe('the strategy of a model', () => {
  test('closes its batches, and is told when one ends and when the model does', async () => {
    write(VOLUME());
    const cluster = fakeCluster([model()], { controlMode: 'explicit', loadModels: ['m'] });
    const worker = await cluster.worker();
    const gateway = cluster.gateway();
    expect(await cluster.coordinator.start()).toEqual([]);
    // The shapes differ by size, which alone would close a batch: so all have one.
    for (const id of ['a', 'b', 'c']) gateway.infer(sized(id, 24));
    await settle();
    expect(ids(worker)).toEqual([['a', 'b']]);
    await cluster.pass(1_000);
    worker.finish();
    await settle();
    expect(ids(worker)).toEqual([['c']]);
    worker.finish();
    await settle();
    gateway.infer(sized('d', 24));
    await settle();
    const unloaded = cluster.coordinator.unloadModel('m');
    await cluster.pass(1_000);
    worker.finish();
    await unloaded;
    expect(calls()).toEqual([
      'modelInit m',
      'batchInit',
      'include a true',
      'include b true',
      'include c false',
      'batchEnd 1',
      'batchInit',
      'include c true',
      'batchEnd 2',
      'batchInit',
      'include d true',
      'batchEnd 3',
      'modelEnd',
    ]);
    await cluster.coordinator.stop();
    expect(calls().at(-1)).toBe('modelEnd');
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('is another one after a reload, and ends with its coordinator, with the batch that it formed', async () => {
    write(VOLUME());
    const cluster = fakeCluster([model()], { controlMode: 'explicit', loadModels: ['m'] });
    await cluster.worker();
    const gateway = cluster.gateway();
    await cluster.coordinator.start();
    write(VOLUME().replace("'modelInit '", "'second modelInit '"));
    cluster.files.set('m', model('hash-2'));
    await cluster.coordinator.loadModel('m');
    gateway.infer(sized('a', 24));
    await settle();
    const stopped = cluster.coordinator.stop(0);
    await cluster.pass(1);
    await stopped;
    expect(calls()).toEqual([
      'modelInit m',
      'second modelInit m',
      'modelEnd',
      'batchInit',
      'include a true',
      'batchEnd 1',
      'modelEnd',
    ]);
  });

  test.each([
    ['syntax', 'export const', 'it cannot be imported: '],
    ['include', 'export const batchInit = () => 1;', 'it must export a function include(request, batch)'],
    [
      'modelInit',
      'export const include = () => true; export const modelInit = async () => { throw new Error("not mine"); }',
      'modelInit failed: not mine',
    ],
  ])('fails the load where it cannot be loaded: %s', async (_, source, why) => {
    write(source);
    const cluster = fakeCluster([model()]);
    const worker = await cluster.worker();
    const [failure] = await cluster.coordinator.start();
    expect(failure?.error.message).toContain(
      `UNAVAILABLE state: Invalid argument: batching strategy 'strategy.mjs' of model 'm': ${why}`,
    );
    expect(cluster.directory.record('m')?.versions[0]?.state).toBe('UNAVAILABLE');
    expect(worker.controls.map(({ action }) => action)).not.toContain('load');
    await cluster.coordinator.stop();
  });

  test('fails the load where it takes too long', async () => {
    write('export const include = () => true; export const modelInit = () => new Promise(() => {});');
    const cluster = fakeCluster([model()]);
    const started = cluster.coordinator.start();
    await expect.poll(() => cluster.clock.liveTimers).toBeGreaterThan(0);
    await cluster.pass(30_000);
    const [failure] = await started;
    expect(failure?.error.message).toContain('it did not load within 30000 ms');
    await cluster.coordinator.stop();
    expect(cluster.clock.liveTimers).toBe(0);
  });

  test('is loaded by the coordinator that takes the model over', async () => {
    write(VOLUME());
    const world = await startedCluster([model()]);
    await expect.poll(() => world.directory.record('m')?.versions[0]?.state).toBe('READY');
    await world.startAnother('co-2');
    await world.killFirst();
    await world.pass(500);
    await expect.poll(calls).toEqual(['modelInit m', 'modelInit m']);
    await world.pass(1_000);
    const gateway = world.gateway();
    for (const id of ['a', 'b', 'c']) gateway.infer(sized(id, 24));
    await settle();
    expect(ids(world.worker)).toEqual([['a', 'b']]);
    world.worker.finish();
    await world.pass(1_000);
    world.worker.finish();
    await settle();
  });

  test('that the next coordinator cannot load ends the model, with the reason', async () => {
    write(VOLUME());
    const world = await startedCluster([model()]);
    await expect.poll(() => world.directory.record('m')?.versions[0]?.state).toBe('READY');
    await world.startAnother('co-2');
    write('export const batchInit = 1;');
    await world.killFirst();
    await world.pass(500);
    await expect.poll(() => world.directory.record('m')?.versions[0]?.reason).toContain('must export a function');
  });
});

describe('a strategy without dynamic batching', () => {
  test('is told of and not loaded', async () => {
    write('syntax error');
    const warning = "the batching strategy 'strategy.mjs' of model 'm' has no effect without dynamic_batching";
    const cluster = fakeCluster([fakeModel('m', '', { directory, warning })]);
    const warned = vi.spyOn(cluster.log, 'warn');
    await cluster.worker();
    expect(await cluster.coordinator.start()).toEqual([]);
    expect(warned).toHaveBeenCalledWith({ model: 'm' }, warning);
    await cluster.coordinator.stop();
  });
});

describe('a strategy with faults', () => {
  const lines: string[] = [];
  const clock = virtualClock();
  const load = (source: string): Promise<LoadedStrategy> => {
    lines.length = 0;
    write(source);
    const log = createLog({ level: 'info', destination: { write: (line) => void lines.push(JSON.parse(line).msg) } });
    const { config } = model();
    return loadStrategy({ model: 'm', version: '1', directory, file: 'strategy.mjs', config }, clock, log);
  };
  const request = (data: Partial<OwnedRequest['message']> = {}): OwnedRequest => {
    const message = { request: sized('a', 8), ...data } as OwnedRequest['message'];
    return {
      id: '',
      rows: 1,
      shapeKey: '',
      arrivedUs: 0,
      priority: 0,
      timeoutUs: 0,
      deadlineUs: undefined,
      patient: false,
      sender: 'gw-1',
      coming: 0,
      sequence: undefined,
      message,
      ...{ job: '', foundWaiting: 0, foundAhead: 0, foundRunning: 0 },
    };
  };

  test.each([
    ['throws', 'throw new Error("too big")', 'include failed: too big'],
    ['returns nothing', '', 'include failed: it returned undefined, not true or false'],
    ['returns a number', 'return 1', 'include failed: it returned number, not true or false'],
    ['returns a promise', 'return Promise.resolve(true)', 'include failed: it returned a promise, not true or false'],
    ['rejects', 'return Promise.reject(new Error("late"))', 'include failed: it returned a promise, not true or false'],
  ])('closes the batch where include %s, and says so once a minute', async (_, body, why) => {
    const strategy = await load(`export function include() { ${body} }`);
    const batch = strategy.ask();
    expect([batch.include(request()), batch.include(request())]).toEqual([false, false]);
    expect(lines).toEqual([`batching strategy 'strategy.mjs': ${why}`]);
    clock.advanceUs(60_000_000);
    batch.include(request());
    expect(lines).toHaveLength(2);
    batch.end();
    strategy.close();
  });

  test('nothing else that it throws gets out', async () => {
    const fails = (name: string) => `export const ${name} = async () => { throw new Error("${name}"); };`;
    const strategy = await load(
      `export const include = (_, batch) => batch === undefined;
       export const batchInit = () => { throw new Error('batchInit'); }; ${fails('batchEnd')} ${fails('modelEnd')}`,
    );
    const batch = strategy.ask();
    expect(batch.include(request())).toBe(true);
    batch.end();
    strategy.close();
    expect(lines).toEqual(["batching strategy 'strategy.mjs': batchInit failed: batchInit"]);
  });

  test('is asked with all of a request but its data', async () => {
    const strategy = await load(
      `export const include = (request) => { throw new Error(JSON.stringify([request, [...request.inputs]])); };`,
    );
    const blob = { place: 'file', id: 'x', bytes: 99 } as const;
    strategy.ask().include(
      request({
        request: {
          ...sized('a', 8),
          correlationId: 'c',
          sequenceEnd: true,
          priority: 2n,
          timeoutUs: 5n,
          parameters: { small: 7n, text: 't' },
          requestedOutputs: ['B'],
          inputs: [
            { name: 'A', datatype: 'FP32', shape: [1, 2], data: new Uint8Array(8) },
            { name: 'L', datatype: 'UINT8', shape: [1, 99], blob },
          ],
        },
      }),
    );
    const told = JSON.parse(lines[0]?.split('include failed: ')[1] ?? '');
    expect(told).toEqual([
      {
        id: 'a',
        correlationId: 'c',
        flags: 2,
        priority: 2,
        timeoutUs: 5,
        parameters: { small: 7, text: 't' },
        requestedOutputs: ['B'],
        inputs: {},
      },
      [
        ['A', { datatype: 'FP32', shape: [1, 2], byteSize: 8 }],
        ['L', { datatype: 'UINT8', shape: [1, 99], byteSize: 99 }],
      ],
    ]);
    strategy.close();
  });
});
