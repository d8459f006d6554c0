import { randomUUID } from 'node:crypto';
import { BroadcastChannel } from 'node:worker_threads';
import { createLocalResources, type SharedResources } from '@nereid/transport';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sharedNowNs } from './shared-now.ts';
import { createHarness, errorOf, executedOf, type Harness, int32, request } from './worker-harness.ts';

const CANCELLED = { code: 'CANCELLED', message: 'Request cancelled' };
/** What a model does with a request of that value: it waits for a word of the test, or ends its thread at it. */
const GATED = 1;
const DIES = 2;

/** What the models of a test tell and wait for. */
function createGate() {
  const name = randomUUID();
  const channel = new BroadcastChannel(name);
  const begun: string[] = [];
  const waiters: { readonly fits: () => boolean; readonly resolve: () => void }[] = [];
  channel.onmessage = (event) => {
    begun.push((event as { readonly data: string }).data);
    for (const { fits, resolve } of waiters) if (fits()) resolve();
  };
  return {
    name,
    /** `model` for each batch that a model got, in their order. */
    begun,
    reached: (count: number) =>
      new Promise<void>((resolve) => {
        const fits = () => begun.length >= count;
        if (fits()) resolve();
        else waiters.push({ fits, resolve });
      }),
    open: (model: string) => channel.postMessage(`go ${model}`),
    close: () => channel.close(),
  };
}

let gate: ReturnType<typeof createGate>;
const harnesses: Harness[] = [];
const open = async (
  resources: readonly { name: string; count: number; device: undefined }[] = [],
  shared?: SharedResources,
) => {
  const harness = await createHarness({ rateLimit: { resources, shared } });
  harnesses.push(harness);
  return harness;
};
beforeEach(() => {
  gate = createGate();
});
afterEach(async () => {
  for (const harness of harnesses.splice(0)) {
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  }
  gate.close();
});

const source = (name: string) => `
  import { BroadcastChannel } from 'node:worker_threads';
  const gate = new BroadcastChannel('${gate.name}');
  gate.unref();
  export function execute(requests) {
    const answers = requests.map(({ inputs }) => ({ outputs: { Y: inputs.get('X') } }));
    const value = requests[0].inputs.get('X').data[0];
    const opened = new Promise((go) => {
      gate.onmessage = ({ data }) => {
        if (data !== 'go ${name}') return;
        if (value === ${DIES}) process.exit(3);
        go(answers);
      };
    });
    gate.postMessage('${name}');
    return value === 0 ? answers : opened;
  }`;
const x = (value = 0) => request([int32('X', [1], [value])]);

async function load(harness: Harness, name: string, resources: string, more = '') {
  await harness.javascript(
    name,
    source(name),
    `instance_group { kind: KIND_CPU rate_limiter { ${resources} } ${more} }`,
  );
  const { versions } = await harness.load(name);
  return versions[0];
}
const R1 = 'resources { name: "R" count: 1 }';
const GLOBAL = 'resources { name: "G" count: 1 global: true }';

/** A worker's model `a`, which runs, with what it needs, until the gate is opened for it. */
async function occupy(harness: Harness, resources = R1, value = GATED) {
  await load(harness, 'a', resources);
  const held = harness.start('a', [x(value)]);
  await gate.reached(1);
  return held;
}

