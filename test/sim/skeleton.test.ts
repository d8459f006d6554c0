/**
 * The walking skeleton under a seed, in virtual time: gateways with clients that leave, a
 * coordinator, and workers that are slow, fail, lose instances and die.
 * One seed again: NEREID_SIM_SEED=17 npx vitest run test/sim/skeleton.test.ts
 */
import { type ModelRecord, type ModelSource, parseModelConfig } from '@nereid/config';
import { createCoordinator, type ModelReader } from '@nereid/coordinator';
import { type ExecuteMessage, type InferRequest, NereidError } from '@nereid/protocol';
import { createLog, createRegistry, type Random, seededRandom, virtualClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createSimGateway, type SimSent } from './sim-gateway.ts';
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

const pick = <T>(random: Random, from: readonly T[]): T => {
  const value = from[Math.floor(random.next() * from.length)];
  if (value === undefined) throw new Error('nothing to pick from');
  return value;
};

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

function source(name: string): ModelSource {
  const config = parseModelConfig(`name: "${name}" ${TENSORS} ${MODELS[name]?.config}`, 'config.pbtxt');
  return { name, directory: '', config, labels: {}, versions: ['1'], contentHash: '' };
}

const reader: ModelReader = {
  list: async () => Object.keys(MODELS),
  read: async (name) => source(name),
  versions: async () => ['1'],
};

function request(random: Random): InferRequest {
  const rows = 1 + Math.floor(random.next() ** 3 * ROWS_MAX);
  return {
    modelName: pick(random, Object.keys(MODELS)),
    modelVersion: pick(random, ['', '1']),
    id: '',
    correlationId: 0n,
    sequenceStart: false,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs: [{ name: 'A', datatype: 'FP32', shape: [rows, pick(random, [3, 3, 3, 5])], data: new Uint8Array() }],
    requestedOutputs: [],
  };
}

/** Checks each batch as it reaches a worker. */
function batchChecks(seed: number) {
  const lastBatch = new Map<string, number>();
  const dispatched = new Map<string, number>();
  const places = new Map<string, number>();
  return {
    /** Requests that came to a coordinator, in order. */
    place: (id: string) => void places.set(id, places.size),
    check(execute: ExecuteMessage, held: number): void {
      const { model, entries } = execute;
      const shapes = entries.map(({ request: { inputs } }) => inputs[0]?.shape ?? []);
      const rows = shapes.reduce((sum, [count = 0]) => sum + count, 0);
      const limit = MODELS[model]?.rows ?? 0;
      expect(entries.length === 1 || rows <= limit, `seed ${seed}: ${rows} rows of ${model}`).toBe(true);
      expect(new Set(shapes.map(([, length]) => length)).size, `seed ${seed}: shapes of ${model}`).toBe(1);
      expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length);
      expect(entries.every(({ request: { modelName } }) => modelName === model)).toBe(true);
      expect(held, `seed ${seed}: batches on one instance of ${model}`).toBeLessThanOrEqual(limit === 0 ? 2 : 1);
      expect(execute.batch, `seed ${seed}: batch numbers rise`).toBeGreaterThan(lastBatch.get(`${model}`) ?? 0);
      lastBatch.set(model, execute.batch);
      for (const { id } of entries) {
        const place = places.get(id) ?? -1;
        // What runs a second time, after its worker was lost, has lost its place.
        if (!dispatched.has(id)) {
          const before = Math.max(-1, ...[...dispatched].filter(([, of]) => of === modelCode(model)).map(([other]) => places.get(other) ?? -1));
          expect(place, `seed ${seed}: order of ${model}`).toBeGreaterThan(before);
        }
        dispatched.set(id, modelCode(model));
      }
    },
  };
}

const modelCode = (model: string) => Object.keys(MODELS).indexOf(model);
