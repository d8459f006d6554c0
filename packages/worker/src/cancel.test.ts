import { randomUUID } from 'node:crypto';
import { BroadcastChannel } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import {
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

const GATED = 1;
const CANCELLED = { code: 'CANCELLED', message: 'Request cancelled' };

/** What a model tells and waits for: both ends of a channel between its thread and the test. */
interface Gate {
  readonly name: string;
  /** Batches that the model got, as lists of values. */
  readonly executed: readonly (readonly number[])[];
  /** Resolves once the model has got so many batches. */
  reached(batches: number): Promise<void>;
  open(): void;
  close(): void;
}

function createGate(): Gate {
  const name = randomUUID();
  const channel = new BroadcastChannel(name);
  const executed: number[][] = [];
  const waiters: { readonly batches: number; readonly resolve: () => void }[] = [];
  channel.onmessage = (event) => {
    executed.push((event as { readonly data: number[] }).data);
    for (const { batches, resolve } of waiters) if (batches <= executed.length) resolve();
  };
  return {
    name,
    executed,
    reached: (batches) =>
      executed.length >= batches ? Promise.resolve() : new Promise((resolve) => waiters.push({ batches, resolve })),
    open: () => channel.postMessage('go'),
    close: () => channel.close(),
  };
}

let harness: Harness;
let gate: Gate;
afterEach(() => gate.close());
eachWithHarness((made) => {
  harness = made;
  gate = createGate();
});

/** Tells the values of each batch; with a GATED one in it, does `wait` before it answers. */
const gated = (wait: string) => `
  import { BroadcastChannel, receiveMessageOnPort } from 'node:worker_threads';
  const gate = new BroadcastChannel('${gate.name}');
  gate.unref();
  const answer = (requests) => requests.map(({ inputs }) => ({ outputs: { Y: inputs.get('X') } }));
  export function execute(requests) {
    const values = requests.map(({ inputs }) => inputs.get('X').data[0]);
    gate.postMessage(values);
    if (!values.includes(${GATED})) return answer(requests);
    ${wait}
  }`;
const ASYNC = 'return new Promise((go) => { gate.onmessage = () => go(answer(requests)); });';
/** As a run of onnxruntime: the thread's event loop stands still. */
const SYNC = 'while (receiveMessageOnPort(gate) === undefined); return answer(requests);';
const BATCHING = 'max_batch_size: 8';
const x = (value: number) => request([int32('X', [1, 1], [value])]);

async function load(wait: string) {
  await harness.javascript('m', gated(wait), BATCHING);
  await harness.load('m');
}

describe('a request that is cancelled behind another batch', () => {
  it.each([
    ['waits for something', ASYNC],
    ['keeps its thread busy', SYNC],
  ])('is not executed, where the model %s', async (_, wait) => {
    await load(wait);
    const first = harness.start('m', [x(GATED)]);
    const left = harness.start('m', [x(2), x(3)]);
    const last = harness.start('m', [x(4)]);
    await gate.reached(1);
    await harness.cancel('m', left.ids);
    gate.open();
    const [before, skipped, after] = [await first.over, await left.over, await last.over];
    expect(executedOf(before.done)).toEqual([true, 'ok']);
    expect(executedOf(skipped.done)).toEqual([false, 'cancelled', 'cancelled']);
    expect(skipped.outcomes.map(errorOf)).toEqual([CANCELLED, CANCELLED]);
    expect(executedOf(after.done)).toEqual([true, 'ok']);
    await gate.reached(2);
    expect(gate.executed).toEqual([[GATED], [4]]);
  });

  it('leaves the others of its batch alone', async () => {
    await load(ASYNC);
    const first = harness.start('m', [x(GATED)]);
    const second = harness.start('m', [x(2), x(3), x(4)]);
    await gate.reached(1);
    await harness.cancel('m', second.ids.slice(1, 2));
    gate.open();
    await first.over;
    const { outcomes, done } = await second.over;
    expect(executedOf(done)).toEqual([true, 'ok', 'cancelled', 'ok']);
    expect([0, 2].map((i) => int32Values(responseOf(outcomes[i]).outputs[0]))).toEqual([[2], [4]]);
    expect(errorOf(outcomes[1])).toEqual(CANCELLED);
  });

  it('may be cancelled twice, or after it is over', async () => {
    await load(ASYNC);
    const first = harness.start('m', [x(GATED)]);
    const second = harness.start('m', [x(2), x(3)]);
    await gate.reached(1);
    await harness.cancel('m', [second.ids[0] ?? '', second.ids[0] ?? '', 'gw-test:99']);
    gate.open();
    await first.over;
    expect(executedOf((await second.over).done)).toEqual([true, 'cancelled', 'ok']);
    await harness.cancel('m', [...first.ids, ...second.ids]);
    expect(executedOf((await harness.execute('m', [x(5)])).done)).toEqual([true, 'ok']);
  });

  it('is executed where a replaced owner cancels it', async () => {
    await load(ASYNC);
    const first = harness.start('m', [x(GATED)]);
    const second = harness.start('m', [x(2)]);
    await gate.reached(1);
    const sent = { number: 0, owner: 'co-test' };
    const refused = harness.next('refused');
    await harness.cancel('m', second.ids, sent);
    expect(await refused).toMatchObject({ model: 'm', sent });
    gate.open();
    await first.over;
    expect(executedOf((await second.over).done)).toEqual([true, 'ok']);
  });
});

describe('a request that is cancelled while it runs', () => {
  it('has its own signal aborted, and ends as cancelled whatever the model makes of it', async () => {
    await load(`
      const aborted = new Promise((go) => requests[1].signal.addEventListener('abort', go));
      return aborted.then(() => {
        gate.postMessage(requests.map(({ signal }) => signal.aborted));
        return answer(requests);
      });`);
    const running = harness.start('m', [x(GATED), x(2)]);
    await gate.reached(1);
    await harness.cancel('m', running.ids.slice(1));
    const { outcomes, done } = await running.over;
    expect(executedOf(done)).toEqual([true, 'ok', 'cancelled']);
    expect(int32Values(responseOf(outcomes[0]).outputs[0])).toEqual([GATED]);
    await gate.reached(2);
    expect(gate.executed[1]).toEqual([false, true]);
  });

  it('ends as cancelled where the model throws for it', async () => {
    await load(`
      const { signal } = requests[0];
      return new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason)));`);
    const running = harness.start('m', [x(GATED)]);
    await gate.reached(1);
    await harness.cancel('m', running.ids);
    expect(executedOf((await running.over).done)).toEqual([true, 'cancelled']);
  });
});

describe('a request that is cancelled while its instance is restarted', () => {
  const ones = (value: number) =>
    request(['INPUT0', 'INPUT1'].map((name) => int32(name, [1, 16], new Array(16).fill(value))));

  it('is over at once; of a batch the others run', async () => {
    harness.fixture('simple');
    await harness.load('simple');
    const ready = (yes: boolean) =>
      harness.described('simple', ({ versions }) => versions[0]?.instances[0]?.ready === yes);
    const down = ready(false);
    await harness.threads[0]?.terminate();
    await down;
    const up = ready(true).then(() => 'up' as const);
    const left = harness.start('simple', [ones(1)]);
    const partly = harness.start('simple', [ones(2), ones(3)]);
    void harness.cancel('simple', [...left.ids, ...partly.ids.slice(0, 1)]);
    const ended = await Promise.race([left.over, up]);
    expect(ended !== 'up' && executedOf(ended.done)).toEqual([false, 'cancelled']);
    const { outcomes, done } = await partly.over;
    expect(executedOf(done)).toEqual([true, 'cancelled', 'ok']);
    expect(int32Values(responseOf(outcomes[1]).outputs[0])).toEqual(new Array(16).fill(6));
    expect(harness.threads).toHaveLength(2);
  });

  it('is not executed where the rest of its batch is cancelled once it is at the instance', async () => {
    await load(ASYNC);
    const down = harness.described('m', ({ versions }) => versions[0]?.instances[0]?.ready === false);
    await harness.threads[0]?.terminate();
    await down;
    const first = harness.start('m', [x(GATED)]);
    const second = harness.start('m', [x(2), x(3)]);
    await harness.cancel('m', second.ids.slice(0, 1));
    await gate.reached(1);
    await harness.cancel('m', second.ids.slice(1));
    gate.open();
    await first.over;
    expect(executedOf((await second.over).done)).toEqual([false, 'cancelled', 'cancelled']);
    expect(gate.executed).toEqual([[GATED]]);
  });
});
