/**
 * The walking skeleton under a seed, in virtual time: gateways with clients that leave, a
 * coordinator, and workers that are slow, fail, lose instances and die.
 * One seed again: NEREID_SIM_SEED=17 npx vitest run test/sim/skeleton.test.ts
 */

import { type ModelRecord, type ModelSource, parseModelConfig } from '@nereid/config';
import { createCoordinator } from '@nereid/coordinator';
import { type ExecuteMessage, type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import { createLog, createRegistry, type Random, seededRandom, virtualClock } from '@nereid/runtime';
import { INSTANCE_DEPTH_MAX } from '@nereid/scheduler';
import { createLocalDirectory, createLocalTransport } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createSimGateway, type SimSent } from './sim-gateway.ts';
import { pick } from './sim-models.ts';
import { createSimWorker, type SimWorker } from './sim-worker.ts';

const SEEDS = process.env.NEREID_SIM_SEED === undefined ? range(1, 50) : [Number(process.env.NEREID_SIM_SEED)];
const REQUESTS = 400;
const ROWS_MAX = 8;
const STEP_US_MAX = 400;
/** After the last request all must be over within this virtual time. */
const DRAIN_US = 10_000_000;

const TENSORS = `
  backend: "javascript" max_batch_size: ${ROWS_MAX}
  input { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }
  output { name: "B" data_type: TYPE_FP32 dims: [ -1 ] }`;

/** How many rows a batch of several requests may have, by model. */
const MODELS: Readonly<Record<string, { readonly config: string; readonly rows: number }>> = {
  single: { config: '', rows: 0 },
  eager: { config: 'dynamic_batching {}', rows: ROWS_MAX },
  patient: {
    config: 'dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 700 }',
    rows: 4,
  },
};

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

function source(name: string): ModelSource {
  const config = parseModelConfig(`name: "${name}" ${TENSORS} ${MODELS[name]?.config}`, 'config.pbtxt');
  return { name, directory: '', config, labels: {}, versions: ['1'], contentHash: '' };
}

const reader: ModelReader = {
  folders: async () => Object.keys(MODELS).map((name) => ({ name, conflict: null })),
  list: async () => [],
  read: async (name) => source(name),
  directory: async () => '',
  versions: async () => ['1'],
};

function request(random: Random): InferRequest {
  const rows = 1 + Math.floor(random.next() ** 3 * ROWS_MAX);
  return {
    ...REQUEST_DEFAULTS,
    modelName: pick(random, Object.keys(MODELS)),
    modelVersion: pick(random, ['', '1']),
    inputs: [{ name: 'A', datatype: 'FP32', shape: [rows, pick(random, [3, 3, 3, 5])], data: new Uint8Array() }],
  };
}

/** What no batch may be, whatever the seed. */
function checkBatch(seed: number, execute: ExecuteMessage, held: number): void {
  const { model, entries } = execute;
  const shapes = entries.map(({ request: { inputs } }) => inputs[0]?.shape ?? []);
  const rows = shapes.reduce((sum, [count = 0]) => sum + count, 0);
  const limit = MODELS[model]?.rows ?? 0;
  const what = `seed ${seed}, batch ${execute.batch} of ${model}`;
  expect(entries.length === 1 || rows <= limit, `${what}: ${rows} rows`).toBe(true);
  expect(new Set(shapes.map(([, length]) => length)).size, `${what}: shapes`).toBe(1);
  expect(new Set(entries.map(({ id }) => id)).size, `${what}: copies`).toBe(entries.length);
  expect(
    entries.every((entry) => entry.request.modelName === model),
    `${what}: models`,
  ).toBe(true);
  expect(held, `${what}: batches held by its instance`).toBeLessThanOrEqual(limit === 0 ? INSTANCE_DEPTH_MAX : 2);
}

/**
 * A batch that stands behind another at its instance could not have grown: it is full, or another request waits that
 * does not go with it.
 */
