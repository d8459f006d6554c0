import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOB_PLACES, type BlobTensor, type CarriedOutcome, type CarriedRequest } from './blob.ts';
import { DATATYPE_BYTES, type Datatype } from './datatype.ts';
import { ERROR_TABLE, type ErrorCode, NereidError } from './error.ts';
import { EXPLAINED_STATES } from './explained.ts';
import type { Parameters } from './infer.ts';
import { KEPT_ACTIONS } from './kept-messages.ts';
import { ENTRY_RESULTS, type Message, type MessageKind, OTHER_RESPONSES } from './message.ts';
import { decodeMessage, encodeMessage, FRAME_VERSION } from './message-codec.ts';
import { MODEL_ACTIONS } from './question-messages.ts';
import type { Tensor } from './tensor.ts';

const name = fc.string({ unit: 'grapheme', maxLength: 12 });
const integer = fc.maxSafeInteger();
const text = fc.oneof(name, fc.constant('x'.repeat(300)));
const session = fc.option(name);
const epoch = fc.record({ number: fc.maxSafeNat(), owner: name });
const uint64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
const int64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const key = fc.oneof(name, fc.constantFrom('__proto__', 'constructor', ''));
const parameters: fc.Arbitrary<Parameters> = fc
  .array(fc.tuple(key, fc.oneof(text, fc.boolean(), int64, fc.double())), { maxLength: 4 })
  .map((entries) => Object.fromEntries(entries));
const tensor: fc.Arbitrary<Tensor> = fc.record({
  name,
  datatype: fc.constantFrom(...(Object.keys(DATATYPE_BYTES) as Datatype[])),
  shape: fc.array(fc.maxSafeNat(), { maxLength: 4 }),
  data: fc.uint8Array({ maxLength: 40 }).map((bytes) => new Uint8Array(bytes)),
});
const blobId = fc.stringMatching(/^[\w-]{1,128}$/);
const blobRef = fc.record({ place: fc.constantFrom(...BLOB_PLACES), id: blobId, bytes: fc.maxSafeNat() });
const blobTensor: fc.Arbitrary<BlobTensor> = fc.record({
  name,
  datatype: fc.constantFrom(...(Object.keys(DATATYPE_BYTES) as Datatype[])),
  shape: fc.array(fc.maxSafeNat(), { maxLength: 4 }),
  blob: blobRef,
});
const tensors = fc.array(fc.oneof(tensor, blobTensor), { maxLength: 3 });
const names = fc.array(name, { maxLength: 3 });
const EXPLAINED = {
  ...{ process: fc.string(), id: fc.string(), requestId: fc.string(), model: fc.string(), version: fc.string() },
  trace: fc.string(),
  parent: fc.option(fc.record({ id: fc.string(), step: fc.integer() })),
  correlationId: fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.string()),
  ...{
    arrivedMs: fc.double({ noNaN: true, min: 0 }),
    tookUs: fc.double({ noNaN: true, min: 0 }),
    arrivedUs: fc.double({ noNaN: true, min: 0 }),
  },
  state: fc.constantFrom(...EXPLAINED_STATES),
  error: fc.option(fc.record({ code: fc.string(), message: fc.string(), reason: fc.string() })),
  events: fc.array(fc.record({ afterUs: fc.double({ noNaN: true, min: 0 }), what: fc.string() }), { maxLength: 2 }),
};
const streams = fc.array(fc.record({ id: fc.string(), execution: fc.string() }), { maxLength: 3 });
const REQUEST_FIELDS = {
  modelName: name,
  modelVersion: name,
  id: text,
  correlationId: fc.oneof(uint64, name),
  sequenceStart: fc.boolean(),
  sequenceEnd: fc.boolean(),
  priority: uint64,
  timeoutUs: uint64,
  parameters,
  inputs: tensors,
  requestedOutputs: names,
};
const request: fc.Arbitrary<CarriedRequest> = fc.record(
  {
    ...REQUEST_FIELDS,
    trace: text,
    inner: fc.record({ keep: names, parent: fc.record({ id: text, step: fc.integer() }) }),
    background: fc.constant(true),
    journal: fc.boolean(),
    shownId: fc.oneof(uint64, text),
  },
  { requiredKeys: Object.keys(REQUEST_FIELDS) as (keyof typeof REQUEST_FIELDS)[] },
);
const error = fc.record(
  { code: fc.constantFrom(...(Object.keys(ERROR_TABLE) as ErrorCode[])), message: text, field: name, reason: name },
  { requiredKeys: ['code', 'message'] },
);
const outcome: fc.Arbitrary<CarriedOutcome> = fc.oneof(
  fc.record({ ok: fc.constant(false as const), error }),
  fc.record({
    ok: fc.constant(true as const),
    response: fc.record({ modelName: name, modelVersion: name, id: text, parameters, outputs: tensors }),
  }),
);
const duration = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }).map(Math.abs);
const timing = fc.record({ waitNs: duration, inputNs: duration, inferNs: duration, outputNs: duration });
const addressed = { model: name, epoch };

