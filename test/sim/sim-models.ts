/** The models of a simulation, what their requests look like, and how long and how well they run. */
import { type ModelSource, parseModelConfig } from '@nereid/config';
import { type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import type { Random } from '@nereid/runtime';

/** Rows that any one request or batch may have. */
export const ROWS_MAX = 8;

export interface SimModel {
  readonly name: string;
  readonly versions: readonly string[];
  readonly config: string;
  readonly instances: number;
  /** Rows that a batch of several requests may have; 0 where each request runs alone. */
  readonly batchRowsMax: number;
  readonly runUsMin: number;
  readonly runUsMax: number;
  /** Share of batches whose model throws. */
  readonly throwShare: number;
  /** Share of batches in which the thread ends. */
  readonly crashShare: number;
  /** How much of the traffic it gets. */
  readonly weight: number;
}

const STEADY = { versions: ['1'], throwShare: 0, crashShare: 0, instances: 1 };

export const SIM_MODELS: readonly SimModel[] = [
  { ...STEADY, name: 'single', config: '', batchRowsMax: 0, runUsMin: 200, runUsMax: 2_000, weight: 4 },
  {
    ...STEADY,
    name: 'eager',
    versions: ['1', '2'],
    instances: 2,
    config: 'dynamic_batching {}',
    batchRowsMax: ROWS_MAX,
    runUsMin: 1_000,
    runUsMax: 8_000,
    weight: 4,
  },
  {
    ...STEADY,
    name: 'patient',
    config: 'dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 20000 }',
    batchRowsMax: 4,
    runUsMin: 2_000,
    runUsMax: 10_000,
    weight: 4,
  },
  {
    ...STEADY,
    name: 'slow',
    instances: 2,
    config: 'dynamic_batching {}',
    batchRowsMax: ROWS_MAX,
    runUsMin: 200_000,
    runUsMax: 1_500_000,
    weight: 1,
  },
  {
    ...STEADY,
    name: 'throwing',
    config: 'dynamic_batching {}',
    batchRowsMax: ROWS_MAX,
    runUsMin: 1_000,
    runUsMax: 4_000,
    throwShare: 0.2,
    crashShare: 0.02,
    weight: 1,
  },
];

export function simModel(name: string): SimModel {
  const model = SIM_MODELS.find((candidate) => candidate.name === name);
  if (model === undefined) throw new Error(`no model '${name}'`);
  return model;
}

/** `build` tells two loads of a model apart. */
export function modelSource(name: string, build: number): ModelSource {
  const { config, instances, versions } = simModel(name);
  const text = `
    name: "${name}" backend: "javascript" max_batch_size: ${ROWS_MAX}
    input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }
    output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "VERSION" data_type: TYPE_INT32 dims: [ 1 ] } ]
    instance_group { name: "${name}_0" count: ${instances} kind: KIND_CPU }
    ${config}`;
  return {
    name,
    directory: '',
    config: parseModelConfig(text, 'config.pbtxt'),
    labels: {},
    versions,
    contentHash: contentHash(name, build),
  };
}

export function contentHash(name: string, build: number): string {
  return `${name}-${build}`;
}

const MODEL_WEIGHTS = SIM_MODELS.flatMap((model) => Array<SimModel>(model.weight).fill(model));

/** A request whose every element is its token, so that its answer can be told from all others. */
export function simRequest(random: Random, token: number): InferRequest {
  const model = pick(random, MODEL_WEIGHTS);
  const rows = 1 + Math.floor(random.next() ** 3 * ROWS_MAX);
  const length = pick(random, [3, 3, 3, 5]);
  return {
    ...REQUEST_DEFAULTS,
    modelName: model.name,
    modelVersion: pick(random, ['', ...model.versions]),
    inputs: [{ name: 'A', datatype: 'INT32', shape: [rows, length], data: bytesOf(Array(rows * length).fill(token)) }],
  };
}

export function bytesOf(values: readonly number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(values).buffer);
}

export function valuesOf(bytes: Uint8Array): Int32Array {
  return new Int32Array(Uint8Array.from(bytes).buffer);
}

export function pick<T>(random: Random, from: readonly T[]): T {
  const value = from[Math.floor(random.next() * from.length)];
  if (value === undefined) throw new Error('nothing to pick from');
  return value;
}

export function between(random: Random, min: number, max: number): number {
  return min + random.next() * (max - min);
}