function checkAhead(seed: number, execute: ExecuteMessage, sent: readonly SimSent[]): void {
  const { model, entries } = execute;
  const shapes = entries.map(({ request: { inputs } }) => inputs[0]?.shape ?? []);
  const rows = shapes.reduce((sum, [count = 0]) => sum + count, 0);
  const limit = MODELS[model]?.rows ?? 0;
  const closesIt = ({ message: { id, request: other }, outcomes }: SimSent) => {
    const [count = 0, length] = other.inputs[0]?.shape ?? [];
    const waits = outcomes.length === 0 && other.modelName === model && entries.every((entry) => entry.id !== id);
    return waits && (rows + count > limit || length !== shapes[0]?.[1]);
  };
  const what = `seed ${seed}, batch ${execute.batch} of ${model} went ahead`;
  expect(rows >= limit || sent.some(closesIt), what).toBe(true);
}

/** Each model's requests were sent to workers in the order in which they arrived. */
function checkOrder(seed: number, executes: readonly ExecuteMessage[], places: ReadonlyMap<string, number>): void {
  for (const model of Object.keys(MODELS)) {
    const batches = executes.filter((execute) => execute.model === model).sort((a, b) => a.batch - b.batch);
    const arrivals = batches.flatMap(({ entries }) => entries.flatMap(({ id }) => places.get(id) ?? []));
    expect(arrivals, `seed ${seed}: order of ${model}`).toEqual([...arrivals].sort((a, b) => a - b));
  }
}

/** What was cancelled is known to be so wherever it is. */
function checkForgotten(seed: number, left: readonly string[], workers: readonly SimWorker[]): void {
  const wanted = new Set(workers.flatMap((worker) => worker.wanted()));
  expect(
    left.filter((id) => wanted.has(id)),
    `seed ${seed}: cancelled and still to be run`,
  ).toEqual([]);
}

/** Each request has one answer; one that was sent twice may, after a first answer, have run again. */
function checkOutcomes(seed: number, sent: Iterable<SimSent>): void {
  for (const { message, outcomes, sends } of sent) {
    const what = `seed ${seed}: answers to ${message.id}, sent ${sends} times`;
    expect(outcomes.length, what).toBeGreaterThanOrEqual(1);
    expect(outcomes.length, what).toBeLessThanOrEqual(sends);
  }
}