const counts = fc.record({ count: fc.maxSafeNat(), ns: duration });
const cachedTimes = fc.record({ ns: fc.maxSafeNat(), us: fc.maxSafeNat() });
const computes = { computeInput: counts, computeInfer: counts, computeOutput: counts };
const responses = fc.record({
  answers: fc.array(fc.record({ count: fc.nat(), inferNs: duration, outputNs: duration }), { maxLength: 3 }),
  others: fc.array(fc.record({ index: fc.nat(), how: fc.constantFrom(...OTHER_RESPONSES), ns: duration }), {
    maxLength: 3,
  }),
});

const MESSAGES: { [K in MessageKind]: fc.Arbitrary<Extract<Message, { kind: K }>> } = {
  infer: fc.record(
    {
      kind: fc.constant('infer' as const),
      ...addressed,
      id: name,
      g: integer,
      low: integer,
      prev: integer,
      session,
      step: integer,
      sends: integer,
      msLeft: duration,
      replyTo: name,
      request,
      coming: fc.integer({ min: 1, max: 100_000 }),
    },
    {
      requiredKeys: [
        'kind',
        'model',
        'epoch',
        'id',
        'g',
        'low',
        'prev',
        'session',
        'step',
        'sends',
        'msLeft',
        'replyTo',
        'request',
      ],
    },
  ),
  cancel: fc.record({
    kind: fc.constant('cancel' as const),
    ...addressed,
    id: name,
    g: integer,
    low: integer,
    session,
  }),
  stale: fc.record({ kind: fc.constant('stale' as const), model: name, id: name, known: fc.option(epoch) }),
  missing: fc.record({ kind: fc.constant('missing' as const), model: name, id: name }),
  moved: fc.record({ kind: fc.constant('moved' as const), model: name, id: name, sent: session, current: session }),
  execute: fc.record({
    kind: fc.constant('execute' as const),
    ...addressed,
    version: name,
    batch: integer,
    instance: integer,
    entries: fc.array(fc.record({ id: name, replyTo: name, request, session, slot: integer }), { maxLength: 3 }),
  }),
  response: fc.record(
    {
      kind: fc.constant('response' as const),
      model: name,
      id: name,
      outcome,
      execution: name,
      chunk: integer,
      last: fc.boolean(),
      timing,
    },
    { requiredKeys: ['kind', 'model', 'id', 'outcome', 'execution', 'chunk', 'last'] },
  ),
  done: fc.record(
    {
      kind: fc.constant('done' as const),
      ...addressed,
      version: name,
      worker: name,
      batch: integer,
      instance: integer,
      timing,
      executed: fc.boolean(),
      entries: fc.array(
        fc.record({
          id: name,
          result: fc.constantFrom(...ENTRY_RESULTS),
          error: fc.option(error),
        }),
        { maxLength: 3 },
      ),
      responses,
    },
    {
      requiredKeys: [
        'kind',
        'model',
        'epoch',
        'version',
        'worker',
        'batch',
        'instance',
        'timing',
        'executed',
        'entries',
      ],
    },
  ),
  refused: fc.record({
    kind: fc.constant('refused' as const),
    model: name,
    batch: integer,
    sent: epoch,
    highest: epoch,
  }),
  describe: fc.record({ kind: fc.constant('describe' as const), ...addressed, askedAt: duration }),
  echo: fc.record({ kind: fc.constant('echo' as const), model: name, sentUs: duration }),
  kept: fc.record({
    kind: fc.constant('kept' as const),
    model: name,
    id: name,
    action: fc.constantFrom(...KEPT_ACTIONS),
    ids: fc.array(blobId, { maxLength: 3 }),
    replyTo: name,
  }),
  put: fc.record({
    kind: fc.constant('put' as const),
    model: name,
    id: name,
    tensors: fc.array(fc.record({ id: blobId, blob: fc.option(blobRef) }), { maxLength: 3 }),
  }),
  described: fc.record({
    kind: fc.constant('described' as const),
    model: name,
    worker: name,
    askedAt: duration,
    versions: fc.array(
      fc.record(
        {
          version: name,
          state: fc.constantFrom('READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING', 'UNKNOWN'),
          reason: text,
          instances: fc.array(
            fc.record({
              index: fc.nat(),
              name,
              ready: fc.boolean(),
              passive: fc.boolean(),
              batches: fc.array(integer, { maxLength: 3 }),
            }),
            { maxLength: 3 },
          ),
          running: names,
          contentHash: name,
        },
        { requiredKeys: ['version', 'state', 'reason', 'instances', 'running'] },
      ),
      { maxLength: 3 },
    ),
    streams,
    draining: fc.boolean(),
  }),
  running: fc.record({ kind: fc.constant('running' as const), model: name, streams }),
  free: fc.record({ kind: fc.constant('free' as const), ...addressed, session: name }),
  control: fc.record({
    kind: fc.constant('control' as const),
    ...addressed,
    action: fc.constantFrom('load', 'unload', 'drain'),
    config: text,
    versions: names,
    contentHash: name,
  }),
  count: fc.record({ kind: fc.constant('count' as const), ...addressed, id: name, versions: names }),
  counted: fc.record({
    kind: fc.constant('counted' as const),
    model: name,
    id: name,
    versions: fc.array(
      fc.record(
        {
          name,
          version: name,
          lastInferenceMs: duration,
          inferenceCount: fc.maxSafeNat(),
          executionCount: fc.maxSafeNat(),
          inference: fc.record({
            success: counts,
            fail: counts,
            queue: counts,
            ...computes,
            cacheHit: counts,
            cacheMiss: counts,
          }),
          responses: fc.array(
            fc.record({
              computeInfer: counts,
              computeOutput: counts,
              success: counts,
              fail: counts,
              emptyResponse: counts,
              cancel: counts,
            }),
            { maxLength: 2 },
          ),
          batches: fc.array(fc.record({ batchSize: fc.nat(), ...computes }), { maxLength: 2 }),
          queue: fc.record({
            waiting: fc.nat(),
            running: fc.nat(),
            pending: fc.nat(),
            oldestUs: fc.maxSafeNat(),
            levels: fc.array(fc.record({ level: fc.nat(), waiting: fc.nat(), delayed: fc.nat() }), { maxLength: 2 }),
            closes: fc.array(
              fc.record({
                reason: name,
                sizes: fc.array(fc.record({ rows: fc.nat(), count: fc.nat() }), { maxLength: 2 }),
              }),
              { maxLength: 2 },
            ),
          }),
        },
        {
          // Not of an earlier build.
          requiredKeys: [
            'name',
            'version',
            'lastInferenceMs',
            'inferenceCount',
            'executionCount',
            'inference',
            'responses',
            'batches',
          ],
        },
      ),
      { maxLength: 2 },
    ),
  }),
  list: fc.record({ kind: fc.constant('list' as const), ...addressed, id: name, after: text, limit: fc.nat() }),
  evict: fc.record({ kind: fc.constant('evict' as const), ...addressed, id: name, session: text }),
  cancel_job: fc.record({ kind: fc.constant('cancel_job' as const), model: name, id: text }),
  change: fc.record({
    kind: fc.constant('change' as const),
    model: name,
    id: text,
    action: fc.constantFrom(...MODEL_ACTIONS),
    override: text,
    dependents: fc.boolean(),
  }),
  changed: fc.record({
    kind: fc.constant('changed' as const),
    model: name,
    id: text,
    over: fc.boolean(),
    error: fc.option(error),
    contentHash: text,
  }),
  place: fc.record({
    kind: fc.constant('place' as const),
    ...addressed,
    id: text,
    action: fc.constantFrom('show' as const, 'pin' as const, 'unpin' as const, 'prefetch' as const),
  }),
  placed: fc.record({ kind: fc.constant('placed' as const), model: name, id: text, report: text }),
  cached: fc.record({
    kind: fc.constant('cached' as const),
    ...addressed,
    version: name,
    hits: fc.nat(),
    hitRequest: cachedTimes,
    hitQueue: cachedTimes,
    hitLookup: cachedTimes,
    misses: fc.nat(),
    miss: cachedTimes,
  }),
  listed: fc.record({
    kind: fc.constant('listed' as const),
    model: name,
    id: name,
    sequences: fc.array(
      fc.record({
        version: name,
        session: text,
        correlationId: fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), text),
        place: fc.option(fc.record({ worker: name, instance: fc.nat(), instanceName: text, slot: fc.nat() })),
        backlog: integer,
        steps: fc.nat(),
        waiting: fc.nat(),
        idleUs: fc.maxSafeNat(),
        ageUs: fc.maxSafeNat(),
      }),
      { maxLength: 3 },
    ),
    more: fc.boolean(),
  }),
  explain: fc.record({
    kind: fc.constant('explain' as const),
    id: name,
    about: text,
    parents: names,
    limit: fc.nat(),
  }),
  explained: fc.record({
    kind: fc.constant('explained' as const),
    id: name,
    process: name,
    calls: fc.array(
      fc.record({ ...EXPLAINED, door: name, owner: name, sends: fc.nat(), answers: fc.nat(), cached: fc.boolean() }),
      { maxLength: 2 },
    ),
    runs: fc.array(
      fc.record({
        ...EXPLAINED,
        ...{ epoch: integer, job: text, rows: fc.nat(), priority: duration, waiting: fc.nat(), ahead: fc.nat() },
        ...{ running: fc.nat(), copies: fc.nat(), losses: fc.nat(), queuedUs: duration, session: text },
        batch: fc.option(
          fc.record({
            ...{ number: integer, reason: name, worker: name, instance: integer, instanceName: text, slot: integer },
            ...{ requests: fc.nat(), rows: fc.nat(), timing: fc.option(timing) },
            others: fc.array(fc.record({ id: name, requestId: text }), { maxLength: 2 }),
          }),
        ),
      }),
      { maxLength: 2 },
    ),
    more: fc.boolean(),
  }),
};
/** Their numbers in frames. */
const INFER = 1;
const CANCEL = 2;
const EXECUTE = 5;
const RESPONSE = 6;
const DONE = 7;
const KINDS = Object.keys(MESSAGES) as MessageKind[];
const anyMessage: fc.Arbitrary<Message> = fc.oneof(...KINDS.map((kind): fc.Arbitrary<Message> => MESSAGES[kind]));

