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
  /** It gives each request `streamLength` answers. */
  readonly streams: boolean;
  /** Its queue may refuse a request that finds no room or has waited for too long; clients ask for levels and times. */
  readonly refuses: boolean;
  /** What each execution needs of RESOURCES. */
  readonly needs: Readonly<Record<string, number>>;
  /** Of a model that keeps sequences: how long one may be without a step. */
  readonly idleUs?: number;
  /** In place of ROWS_MAX. */
  readonly maxBatchSize?: number;
}

const STEADY = {
  versions: ['1'],
  throwShare: 0,
  crashShare: 0,
  instances: 1,
  streams: false,
  refuses: false,
  needs: {},
};

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
  {
    ...STEADY,
    name: 'streaming',
    instances: 3,
    config: 'dynamic_batching {} model_transaction_policy { decoupled: true }',
    batchRowsMax: ROWS_MAX,
    // What it takes is the sum of the pauses between its answers.
    runUsMin: 0,
    runUsMax: 10_000_000,
    throwShare: 0.02,
    crashShare: 0.002,
    weight: 1,
    streams: true,
  },
];

/** What there is of each resource of the limited models: what one worker has, and what all have together. */
export const RESOURCES: Readonly<Record<string, { readonly count: number; readonly global: boolean }>> = {
  R: { count: 2, global: false },
  G: { count: 2, global: true },
};

/** Models that share what the rate limiter hands out, to a worker and to all. */
export const LIMITED_MODELS: readonly SimModel[] = [
  { name: 'greedy', instances: 1, needs: { R: 2, G: 1 }, weight: 3 },
  { name: 'modest', instances: 2, needs: { R: 1 }, weight: 4 },
  { name: 'global', instances: 1, needs: { G: 2 }, weight: 2 },
].map((model) => ({ ...STEADY, ...model, config: '', batchRowsMax: 0, runUsMin: 500, runUsMax: 20_000 }));

/** Models whose queues have levels, times, limits and orders. */
export const QUEUE_MODELS: readonly SimModel[] = [
  {
    ...STEADY,
    name: 'levels',
    refuses: true,
    config: `dynamic_batching {
      priority_levels: 3 default_priority_level: 2
      default_queue_policy { max_queue_size: 5 default_timeout_microseconds: 120000 allow_timeout_override: true }
      priority_queue_policy { key: 1 value { max_queue_size: 2 } }
      priority_queue_policy {
        key: 3 value { timeout_action: DELAY default_timeout_microseconds: 40000 allow_timeout_override: true }
      }
    }`,
    batchRowsMax: ROWS_MAX,
    runUsMin: 20_000,
    runUsMax: 120_000,
    weight: 4,
  },
  {
    ...STEADY,
    name: 'forming',
    refuses: true,
    instances: 2,
    config: `dynamic_batching {
      preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 60000
      priority_levels: 2 default_priority_level: 2
      default_queue_policy { default_timeout_microseconds: 50000 allow_timeout_override: true timeout_action: DELAY }
    }`,
    batchRowsMax: 4,
    runUsMin: 10_000,
    runUsMax: 60_000,
    weight: 3,
  },
  {
    ...STEADY,
    name: 'ordered',
    instances: 2,
    config: 'dynamic_batching { preserve_ordering: true }',
    batchRowsMax: ROWS_MAX,
    runUsMin: 1_000,
    runUsMax: 60_000,
    weight: 4,
  },
];

const CONTROLS = `control_input [
  { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
  { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] }
]`;

