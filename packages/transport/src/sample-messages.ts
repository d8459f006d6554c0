/** One message of each kind, with every field off its default, for contract suites. */
import type { Epoch, InferMessage, InferRequest, Message, MessageKind } from '@nereid/protocol';

const EPOCH: Epoch = { number: 7, owner: 'co-0a1b' };
const BATCH_TIMING = { waitNs: 1_500, inputNs: 2_500, inferNs: 3_500, outputNs: 4_500 };
const COUNTS = { count: 3, ns: 4_500 };
const COMPUTES = { computeInput: COUNTS, computeInfer: COUNTS, computeOutput: COUNTS };

const REQUEST: InferRequest = {
  modelName: 'm',
  modelVersion: '3',
  id: 'client-é',
  correlationId: 18446744073709551615n,
  sequenceStart: true,
  sequenceEnd: true,
  priority: 2n,
  timeoutUs: 9007199254740993n,
  parameters: { text: 'ü', flag: true, whole: -9223372036854775808n, real: 0.5 },
  inputs: [
    { name: 'A', datatype: 'INT32', shape: [1, 2], data: new Uint8Array([1, 0, 0, 0, 2, 0, 0, 0]) },
    { name: 'B', datatype: 'BYTES', shape: [1], data: new Uint8Array([2, 0, 0, 0, 255, 0]) },
  ],
  requestedOutputs: ['C'],
};

const EXPLAINED = {
  process: 'co-1',
  id: 'gw-1:12',
  requestId: 'client-é',
  model: 'm',
  version: '3',
  trace: '4bf92f3577b34da6a3ce929d0e0e4736',
  parent: { id: 'gw-1:11', step: 2 },
  correlationId: 18446744073709551615n,
  arrivedMs: 1_790_000_000_000.25,
  arrivedUs: 1_234.5,
  tookUs: 2_500.5,
  state: 'error',
  error: { code: 'INTERNAL', message: 'no', reason: 'why' },
  events: [{ afterUs: 99.5, what: 'its worker is gone' }],
} as const;