const SAMPLE: Message = {
  kind: 'response',
  model: 'm',
  id: 'gw-a:1',
  outcome: {
    ok: true,
    response: {
      modelName: 'm',
      modelVersion: '1',
      id: '',
      parameters: { n: 1n },
      outputs: [
        { name: 'Y', datatype: 'UINT8', shape: [3], data: Uint8Array.of(1, 2, 3) },
        { name: 'Z', datatype: 'FP64', shape: [1], data: new Uint8Array(Float64Array.of(1.5).buffer) },
      ],
    },
  },
  execution: 'e',
  chunk: 0,
  last: true,
};

const EPOCH = { number: 7, owner: 'co-a' };
const REQUEST: CarriedRequest = {
  modelName: 'm',
  modelVersion: '3',
  id: 'é',
  correlationId: 18446744073709551615n,
  sequenceStart: true,
  sequenceEnd: false,
  priority: 2n,
  timeoutUs: 0n,
  parameters: { text: 'ü', flag: true, whole: -5n, real: 0.5 },
  inputs: [
    { name: 'A', datatype: 'UINT8', shape: [3], data: Uint8Array.of(1, 2, 3) },
    { name: 'B', datatype: 'UINT8', shape: [3], blob: { place: 'file', id: '12000-bl-1-7', bytes: 3 } },
  ],
  requestedOutputs: ['C'],
};