/** Models that keep sequences; each answers a step with the tokens of all that its sequence had so far. */
export const SEQUENCE_MODELS: readonly SimModel[] = [
  {
    ...STEADY,
    name: 'direct',
    instances: 2,
    config: `sequence_batching { max_sequence_idle_microseconds: 900000 direct { } ${CONTROLS} }`,
    maxBatchSize: 2,
    batchRowsMax: 2,
    runUsMin: 500,
    runUsMax: 6_000,
    idleUs: 900_000,
    weight: 3,
  },
  {
    ...STEADY,
    name: 'oldest',
    config: `sequence_batching {
      max_sequence_idle_microseconds: 700000
      oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 3000 }
      ${CONTROLS}
    }`,
    maxBatchSize: 3,
    batchRowsMax: 3,
    runUsMin: 1_000,
    runUsMax: 10_000,
    idleUs: 700_000,
    weight: 3,
  },
  {
    ...STEADY,
    name: 'fickle',
    versions: ['1', '2'],
    instances: 2,
    config: `sequence_batching {
      max_sequence_idle_microseconds: 800000
      oldest { max_candidate_sequences: 3 }
      ${CONTROLS}
    }`,
    maxBatchSize: 4,
    batchRowsMax: 4,
    runUsMin: 500,
    runUsMax: 30_000,
    throwShare: 0.03,
    crashShare: 0.01,
    idleUs: 800_000,
    weight: 2,
  },
];

const STREAM_LENGTH_MAX = 9;

/** How many answers a request gets; none is one of them. */
export function streamLength(token: number): number {
  return token % (STREAM_LENGTH_MAX + 1);
}

export function simModel(name: string): SimModel {
  const model = [...SIM_MODELS, ...LIMITED_MODELS, ...QUEUE_MODELS, ...SEQUENCE_MODELS].find(
    (candidate) => candidate.name === name,
  );
  if (model === undefined) throw new Error(`no model '${name}'`);
  return model;
}

const IDLE_LIMIT = /(?<=max_sequence_idle_microseconds: )\d+/;
const NEVER_US = 1e12;

/** `build` tells two loads of a model apart; `idleEnds` false: no sequence ends for being idle. */
export function modelSource(name: string, build: number, idleEnds = true): ModelSource {
  const { config, instances, versions, streams, needs, idleUs, maxBatchSize = ROWS_MAX } = simModel(name);
  const resources = Object.entries(needs).map(
    ([resource, count]) =>
      `resources { name: "${resource}" count: ${count} global: ${RESOURCES[resource]?.global === true} }`,
  );
  const rateLimiter = resources.length === 0 ? '' : `rate_limiter { ${resources.join(' ')} }`;
  const ofStreams = streams
    ? ['RUN', 'CHUNK'].map((output) => `output { name: "${output}" data_type: TYPE_INT32 dims: [ 1 ] }`).join(' ')
    : '';
  const ofSequences = idleUs === undefined ? '' : 'output { name: "STATE" data_type: TYPE_INT32 dims: [ -1 ] }';
  const text = `
    name: "${name}" backend: "javascript" max_batch_size: ${maxBatchSize}
    input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }
    output [ { name: "B" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "VERSION" data_type: TYPE_INT32 dims: [ 1 ] } ]
    ${ofStreams} ${ofSequences}
    instance_group { name: "${name}_0" count: ${instances} kind: KIND_CPU ${rateLimiter} }
    ${idleEnds ? config : config.replace(IDLE_LIMIT, `${NEVER_US}`)}`;
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

/** Each model as often as it is to be asked. */
export function trafficOf(models: readonly SimModel[]): readonly SimModel[] {
  return models.flatMap((model) => Array<SimModel>(model.weight).fill(model));
}

/** Of four requests one is for a stream: as many as one worker can run. */
export const STREAM_TRAFFIC: readonly SimModel[] = ['streaming', 'single', 'single', 'single'].map(simModel);

const PRIORITIES = [0n, 0n, 1n, 2n, 3n, 9n] as const;
const TIMEOUTS_US = [0n, 0n, 15_000n, 60_000n, 5_000_000n] as const;

/** A request whose every element is its token, so that its answer can be told from all others. */
export function simRequest(random: Random, token: number, traffic: readonly SimModel[]): InferRequest {
  const model = pick(random, traffic);
  const rows = 1 + Math.floor(random.next() ** 3 * ROWS_MAX);
  const length = pick(random, [3, 3, 3, 5]);
  const asked = model.refuses ? { priority: pick(random, PRIORITIES), timeoutUs: pick(random, TIMEOUTS_US) } : {};
  return {
    ...REQUEST_DEFAULTS,
    ...asked,
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
