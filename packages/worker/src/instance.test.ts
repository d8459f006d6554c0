import { LIMITS } from '@nereid/config';
import { describe, expect, it } from 'vitest';
import {
  CARRIERS,
  createHarness,
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const x = (value: number) => request([int32('X', [1], [value])]);
/** Does what the value says: 1 answers, 2 exits, 3 throws where nobody catches, 4 rejects likewise. */
const FRAGILE = `export async function execute([{ inputs }]) {
  const X = inputs.get('X');
  if (X.data[0] === 2) process.exit(7);
  if (X.data[0] === 3) { setImmediate(() => { throw new Error('thrown aside'); }); await new Promise(() => setInterval(() => {}, 1000)); }
  if (X.data[0] === 4) { Promise.reject(new Error('rejected aside')); await new Promise(() => setInterval(() => {}, 1000)); }
  return [{ outputs: { Y: X } }];
}`;

const ready = (yes: boolean) => harness.described('m', ({ versions }) => versions[0]?.instances[0]?.ready === yes);

/** Ends what carries the instance that was started at that place among all. */
const kill = (carrier: 'thread' | 'process', index: number) =>
  carrier === 'thread' ? harness.threads[index]?.terminate() : harness.processes[index]?.kill('SIGKILL');
const started = (carrier: 'thread' | 'process') => harness[carrier === 'thread' ? 'threads' : 'processes'].length;

describe.each(CARRIERS)('an instance whose %s ends', (carrier, config) => {
  it.each([
    ['by process.exit', 2, 'exit code 7'],
    ['by an exception that nobody catches', 3, 'thrown aside'],
    ['by a rejection that nobody catches', 4, 'rejected aside'],
  ])('%s refuses what killed it twice and is back', async (_, value, text) => {
    await harness.javascript('m', FRAGILE, config);
    await harness.load('m');
    expect((await harness.execute('m', [x(1)])).outcomes[0]?.ok).toBe(true);
    const down = ready(false);
    const { outcomes, done } = await harness.execute('m', [x(value)]);
    expect(errorOf(outcomes[0])).toEqual({
      code: 'POISONED',
      message: expect.stringMatching(
        `^the request is refused: instance 'm_0' of model 'm' ended: .*${text}, a second time with this request in it$`,
      ),
    });
    expect(executedOf(done)).toEqual([true, 'error']);
    const up = ready(true);
    expect((await down).versions[0]).toMatchObject({ state: 'READY', instances: [{ ready: false }] });
    await up;
    expect((await harness.execute('m', [x(1)])).outcomes[0]?.ok).toBe(true);
    expect(started(carrier)).toBe(3);
  });

  it('because it was killed between runs is back, with no request failed', async () => {
    await harness.javascript('m', FRAGILE, config);
    await harness.load('m');
    await harness.execute('m', [x(1)]);
    const up = ready(false).then(() => ready(true));
    await kill(carrier, 0);
    await up;
    expect((await harness.execute('m', [x(1)])).outcomes[0]?.ok).toBe(true);
    expect(started(carrier)).toBe(2);
  });

  it('keeps what comes while it is down and runs it after', async () => {
    await harness.javascript('m', FRAGILE, config);
    await harness.load('m');
    const down = ready(false);
    const lost = harness.execute('m', [x(2)]);
    await down;
    const kept = harness.execute('m', [x(1)]);
    expect((await lost).outcomes[0]?.ok).toBe(false);
    expect((await kept).outcomes[0]?.ok).toBe(true);
  });

  it('leaves the other instances alone', async () => {
    await harness.javascript('m', FRAGILE, `${config} instance_group { count: 2 kind: KIND_CPU }`);
    await harness.load('m');
    const [bad, good] = await Promise.all([harness.execute('m', [x(2)], 0), harness.execute('m', [x(1)], 1)]);
    expect([bad.outcomes[0]?.ok, good.outcomes[0]?.ok]).toEqual([false, true]);
  });

  it('again and again without doing anything is given up with the reason', async () => {
    await harness.javascript(
      'm',
      `export function initialize() { setImmediate(() => process.exit(9)); } export const execute = () => [];`,
      config,
    );
    const unavailable = harness.described('m', ({ versions }) => versions[0]?.state === 'UNAVAILABLE');
    harness.owner.send('wk-test', await harness.control('m'));
    const { versions } = await unavailable;
    expect(versions[0]?.reason).toContain(
      `Internal: instance 'm_0' of model 'm' ended: its ${carrier} ended with exit code 9`,
    );
    const { outcomes, done } = await harness.execute('m', [x(1)]);
    expect(errorOf(outcomes[0]).code).toBe('UNAVAILABLE');
    expect(executedOf(done)).toEqual([false, 'error']);
  });

  it('for good leaves the others to serve; the version is UNAVAILABLE when none is left', async () => {
    // A carrier whose request is 2 spoils every later start of its instance.
    await harness.javascript(
      'm',
      `import { existsSync, writeFileSync } from 'node:fs';
      let spoilt;
      export function initialize({ instanceName }) {
        spoilt = new URL('spoilt-' + instanceName, import.meta.url);
        if (existsSync(spoilt)) throw new Error('spoilt');
      }
      export async function execute([{ inputs }]) {
        const X = inputs.get('X');
        if (X.data[0] === 2) { writeFileSync(spoilt, ''); process.exit(1); }
        return [{ outputs: { Y: X } }];
      }`,
      `${config} instance_group { count: 2 kind: KIND_CPU }`,
    );
    await harness.load('m');
    const first = await harness.execute('m', [x(2)], 0);
    expect(errorOf(first.outcomes[0])).toMatchObject({ code: 'UNAVAILABLE', message: expect.stringMatching('spoilt') });
    expect((await harness.execute('m', [x(1)], 1)).outcomes[0]?.ok).toBe(true);
    const described = harness.described('m', ({ askedAt }) => askedAt === 7);
    harness.owner.send('wk-test', { kind: 'describe', model: 'm', epoch: { number: 1, owner: 'co-test' }, askedAt: 7 });
    expect((await described).versions).toMatchObject([
      { state: 'READY', reason: '', instances: [{ ready: false }, { ready: true }] },
    ]);
    const unavailable = harness.described('m', ({ versions }) => versions[0]?.state === 'UNAVAILABLE');
    await harness.execute('m', [x(2)], 1);
    expect((await unavailable).versions[0]?.reason).toContain('spoilt');
  });
});

describe('an instance whose model uses its thread’s own port', () => {
  it.each([
    ['writing to it', 'parentPort.postMessage(null); parentPort.postMessage(new ArrayBuffer(8));'],
    ['writing what looks like a report', "parentPort.postMessage({ kind: 'outcomes', sequence: 1, outcomes: null });"],
    ['listening at it', "parentPort.on('message', () => process.exit(9));"],
    ['closing it', 'parentPort.close();'],
  ])('%s neither disturbs nor is disturbed by it', async (_, use) => {
    await harness.javascript(
      'm',
      `import { parentPort } from 'node:worker_threads';
       export function execute([{ inputs }]) { ${use} return [{ outputs: { Y: inputs.get('X') } }]; }`,
    );
    await harness.load('m');
    for (const value of [1, 2]) {
      const { outcomes } = await harness.execute('m', [x(value)]);
      expect(int32Values(responseOf(outcomes[0]).outputs[0])).toEqual([value]);
    }
    expect(harness.threads).toHaveLength(1);
  });
});

it('an instance does not hold a batch that cannot be sent to its thread', async () => {
  await harness.javascript('m', FRAGILE);
  await harness.load('m');
  const unsendable = { ...x(1), parameters: { callback: (() => 1) as never } };
  const { outcomes, done } = await harness.execute('m', [unsendable]);
  expect(errorOf(outcomes[0]).message).toContain('could not be cloned');
  expect(executedOf(done)).toEqual([false, 'error']);
  expect(harness.worker.counters().batches).toBe(0);
});

describe('an instance that does not come up', () => {
  it('in time is UNAVAILABLE; its thread ends by itself once it has loaded', async () => {
    const hasty = await createHarness({ limits: { ...LIMITS, instance_start_timeout_ms: 1 } });
    await hasty.javascript('m', 'await new Promise((go) => setTimeout(go, 50)); export const execute = () => [];');
    const { versions } = await hasty.load('m');
    expect(versions[0]).toMatchObject({
      state: 'UNAVAILABLE',
      reason: expect.stringContaining('did not load within 1 ms'),
    });
    expect(await hasty.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  it('since there is no thread for it is UNAVAILABLE', async () => {
    const poor = await createHarness({
      spawn() {
        throw new Error('out of threads');
      },
    });
    await poor.javascript('m', FRAGILE);
    const { versions } = await poor.load('m');
    expect(versions[0]).toMatchObject({ state: 'UNAVAILABLE', reason: expect.stringContaining('out of threads') });
    expect(await poor.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });
});

describe('stopping', () => {
  it('calls finalize and does not wait for what a model leaves open', async () => {
    await harness.javascript(
      'm',
      `setInterval(() => {}, 1000); export const execute = () => []; export function finalize() { globalThis.finished = true; }`,
    );
    await harness.load('m');
    await harness.worker.stop();
    expect(harness.worker.counters().threads).toBe(0);
  });

  it('while loading lets the load end and gives no READY', async () => {
    await harness.javascript('m', `await new Promise((go) => setTimeout(go, 50)); export const execute = () => [];`);
    const loading = harness.described('m', ({ versions }) => versions[0]?.state === 'LOADING');
    harness.owner.send('wk-test', await harness.control('m'));
    await loading;
    await harness.worker.stop();
    const states = harness.received.flatMap((message) =>
      message.kind === 'described' ? message.versions.map(({ state }) => state) : [],
    );
    expect(states).not.toContain('READY');
    expect(states.at(-1)).toBe('UNAVAILABLE');
  });

  it('past its deadline ends a thread that never comes back, and fails what it held', async () => {
    await harness.javascript('m', 'export const execute = () => new Promise(() => {});');
    await harness.load('m');
    const held = harness.execute('m', [x(1)]);
    // Waits until the worker has read the batch.
    await harness.cancel('m', []);
    await harness.worker.stop(1);
    expect(errorOf((await held).outcomes[0]).message).toMatch(/^instance 'm_0' of model 'm' ended: /);
  });

  it('past its deadline ends a thread that was given up while loading', async () => {
    const hasty = await createHarness({ limits: { ...LIMITS, instance_start_timeout_ms: 1 } });
    await hasty.javascript('m', 'await new Promise(() => setInterval(() => {}, 1000));');
    await hasty.load('m');
    await hasty.worker.stop(1);
    expect(await hasty.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });

  it('refuses what comes afterwards', async () => {
    await harness.javascript('m', FRAGILE);
    await harness.load('m');
    harness.owner.send('wk-test', await harness.control('m', { action: 'unload', config: '', versions: [] }));
    await harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    const { outcomes, done } = await harness.execute('m', [x(1)]);
    expect(errorOf(outcomes[0]).code).toBe('UNAVAILABLE');
    expect(executedOf(done)).toEqual([false, 'error']);
  });
});