/** The kinds that version 2 wrote otherwise: a message, and its frame as version 2 wrote it. */
const OLD_FRAMES: readonly (readonly [Message, string])[] = [
  [
    {
      kind: 'infer',
      model: 'm',
      epoch: EPOCH,
      id: 'gw-a:12',
      g: 12,
      low: 5,
      prev: 11,
      session: 'gw-a:10',
      step: -1,
      sends: 2,
      msLeft: 12.5,
      replyTo: 'gw-a',
      request: REQUEST,
    },
    'TnICAYcBAADeAA2ka2luZKVpbmZlcqVtb2RlbKFtpWVwb2No3gACpm51bWJlcgelb3duZXKkY28tYaJpZKdndy1hOjEyoWcMo2xvdwWk' +
      'cHJldgunc2Vzc2lvbqdndy1hOjEwpHN0ZXD/pXNlbmRzAqZtc0xlZnTLQCkAAAAAAACncmVwbHlUb6Rndy1hp3JlcXVlc3TeAAupbW9k' +
      'ZWxOYW1loW2sbW9kZWxWZXJzaW9uoTOiaWSiw6mtY29ycmVsYXRpb25JZM///////////61zZXF1ZW5jZVN0YXJ0w6tzZXF1ZW5jZUVu' +
      'ZMKocHJpb3JpdHnTAAAAAAAAAAKpdGltZW91dFVz0wAAAAAAAAAAqnBhcmFtZXRlcnOYpHRleHSiw7ykZmxhZ8Old2hvbGXT////////' +
      '//ukcmVhbMQIAAAAAAAA4D+maW5wdXRzkpShQaVVSU5UOJEDA5ahQqVVSU5UOJEDA6RmaWxlrDEyMDAwLWJsLTEtN7ByZXF1ZXN0ZWRP' +
      'dXRwdXRzkaFDAAECAw==',
  ],
  [
    {
      kind: 'execute',
      model: 'm',
      epoch: EPOCH,
      version: '3',
      batch: 8,
      instance: 1,
      entries: [{ id: 'gw-a:12', replyTo: 'gw-a', request: REQUEST, session: null, slot: -1 }],
    },
    'TnICBYQBAADeAAeka2luZKdleGVjdXRlpW1vZGVsoW2lZXBvY2jeAAKmbnVtYmVyB6Vvd25lcqRjby1hp3ZlcnNpb26hM6ViYXRjaAio' +
      'aW5zdGFuY2UBp2VudHJpZXOR3gAFomlkp2d3LWE6MTKncmVwbHlUb6Rndy1hp3JlcXVlc3TeAAupbW9kZWxOYW1loW2sbW9kZWxWZXJz' +
      'aW9uoTOiaWSiw6mtY29ycmVsYXRpb25JZM///////////61zZXF1ZW5jZVN0YXJ0w6tzZXF1ZW5jZUVuZMKocHJpb3JpdHnTAAAAAAAA' +
      'AAKpdGltZW91dFVz0wAAAAAAAAAAqnBhcmFtZXRlcnOYpHRleHSiw7ykZmxhZ8Old2hvbGXT//////////ukcmVhbMQIAAAAAAAA4D+m' +
      'aW5wdXRzkpShQaVVSU5UOJEDA5ahQqVVSU5UOJEDA6RmaWxlrDEyMDAwLWJsLTEtN7ByZXF1ZXN0ZWRPdXRwdXRzkaFDp3Nlc3Npb27A' +
      'pHNsb3T/AAAAAAECAw==',
  ],
  [
    SAMPLE,
    'TnICBq0AAADeAAeka2luZKhyZXNwb25zZaVtb2RlbKFtomlkpmd3LWE6MadvdXRjb21l3gACom9rw6hyZXNwb25zZd4ABaltb2RlbE5h' +
      'bWWhbaxtb2RlbFZlcnNpb26hMaJpZKCqcGFyYW1ldGVyc5KhbtMAAAAAAAAAAadvdXRwdXRzkpShWaVVSU5UOJEDA5ShWqRGUDY0kQEI' +
      'qWV4ZWN1dGlvbqFlpWNodW5rAKRsYXN0wwAAAAECAwAAAAAAAAAAAAAA+D8=',
  ],
  [
    {
      kind: 'done',
      model: 'm',
      epoch: EPOCH,
      version: '3',
      worker: 'wk-a',
      batch: 8,
      instance: 1,
      timing: { waitNs: 1.5, inputNs: 2, inferNs: 3, outputNs: 4 },
      executed: true,
      entries: [
        { id: 'gw-a:12', result: 'ok', error: null },
        { id: 'gw-a:13', result: 'error', error: { code: 'INTERNAL', message: 'no', field: 'inputs' } },
      ],
    },
    'TnICBwoBAADeAAqka2luZKRkb25lpW1vZGVsoW2lZXBvY2jeAAKmbnVtYmVyB6Vvd25lcqRjby1hp3ZlcnNpb26hM6Z3b3JrZXKkd2st' +
      'YaViYXRjaAioaW5zdGFuY2UBpnRpbWluZ94ABKZ3YWl0TnPLP/gAAAAAAACnaW5wdXROcwKnaW5mZXJOcwOob3V0cHV0TnMEqGV4ZWN1' +
      'dGVkw6dlbnRyaWVzkt4AA6JpZKdndy1hOjEypnJlc3VsdKJva6VlcnJvcsDeAAOiaWSnZ3ctYToxM6ZyZXN1bHSlZXJyb3KlZXJyb3Le' +
      'AAOkY29kZahJTlRFUk5BTKdtZXNzYWdlom5vpWZpZWxkpmlucHV0cw==',
  ],
];