describe('a worker with a rate limiter', () => {
  it('runs two models that need one of one after the other, and counts the wait as waiting', async () => {
    const harness = await open();
    const first = await occupy(harness);
    await load(harness, 'b', R1);
    const second = harness.start('b', [x()]);
    const described = harness.described('b', ({ askedAt }) => askedAt === 5);
    harness.owner.send('wk-test', { kind: 'describe', model: 'b', epoch: { number: 1, owner: 'co-test' }, askedAt: 5 });
    // It is held, as its owner hears, but not by its instance.
    expect((await described).versions[0]?.instances[0]?.batches).toEqual([2]);
    expect(gate.begun).toEqual(['a']);
    const openedNs = sharedNowNs();
    gate.open('a');
    const [{ done: a }, { done: b }] = await Promise.all([first.over, second.over]);
    const overNs = sharedNowNs();
    await gate.reached(2);
    expect(gate.begun).toEqual(['a', 'b']);
    const { inputNs, inferNs, outputNs } = b.timing;
    expect(inputNs + inferNs + outputNs).toBeLessThanOrEqual(overNs - openedNs);
    expect([executedOf(a), executedOf(b)]).toEqual([
      [true, 'ok'],
      [true, 'ok'],
    ]);
  });

  it('lets models run together that need other resources, or none', async () => {
    const harness = await open();
    const held = await occupy(harness);
    await load(harness, 'b', 'resources { name: "S" count: 1 }');
    await load(harness, 'c', 'priority: 3');
    await Promise.all([harness.execute('b', [x()]), harness.execute('c', [x()])]);
    gate.open('a');
    await held.over;
  });

  it('gives turns by executions and priority, the next batch of an instance being there in time', async () => {
    const harness = await open();
    const held = await occupy(harness, `${R1} priority: 1`);
    await load(harness, 'b', `${R1} priority: 2`);
    const all = [
      ...Array.from({ length: 5 }, () => harness.start('a', [x()])),
      ...Array.from({ length: 3 }, () => harness.start('b', [x()])),
    ];
    gate.open('a');
    await Promise.all([held, ...all].map(({ over }) => over));
    const order = harness.received.flatMap((message) => (message.kind === 'done' ? [message.model] : []));
    expect(order.join('')).toBe('ababaabaa');
  });

  it('drops a batch that nobody waits for any more, without a turn', async () => {
    const harness = await open();
    const held = await occupy(harness);
    await load(harness, 'b', R1);
    const staged = harness.start('b', [x()]);
    await harness.cancel('b', staged.ids);
    const { outcomes, done } = await staged.over;
    expect(errorOf(outcomes[0])).toEqual(CANCELLED);
    expect(executedOf(done)).toEqual([false, 'cancelled']);
    gate.open('a');
    await held.over;
    expect(gate.begun).toEqual(['a']);
  });

  it('runs the rest of a batch of which some nobody waits for', async () => {
    const harness = await open();
    const held = await occupy(harness);
    await harness.javascript(
      'b',
      source('b').replace('= requests[0]', '= 0 * requests[0]'),
      `max_batch_size: 4 instance_group { kind: KIND_CPU rate_limiter { ${R1} } }`,
    );
    await harness.load('b');
    const row = request([int32('X', [1, 1], [0])]);
    const staged = harness.start('b', [row, row]);
    await harness.cancel('b', staged.ids.slice(1));
    gate.open('a');
    await held.over;
    expect(executedOf((await staged.over).done)).toEqual([true, 'ok', 'cancelled']);
  });

  it('gives back what an instance held whose thread ended, and what waits for that instance runs once it is back', async () => {
    const harness = await open();
    const lost = await occupy(harness, R1, DIES);
    await load(harness, 'b', R1);
    const behind = harness.start('a', [x()]);
    const other = harness.start('b', [x()]);
    gate.open('a');
    // It runs once more by itself, still with what it holds.
    await gate.reached(2);
    gate.open('a');
    expect((await lost.over).outcomes[0]?.ok).toBe(false);
    expect((await other.over).outcomes[0]?.ok).toBe(true);
    expect((await behind.over).outcomes[0]?.ok).toBe(true);
    await gate.reached(4);
    expect(gate.begun).toEqual(['a', 'a', 'b', 'a']);
  });

  it('lets what waits behind a batch that ended its thread run once the instance is back', async () => {
    const harness = await open();
    const lost = await occupy(harness, R1, DIES);
    const behind = harness.start('a', [x()]);
    await harness.cancel('a', []);
    gate.open('a');
    // It runs once more by itself.
    await gate.reached(2);
    gate.open('a');
    expect((await lost.over).outcomes[0]?.ok).toBe(false);
    expect((await behind.over).outcomes[0]?.ok).toBe(true);
  });

  it('finishes what waits when the model is unloaded, and its threads end', async () => {
    const harness = await open();
    const held = await occupy(harness);
    await load(harness, 'b', R1);
    const staged = harness.start('b', [x()]);
    const unloaded = harness.described('b', ({ versions }) => versions[0]?.state === 'UNAVAILABLE');
    harness.owner.send('wk-test', await harness.control('b', { action: 'unload' }));
    gate.open('a');
    await held.over;
    expect(executedOf((await staged.over).done)).toEqual([true, 'ok']);
    await unloaded;
  });

  it('that stops finishes what waits; past its deadline that fails', async () => {
    const harness = await open();
    const held = await occupy(harness);
    await load(harness, 'b', R1);
    const staged = harness.start('b', [x()]);
    // The worker has it before it stops.
    await harness.cancel('b', []);
    const stopped = harness.worker.stop(1);
    const { outcomes, done } = await staged.over;
    expect(errorOf(outcomes[0]).message).toContain('it is being unloaded');
    expect(executedOf(done)).toEqual([false, 'error']);
    expect(errorOf((await held.over).outcomes[0]).code).toBe('INTERNAL');
    await stopped;
  });

  it('holds the resources of a stream until its end', async () => {
    const harness = await open();
    await harness.javascript(
      'a',
      `import { BroadcastChannel } from 'node:worker_threads';
      const gate = new BroadcastChannel('${gate.name}');
      gate.unref();
      export const execute = (requests) => requests.map(async function* ({ inputs }) {
        const answer = { outputs: { Y: inputs.get('X') } };
        const opened = new Promise((go) => { gate.onmessage = go; });
        gate.postMessage('a');
        yield answer;
        await opened;
        yield answer;
      });`,
      `model_transaction_policy { decoupled: true } instance_group { kind: KIND_CPU rate_limiter { ${R1} } }`,
    );
    await harness.load('a');
    await load(harness, 'b', R1);
    const first = harness.next('response', ({ model }) => model === 'a');
    const done = harness.next('done', ({ model }) => model === 'a');
    const { over } = harness.start('a', [x()]);
    expect(await first).toMatchObject({ chunk: 0, last: false });
    const staged = harness.start('b', [x()]);
    await harness.cancel('b', []);
    await gate.reached(1);
    expect(gate.begun).toEqual(['a']);
    gate.open('a');
    await Promise.all([done, staged.over, over]);
  });

  it.each([
    [
      'less than it needs',
      'resources { name: "R" count: 4 }',
      'Resource count for "R" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 4',
    ],
    [
      'nothing of it',
      'resources { name: "S" count: 1 }',
      'Resource count for "S" is limited to 0 which will prevent scheduling of one or more model instances, the minimum required count is 1',
    ],
    [
      'it both here and for all',
      `${R1} resources { name: "R" count: 1 global: true }`,
      'Resource "R" is present as both global and device-specific resource in the model configuration.',
    ],
  ])('refuses a model where there is %s, and the others serve', async (_, resources, text) => {
    const harness = await open([{ name: 'r', count: 1, device: undefined }]);
    await load(harness, 'a', R1);
    expect(await load(harness, 'bad', resources)).toMatchObject({
      state: 'UNAVAILABLE',
      reason: `Invalid argument: ${text}`,
    });
    expect((await harness.execute('a', [x()])).outcomes[0]?.ok).toBe(true);
  });

  it('ignores passive instances', async () => {
    const harness = await open([{ name: 'R', count: 1, device: undefined }]);
    expect(await load(harness, 'a', 'resources { name: "S" count: 1 }', 'passive: true')).toMatchObject({
      state: 'READY',
    });
  });
});