/** The sum of a metric over all models. */
function metric(text: string, name: string): number {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`));
  expect(lines.length).toBeGreaterThan(0);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

async function simulate(seed: number): Promise<void> {
  const random = seededRandom(seed);
  const clock = virtualClock();
  const transport = createLocalTransport({ messages_max: 65_536, bytes_max: 1_000_000_000 });
  const directory = createLocalDirectory<ModelRecord>();
  const registry = createRegistry();
  const executes: ExecuteMessage[] = [];
  const deaths = random.next() < 0.5;
  const gateways = ['gw-1', 'gw-2'].map((id) => createSimGateway(id, transport, directory));
  const places = new Map<string, number>();
  const newWorker = (number: number): SimWorker =>
    createSimWorker({
      id: `wk-${number}`,
      clock,
      random,
      transport,
      directory,
      instances: 1 + Math.floor(random.next() * 2),
      runUsMax: pick(random, [500, 3_000]),
      lossShare: pick(random, [0, 0.05]),
      failureShare: pick(random, [0, 0.1]),
      received: (execute, held) => {
        checkBatch(seed, execute, held);
        const isBatched = (MODELS[execute.model]?.rows ?? 0) > 0;
        const sent = gateways.flatMap((gateway) => [...gateway.sent.values()]);
        if (isBatched && held > 1) checkAhead(seed, execute, sent);
        executes.push(execute);
      },
    });
  const workers = range(1, 1 + Math.floor(random.next() * 3)).map(newWorker);
  for (const worker of workers) await worker.start();
  const log = createLog({ level: 'silent' });
  const options = { controlMode: 'none', queueMax: pick(random, [5, 1_000]) } as const;
  const coordinator = createCoordinator({ id: 'co-1', clock, transport, directory, log, registry, reader, options });
  expect(await coordinator.start()).toEqual([]);

  const step = async () => {
    clock.advanceUs(Math.ceil(random.next() * STEP_US_MAX));
    await settle();
  };
  let living = workers;
  /** Cancelled in this step. */
  const left: string[] = [];
  while (places.size < REQUESTS) {
    for (let burst = Math.floor(random.next() * 6); burst > 0; burst--) {
      const gateway = pick(random, gateways);
      const id = gateway.send(request(random), random.next() < 0.1 ? 1 + random.next() * 4 : 0);
      places.set(id, places.size);
      const laterUs = clock.nowUs() + random.next() * 5_000;
      if (random.next() < 0.1) {
        clock.at(laterUs, () => {
          gateway.cancel(id);
          left.push(id);
        });
      }
      if (random.next() < 0.1) clock.at(laterUs, () => gateway.resend(id));
    }
    if (deaths && random.next() < 0.03) {
      // Another takes its place first, so that the models always have a worker.
      const born = newWorker(workers.length + executes.length + places.size);
      await born.start();
      await settle();
      const victim = pick(random, living);
      await victim.die();
      living = [...living.filter((worker) => worker !== victim), born];
    }
    await step();
    // A copy may have come after the cancel.
    const once = left.splice(0).filter((id) => gateways.every(({ sent }) => (sent.get(id)?.sends ?? 1) === 1));
    checkForgotten(seed, once, living);
  }
  const latestUs = clock.nowUs() + DRAIN_US;
  const unanswered = () => gateways.reduce((sum, gateway) => sum + gateway.waiting, 0);
  const busy = () => unanswered() + coordinator.counts.queued + coordinator.counts.running + clock.liveTimers;
  while (busy() > 0) {
    expect(clock.nowUs(), `seed ${seed}: ${unanswered()} unanswered, ${clock.liveTimers} timers`).toBeLessThan(
      latestUs,
    );
    await step();
  }
  const sent = gateways.flatMap((gateway) => [...gateway.sent.values()]);
  checkOutcomes(
    seed,
    sent.filter(({ cancelled }) => !cancelled),
  );
  // A copy of a request that was refused meanwhile comes later than the request did.
  for (const { message, sends } of sent) if (sends > 1) places.delete(message.id);
  if (!deaths) checkOrder(seed, executes, places);
  const text = await registry.metrics();
  if (!deaths) {
    const ended = metric(text, 'nv_inference_request_success') + metric(text, 'nv_inference_request_failure');
    expect(ended, `seed ${seed}: requests counted`).toBe(sent.reduce((sum, { outcomes }) => sum + outcomes.length, 0));
    const executions = workers.reduce((sum, worker) => sum + worker.executions, 0);
    expect(metric(text, 'nv_inference_exec_count'), `seed ${seed}: executions counted`).toBe(executions);
  }
  expect(metric(text, 'nv_inference_pending_request_count')).toBe(0);

  await coordinator.stop();
  expect(coordinator.counts).toEqual({ queued: 0, running: 0, waits: 0 });
  expect(clock.liveTimers, `seed ${seed}: timers left`).toBe(0);
  expect(directory.records()).toEqual([]);
  expect(Object.keys(MODELS).map((model) => directory.owner(model))).toEqual([undefined, undefined, undefined]);
  await transport.close();
}

test.each(SEEDS)('seed %i', async (seed) => {
  try {
    await simulate(seed);
  } catch (cause) {
    const again = `NEREID_SIM_SEED=${seed} npx vitest run test/sim/skeleton.test.ts`;
    throw new Error(`again with: ${again}`, { cause });
  }
});