/** A whole frame of that kind with that header. */
function frameWith(kind: number, header: Uint8Array): Buffer {
  const frame = Buffer.concat([Buffer.from([0x4e, 0x72, FRAME_VERSION, kind, 0, 0, 0, 0]), header]);
  frame.writeUInt32LE(header.byteLength, 4);
  return frame;
}

/** The frame with more bytes at the end of its header, which has no tensors after it. */
function extended(frame: Uint8Array, more: Uint8Array): Buffer {
  return frameWith(frame[3] ?? 0, Buffer.concat([frame.subarray(8), more]));
}

describe.each(KINDS)('a %s message', (kind) => {
  it('comes back from its frame as it was', () => {
    fc.assert(
      fc.property(MESSAGES[kind] as fc.Arbitrary<Message>, (message) => {
        expect(decodeMessage(encodeMessage(message))).toEqual(message);
      }),
    );
  });
});

describe('a frame', () => {
  it('begins with magic, version, kind and header length', () => {
    const frame = encodeMessage(SAMPLE);
    expect(Array.from(frame.subarray(0, 4))).toEqual([0x4e, 0x72, FRAME_VERSION, 6]);
    expect(new DataView(frame.buffer).getUint32(4, true)).toBeGreaterThan(0);
  });

  it('holds tensors aligned, and gives views on itself', () => {
    const frame = encodeMessage(SAMPLE);
    const message = decodeMessage(frame);
    if (message.kind !== 'response' || !message.outcome.ok) throw new Error('another message');
    for (const output of message.outcome.response.outputs) {
      if (!('data' in output)) throw new Error('another output');
      const { data } = output;
      expect(data.buffer).toBe(frame.buffer);
      expect(data.byteOffset % 8).toBe(0);
    }
  });

  it('names the blobs of detached tensors in place of their bytes, and passes on such names', () => {
    const blob = { place: 'file', id: '12000-bl-1-7', bytes: 3 } as const;
    const frame = encodeMessage(SAMPLE, ({ name }) => (name === 'Y' ? blob : undefined));
    const message = decodeMessage(frame);
    if (SAMPLE.kind !== 'response' || !SAMPLE.outcome.ok) throw new Error('another message');
    const { response } = SAMPLE.outcome;
    const outputs = response.outputs.map((output) =>
      output.name === 'Y' ? { name: 'Y', datatype: 'UINT8', shape: [3], blob } : output,
    );
    expect(message).toEqual({ ...SAMPLE, outcome: { ok: true, response: { ...response, outputs } } });
    expect(decodeMessage(encodeMessage(message))).toEqual(message);
  });

  it.each(['../../etc/passwd', '..', 'a/b', '', 'a b', 'x'.repeat(129)])("with a blob named '%s' is refused", (id) => {
    const frame = encodeMessage(SAMPLE, () => ({ place: 'file', id, bytes: 3 }));
    expect(() => decodeMessage(frame)).toThrow(/name of a blob/);
  });

  it.each(OLD_FRAMES.map(([message, old]) => [message.kind, message, old] as const))(
    'of the version before is read: %s',
    (_, message, old) => {
      const frame = Buffer.from(old, 'base64');
      expect(frame[2]).toBe(FRAME_VERSION - 1);
      expect(decodeMessage(frame)).toEqual(message);
    },
  );

  it('to which a newer build added fields is read', () => {
    const done = OLD_FRAMES[3]?.[0];
    if (done?.kind !== 'done') throw new Error('another message');
    expect(decodeMessage(extended(encodeMessage(done), Buffer.from('more')))).toEqual(done);
    // An outcome has fields of its message behind it.
    const failed: Message = {
      ...SAMPLE,
      outcome: { ok: false, error: { code: 'INTERNAL', message: 'no' } },
    } as Message;
    const header = Buffer.from(encodeMessage(failed)).subarray(8);
    const block = 1 + 1 + 1 + 'gw-a:1'.length + 1;
    const end = block + 4 + header.readUInt32LE(block);
    const grown = Buffer.concat([header.subarray(0, end), Buffer.from('more'), header.subarray(end)]);
    grown.writeUInt32LE(header.readUInt32LE(block) + 4, block);
    expect(decodeMessage(frameWith(RESPONSE, grown))).toEqual(failed);
  });

  it('of a build that closed no batches early is read', () => {
    const infer = OLD_FRAMES[0]?.[0];
    if (infer?.kind !== 'infer') throw new Error('another message');
    const inline = { ...infer, request: { ...REQUEST, inputs: [] } };
    const frame = encodeMessage(inline);
    expect(decodeMessage(frameWith(INFER, frame.subarray(8, -1)))).toStrictEqual(inline);
  });

  it('of a build that did not count streams is read', () => {
    const done = OLD_FRAMES[3]?.[0];
    if (done?.kind !== 'done') throw new Error('another message');
    const frame = encodeMessage(done);
    expect(decodeMessage(frameWith(DONE, frame.subarray(8, -1)))).toStrictEqual(done);
  });

  it('is read from the middle of a larger buffer', () => {
    const frame = encodeMessage(SAMPLE);
    const larger = Buffer.concat([Buffer.alloc(3), frame, Buffer.alloc(3)]);
    expect(decodeMessage(larger.subarray(3, 3 + frame.byteLength))).toStrictEqual(SAMPLE);
  });

  it('of a version of no files is read without a content hash', () => {
    const held = { version: '1', state: 'READY', reason: '', instances: [], running: [] } as const;
    const message: Message = {
      kind: 'described',
      model: 'm',
      worker: 'wk',
      askedAt: 1,
      versions: [held],
      streams: [],
      draining: false,
    };
    expect(decodeMessage(encodeMessage(message))).toStrictEqual(message);
    const told: Message = { ...message, versions: [{ ...held, contentHash: 'abc' }] };
    expect(decodeMessage(encodeMessage(told))).toStrictEqual(told);
  });

  it.each([0, FRAME_VERSION + 1, 255])('of version %i is refused', (version) => {
    const frame = encodeMessage(SAMPLE);
    frame[2] = version;
    expect(() => decodeMessage(frame)).toThrow(
      expect.objectContaining({ code: 'UNSUPPORTED', message: expect.stringContaining(`version ${version}`) }),
    );
  });

  it.each<[string, number, number, RegExp]>([
    ['magic', 0, 0, /magic/],
    ['kind', 3, 99, /unknown kind 99/],
    ['header length', 7, 0x10, /too long/],
    ['header length', 6, 0x10, /ends within its header/],
  ])('with a wrong %s is refused', (_, offset, byte, message) => {
    const frame = encodeMessage(SAMPLE);
    frame[offset] = byte;
    expect(() => decodeMessage(frame)).toThrow(message);
  });

  it('that ends early or goes on is refused at every length', () => {
    const frame = encodeMessage(SAMPLE);
    for (let length = 0; length < frame.byteLength; length++) {
      expect(() => decodeMessage(frame.subarray(0, length))).toThrow(NereidError);
    }
    expect(() => decodeMessage(Buffer.concat([frame, Buffer.alloc(1)]))).toThrow(/left over/);
  });

  it('with any bytes changed is read or refused, nothing else', () => {
    const change = fc.tuple(fc.nat(), fc.nat(255));
    fc.assert(
      fc.property(anyMessage, fc.array(change, { minLength: 1, maxLength: 4 }), (message, changes) => {
        const frame = encodeMessage(message);
        for (const [position, byte] of changes) frame[position % frame.byteLength] = byte;
        try {
          decodeMessage(frame);
        } catch (error) {
          expect(error).toBeInstanceOf(NereidError);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it.each<[string, number, readonly number[]]>([
    ['an array of 2^32 - 1', CANCEL, [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ['a map of 2^32 - 1', CANCEL, [0xdf, 0xff, 0xff, 0xff, 0xff]],
    ['bytes of 2^32 - 1', CANCEL, [0xc6, 0xff, 0xff, 0xff, 0xff]],
    ['text of 2^32 - 1', CANCEL, [0xdb, 0xff, 0xff, 0xff, 0xff]],
    ['nested arrays of 16,000,000', CANCEL, Array.from({ length: 200 }, () => [0xdd, 0x00, 0xf4, 0x24, 0x00]).flat()],
    ['a model name of 2^32 - 1 bytes', INFER, [0xfe, 0xff, 0xff, 0xff, 0xff]],
    ['a model name of 2^52 bytes', INFER, [0xff, 0, 0, 0, 0, 0, 0, 0x30, 0x43]],
    ['a model name of NaN bytes', INFER, [0xff, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f]],
    // Model, epoch, version, batch and instance come before its entries.
    ['2^32 - 1 entries', EXECUTE, [0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff]],
    ['an entry of 2^32 - 1 bytes', EXECUTE, [0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]],
    // Model and id, then a success without names, id and parameters.
    ['2^32 - 1 tensors', RESPONSE, [0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff]],
  ])('whose header announces %s takes no memory for it', (_, kind, header) => {
    const frame = frameWith(kind, Uint8Array.from(header));
    const before = process.memoryUsage();
    expect(() => decodeMessage(frame)).toThrow(expect.objectContaining({ code: 'INTERNAL' }));
    const after = process.memoryUsage();
    expect(after.heapTotal + after.external - before.heapTotal - before.external).toBeLessThan(64e6);
  });

  it('of any bytes is read or refused, nothing else', () => {
    const kind = fc.integer({ min: 1, max: KINDS.length });
    fc.assert(
      fc.property(kind, fc.uint8Array({ maxLength: 200 }), (number, header) => {
        try {
          decodeMessage(frameWith(number, header));
        } catch (error) {
          expect(error).toMatchObject({ name: 'NereidError', code: 'INTERNAL' });
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it('with a header nested deep is refused', () => {
    const depth = 1_000_000;
    const frame = Buffer.alloc(8 + depth, 0x91);
    frame.set([0x4e, 0x72, FRAME_VERSION, CANCEL]);
    frame.writeUInt32LE(depth, 4);
    expect(() => decodeMessage(frame)).toThrow(NereidError);
  });

  it('whose tensor claims more bytes than there are is refused', () => {
    const frame = encodeMessage({
      ...SAMPLE,
      outcome: { ok: false, error: { code: 'INTERNAL', message: 'x' } },
    } as Message);
    expect(decodeMessage(frame)).toMatchObject({ outcome: { ok: false } });
    const cut = encodeMessage(SAMPLE).subarray(0, -8);
    expect(() => decodeMessage(cut)).toThrow(/ends within a tensor/);
  });
});

describe('encoding', () => {
  it('refuses a header past its bound', () => {
    const message: Message = {
      kind: 'control',
      model: 'm',
      epoch: { number: 1, owner: 'co' },
      action: 'load',
      config: 'x'.repeat(16_777_217),
      versions: [],
      contentHash: '',
    };
    expect(() => encodeMessage(message)).toThrow(expect.objectContaining({ code: 'INVALID_ARG' }));
  });

  it('refuses integers past 64 bits', () => {
    if (SAMPLE.kind !== 'response' || !SAMPLE.outcome.ok) throw new Error('another message');
    const response = { ...SAMPLE.outcome.response, parameters: { n: 1n << 70n } };
    expect(() => encodeMessage({ ...SAMPLE, outcome: { ok: true, response } })).toThrow(
      expect.objectContaining({ code: 'INVALID_ARG' }),
    );
  });
});