describe('global resources', () => {
  /** The first one's model `a` holds what the other's model `b` needs. */
  async function twoWorkers() {
    const shared = createLocalResources();
    const [one, two] = [await open([], shared), await open([], shared)];
    await load(two, 'b', GLOBAL);
    return { one, two, held: await occupy(one, GLOBAL) };
  }

  it('are those of all workers', async () => {
    const { two, held } = await twoWorkers();
    const other = two.start('b', [x()]);
    await two.cancel('b', []);
    expect(gate.begun).toEqual(['a']);
    gate.open('a');
    await held.over;
    expect((await other.over).outcomes[0]?.ok).toBe(true);
  });

  it('that are waited for in vain hold nobody up once the batch is cancelled', async () => {
    const { two, held } = await twoWorkers();
    await load(two, 'c', R1);
    const waits = two.start('b', [x()]);
    const behind = two.start('c', [x()]);
    await two.cancel('b', waits.ids);
    expect((await behind.over).outcomes[0]?.ok).toBe(true);
    expect(executedOf((await waits.over).done)).toEqual([false, 'cancelled']);
    gate.open('a');
    await held.over;
  });

  it('are given back by a worker that has stopped', async () => {
    const { one, two, held } = await twoWorkers();
    const other = two.start('b', [x()]);
    await one.worker.stop(1);
    expect((await held.over).outcomes[0]?.ok).toBe(false);
    expect((await other.over).outcomes[0]?.ok).toBe(true);
  });
});