const MESSAGES: { readonly [K in MessageKind]: Extract<Message, { kind: K }> } = {
  infer: {
    kind: 'infer',
    model: 'm',
    epoch: EPOCH,
    id: 'gw-1:12',
    g: 12,
    low: 5,
    prev: 11,
    session: 'gw-1:10',
    step: 4,
    sends: 2,
    msLeft: 1234.5,
    replyTo: 'gw-1',
    request: REQUEST,
    coming: 3,
  },
  cancel: { kind: 'cancel', model: 'm', epoch: EPOCH, id: 'gw-1:12', g: 12, low: 5, session: 'gw-1:10' },
  stale: { kind: 'stale', model: 'm', id: 'gw-1:12', known: EPOCH },
  missing: { kind: 'missing', model: 'm', id: 'gw-1:12' },
  moved: { kind: 'moved', model: 'm', id: 'gw-1:12', sent: 'gw-1:9', current: null },
  execute: {
    kind: 'execute',
    model: 'm',
    epoch: EPOCH,
    version: '3',
    batch: 8,
    instance: 1,
    entries: [
      {
        id: 'gw-1:12',
        replyTo: 'gw-1',
        request: REQUEST,
        session: 'gw-1:10',
        slot: 2,
        step: { bind: { epoch: 7, n: 3 }, g: 12, low: 5, prev: 11, number: 4 },
      },
    ],
  },
  response: {
    kind: 'response',
    model: 'm',
    id: 'gw-1:12',
    outcome: {
      ok: true,
      response: {
        modelName: 'm',
        modelVersion: '3',
        id: 'client-é',
        parameters: { n: 1n },
        outputs: [{ name: 'C', datatype: 'FP16', shape: [1, 1], data: new Uint8Array([0, 60]) }],
      },
    },
    execution: 'wk-1/8',
    chunk: 1,
    last: true,
  },
  done: {
    kind: 'done',
    model: 'm',
    epoch: EPOCH,
    version: '3',
    worker: 'wk-1',
    batch: 8,
    instance: 1,
    timing: BATCH_TIMING,
    executed: true,
    entries: [
      { id: 'gw-1:12', result: 'ok', error: null },
      { id: 'gw-1:13', result: 'error', error: { code: 'INTERNAL', message: 'no', field: 'inputs', reason: 'why' } },
    ],
    responses: {
      answers: [{ count: 2, inferNs: 1_500, outputNs: 2_500 }],
      others: [{ index: 1, how: 'cancel', ns: 3_500 }],
    },
  },
  refused: { kind: 'refused', model: 'm', batch: 8, sent: EPOCH, highest: { number: 9, owner: 'co-2' } },
  describe: { kind: 'describe', model: 'm', epoch: EPOCH, askedAt: 99.25 },
  echo: { kind: 'echo', model: 'm', sentUs: 99.25 },
  kept: { kind: 'kept', model: 'm', id: 'ca-1:p4', action: 'put', ids: ['wk-1-8', 'wk-1-9'], replyTo: 'ca-1' },
  put: {
    kind: 'put',
    model: 'm',
    id: 'ca-1:p4',
    tensors: [
      { id: 'wk-1-8', blob: { place: 'file', id: '12000-bl-7-3', bytes: 4_000_000 } },
      { id: 'wk-1-9', blob: null },
    ],
  },
  described: {
    kind: 'described',
    model: 'm',
    worker: 'wk-1',
    askedAt: 99.25,
    versions: [
      {
        version: '3',
        state: 'READY',
        reason: 'Internal: why',
        instances: [{ index: 0, name: 'm_0_0', ready: true, passive: true, batches: [8] }],
        running: ['gw-1:12'],
        contentHash: 'abc',
        slots: [
          {
            instance: 1,
            slot: 2,
            session: 'gw-1:10',
            correlationId: 18446744073709551615n,
            bind: { epoch: 7, n: 3 },
            marks: [['gw-1', 12]],
            steps: 4,
          },
        ],
        ended: [{ session: 'gw-1:7', correlationId: 'é', marks: [['gw-1', 9]], steps: 3, lost: true }],
      },
    ],
    streams: [{ id: 'gw-1:12', execution: 'wk-1/8' }],
    draining: true,
  },
  free: { kind: 'free', model: 'm', epoch: EPOCH, session: 'gw-1:10' },
  control: {
    kind: 'control',
    model: 'm',
    epoch: EPOCH,
    action: 'load',
    config: '{"name":"m"}',
    versions: ['1', '3'],
    contentHash: 'abc',
  },
  running: { kind: 'running', model: 'm', streams: [{ id: 'gw-1:12', execution: 'wk-1/8' }] },
  count: { kind: 'count', model: 'm', epoch: EPOCH, id: 'gw-1:c1', versions: ['1', '3'] },
  counted: {
    kind: 'counted',
    model: 'm',
    id: 'gw-1:c1',
    versions: [
      {
        name: 'm',
        version: '3',
        lastInferenceMs: 1_790_000_000_000,
        inferenceCount: 9,
        executionCount: 2,
        inference: { success: COUNTS, fail: COUNTS, queue: COUNTS, ...COMPUTES, cacheHit: COUNTS, cacheMiss: COUNTS },
        responses: [
          {
            computeInfer: COUNTS,
            computeOutput: COUNTS,
            success: COUNTS,
            fail: COUNTS,
            emptyResponse: COUNTS,
            cancel: COUNTS,
          },
        ],
        batches: [{ batchSize: 8, ...COMPUTES }],
        queue: {
          waiting: 4,
          running: 8,
          pending: 5,
          oldestUs: 1_500,
          levels: [{ level: 2, waiting: 4, delayed: 1 }],
          closes: [{ reason: 'full', sizes: [{ rows: 8, count: 2 }] }],
        },
      },
    ],
  },
  cached: {
    kind: 'cached',
    model: 'm',
    epoch: EPOCH,
    version: '3',
    hits: 2,
    hitRequest: { ns: 9_500, us: 8 },
    hitQueue: { ns: 4_500, us: 3 },
    hitLookup: { ns: 3_500, us: 2 },
    misses: 1,
    miss: { ns: 7_500, us: 7 },
  },
  list: { kind: 'list', model: 'm', epoch: EPOCH, id: 'gw-1:c2', after: 'gw-1:7', limit: 100 },
  evict: { kind: 'evict', model: 'm', epoch: EPOCH, id: 'gw-1:c3', session: 'gw-1:7' },
  place: { kind: 'place', model: 'm', epoch: EPOCH, id: 'gw-1:c4', action: 'prefetch' },
  placed: { kind: 'placed', model: 'm', id: 'gw-1:c4', report: '{"mode":"all"}' },
  cancel_job: { kind: 'cancel_job', model: 'm', id: '01HJOB' },
  listed: {
    kind: 'listed',
    model: 'm',
    id: 'gw-1:c2',
    sequences: [
      {
        version: '3',
        session: 'gw-1:10',
        correlationId: 18446744073709551615n,
        place: { worker: 'wk-1', instance: 1, instanceName: 'm_0_1', slot: 2 },
        backlog: -1,
        steps: 4,
        waiting: 2,
        idleUs: 1_500,
        ageUs: 2_500_000,
      },
      {
        version: '3',
        session: 'gw-2:7',
        correlationId: 'é',
        place: null,
        backlog: 3,
        steps: 0,
        waiting: 1,
        idleUs: 0,
        ageUs: 20,
      },
    ],
    more: true,
  },
  change: {
    kind: 'change',
    model: 'm',
    id: 'gw-1:m1',
    action: 'unload',
    override: '{"config":"abc"}',
    dependents: true,
  },
  changed: {
    kind: 'changed',
    model: 'm',
    id: 'gw-1:m1',
    over: true,
    error: { code: 'INVALID_ARG', message: 'no', field: 'config', reason: 'why' },
    contentHash: 'abc',
  },
  explain: { kind: 'explain', id: 'gw-1:e1', about: 'client-é', parents: ['gw-1:12'], limit: 10 },
  explained: {
    kind: 'explained',
    id: 'gw-1:e1',
    process: 'co-1',
    calls: [{ ...EXPLAINED, process: 'gw-2', door: 'grpc', owner: 'co-1', sends: 2, answers: 3, cached: true }],
    runs: [
      {
        ...EXPLAINED,
        epoch: 7,
        job: 'm~12',
        rows: 2,
        priority: 1,
        waiting: 5,
        ahead: 4,
        running: 8,
        copies: 1,
        losses: 1,
        queuedUs: 1_500.5,
        session: 'gw-1:10',
        batch: {
          number: 8,
          reason: 'full',
          worker: 'wk-1',
          instance: 1,
          instanceName: 'm_0_1',
          slot: 2,
          requests: 3,
          rows: 8,
          timing: BATCH_TIMING,
          others: [{ id: 'gw-1:13', requestId: 'ü' }],
        },
      },
    ],
    more: true,
  },
};

export function sampleMessages(): readonly Message[] {
  return Object.values(MESSAGES);
}

export function sampleMessage<K extends MessageKind>(kind: K): Extract<Message, { kind: K }> {
  return MESSAGES[kind];
}

/** A request with one input of so many bytes. */
export function sampleInfer(bytes: number): InferMessage {
  const input = { name: 'A', datatype: 'UINT8', shape: [bytes], data: new Uint8Array(bytes).fill(7) } as const;
  return { ...MESSAGES.infer, request: { ...REQUEST, inputs: [input] } };
}
