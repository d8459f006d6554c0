/**
 * What the MessagePack header of a frame holds: the message itself. The hot kinds have it in frames of version 2 only,
 * with each tensor as its description (name, datatype, shape, byte length) and parameters as a flat list, which keeps
 * any name and tells integers (64-bit) from doubles (8 bytes).
 */
import {
  BLOB_ID,
  BLOB_PLACES,
  type BlobRef,
  type BlobTensor,
  type CarriedOutcome,
  type CarriedRequest,
  type CarriedTensor,
} from './blob.ts';
import type { CachedTime } from './cached-message.ts';
import { readChange, readChanged } from './change-header.ts';
import { readControl } from './control-header.ts';
import { isDatatype } from './datatype.ts';
import { readError } from './error-frame.ts';
import { readExplain, readExplained } from './explained-header.ts';
import { frameError, takeBytes } from './frame-body.ts';
import {
  count,
  type FrameReader,
  flag,
  integer,
  list,
  long,
  nullable,
  number,
  oneOf,
  record,
  text,
} from './frame-reader.ts';
import type { InferResponse, Parameters, ParameterValue } from './infer.ts';
import { KEPT_ACTIONS, type PutTensor } from './kept-messages.ts';
import type { ListedSequence, SequencePlace } from './listed-sequence.ts';
import {
  type BatchTiming,
  type Bind,
  type DoneEntry,
  type DoneMessage,
  ENTRY_RESULTS,
  type EndedSession,
  type Epoch,
  type ExecuteEntry,
  type ExecuteMessage,
  type InstanceDescription,
  type Message,
  type MessageKind,
  type RunningStream,
  type SlotDescription,
  type VersionDescription,
} from './message.ts';
import { PLACE_ACTIONS } from './question-messages.ts';
import type {
  BatchStatistics,
  CloseStatistics,
  DurationStatistics,
  InferenceStatistics,
  LevelStatistics,
  QueueStatistics,
  ResponseStatistics,
  VersionStatistics,
} from './statistics.ts';

const DOUBLE_BYTES = 8;

const readParameter: FrameReader<ParameterValue> = (value) => {
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array && value.byteLength === DOUBLE_BYTES) {
    return new DataView(value.buffer, value.byteOffset).getFloat64(0, true);
  }
  throw frameError('parameter expected');
};

const readParameters: FrameReader<Parameters> = (value, body) => {
  if (!Array.isArray(value) || value.length % 2 !== 0) throw frameError('parameters expected');
  const entries: [string, ParameterValue][] = [];
  for (let index = 0; index < value.length; index += 2) {
    entries.push([text(value[index], body), readParameter(value[index + 1], body)]);
  }
  return Object.fromEntries(entries);
};

/** Four members for a tensor in the frame; place and id follow for one that is not. */
const TENSOR_MEMBERS = 4;
const BLOB_TENSOR_MEMBERS = 6;

const blobId: FrameReader<string> = (value, body) => {
  if (!BLOB_ID.test(text(value, body))) throw frameError('name of a blob expected');
  return value as string;
};

const readBlob = record<BlobRef>({ place: oneOf(BLOB_PLACES), id: blobId, bytes: count });

const readTensor: FrameReader<CarriedTensor> = (value, body) => {
  if (!Array.isArray(value)) throw frameError('tensor expected');
  const [name, datatype, shape, byteLength, place, id] = value;
  if (!isDatatype(datatype)) throw frameError('datatype expected');
  const described = { name: text(name, body), datatype, shape: list(count)(shape, body) };
  if (value.length === TENSOR_MEMBERS) return { ...described, data: takeBytes(count(byteLength, body), body) };
  if (value.length !== BLOB_TENSOR_MEMBERS) throw frameError('tensor expected');
  return { ...described, blob: readBlob({ place, id, bytes: byteLength }, body) } satisfies BlobTensor;
};

const epoch = record<Epoch>({ number: integer, owner: text });

const correlationId: FrameReader<bigint | string> = (value, body) =>
  typeof value === 'string' ? value : long(value, body);

// A step's number is the message's; what later builds add comes in frames of their own (wire-messages.ts).
const request = record<Omit<CarriedRequest, 'sequenceStep' | 'trace' | 'inner' | 'background' | 'journal' | 'shownId'>>(
  {
    modelName: text,
    modelVersion: text,
    id: text,
    correlationId,
    sequenceStart: flag,
    sequenceEnd: flag,
    priority: long,
    timeoutUs: long,
    parameters: readParameters,
    inputs: list(readTensor),
    requestedOutputs: list(text),
  },
);

const response = record<InferResponse<CarriedTensor>>({
  modelName: text,
  modelVersion: text,
  id: text,
  parameters: readParameters,
  outputs: list(readTensor),
});

const success = record<Extract<CarriedOutcome, { ok: true }>>({ ok: () => true, response });
const failure = record<Extract<CarriedOutcome, { ok: false }>>({ ok: () => false, error: readError });
const outcome: FrameReader<CarriedOutcome> = (value, body) =>
  (value as { ok?: unknown } | null)?.ok === true ? success(value, body) : failure(value, body);

// Frames of version 2, the only ones in which it is a map, know no sequences.
const entry = record<Omit<ExecuteEntry, 'step'>>({
  id: text,
  replyTo: text,
  request,
  session: nullable(text),
  slot: integer,
});
const timing = record<BatchTiming>({ waitNs: number, inputNs: number, inferNs: number, outputNs: number });
const doneEntry = record<DoneEntry>({
  id: text,
  result: oneOf(ENTRY_RESULTS),
  error: nullable(readError),
});
const instanceMembers = record<Omit<InstanceDescription, 'leaving'> & Record<'leaving', unknown>>({
  index: count,
  name: text,
  ready: flag,
  passive: flag,
  batches: list(integer),
  leaving: (value) => value,
});
const instance: FrameReader<InstanceDescription> = (value, body) => {
  const { leaving, ...members } = instanceMembers(value, body);
  return leaving === undefined ? members : { ...members, leaving: flag(leaving, body) };
};
const mark: FrameReader<readonly [string, number]> = (value, body) => {
  if (!Array.isArray(value)) throw frameError('mark expected');
  return [text(value[0], body), integer(value[1], body)];
};
const slot = record<SlotDescription>({
  instance: count,
  slot: count,
  session: text,
  correlationId,
  bind: record<Bind>({ epoch: integer, n: integer }),
  marks: list(mark),
  steps: count,
});
const ended = record<EndedSession>({ session: text, correlationId, marks: list(mark), steps: count, lost: flag });

type VersionExtras = 'contentHash' | 'slots' | 'ended' | 'load';
const versionMembers = record<Omit<VersionDescription, VersionExtras> & Record<VersionExtras, unknown>>({
  version: text,
  state: oneOf(['READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING', 'UNKNOWN']),
  reason: text,
  instances: list(instance),
  running: list(text),
  contentHash: (value) => value,
  slots: (value) => value,
  ended: (value) => value,
  load: (value) => value,
});
const version: FrameReader<VersionDescription> = (value, body) => {
  const { contentHash, slots, ended: over, load, ...members } = versionMembers(value, body);
  return {
    ...members,
    ...(load === undefined ? {} : { load: count(load, body) }),
    ...(contentHash === undefined ? {} : { contentHash: text(contentHash, body) }),
    ...(slots === undefined ? {} : { slots: list(slot)(slots, body) }),
    ...(over === undefined ? {} : { ended: list(ended)(over, body) }),
  };
};

const streams = list(record<RunningStream>({ id: text, execution: text }));

const duration = record<DurationStatistics>({ count, ns: number });
const compute = { computeInput: duration, computeInfer: duration, computeOutput: duration };
const queueStatistics = record<QueueStatistics>({
  waiting: count,
  running: count,
  pending: count,
  oldestUs: count,
  levels: list(record<LevelStatistics>({ level: count, waiting: count, delayed: count })),
  closes: list(record<CloseStatistics>({ reason: text, sizes: list(record({ rows: count, count })) })),
});
const countedMembers = record<Omit<VersionStatistics, 'queue'> & { queue: unknown }>({
  name: text,
  version: text,
  lastInferenceMs: number,
  inferenceCount: count,
  executionCount: count,
  inference: record<InferenceStatistics>({
    success: duration,
    fail: duration,
    queue: duration,
    ...compute,
    cacheHit: duration,
    cacheMiss: duration,
  }),
  responses: list(
    record<ResponseStatistics>({
      computeInfer: duration,
      computeOutput: duration,
      success: duration,
      fail: duration,
      emptyResponse: duration,
      cancel: duration,
    }),
  ),
  batches: list(record<BatchStatistics>({ batchSize: count, ...compute })),
  queue: (value) => value,
});
const versionStatistics: FrameReader<VersionStatistics> = (value, body) => {
  const { queue, ...members } = countedMembers(value, body);
  return queue === undefined ? members : { ...members, queue: queueStatistics(queue, body) };
};

const putTensor = record<PutTensor>({ id: blobId, blob: nullable(readBlob) });
const place = record<SequencePlace>({ worker: text, instance: count, instanceName: text, slot: count });
const cachedTime = record<CachedTime>({ ns: count, us: count });
const listed = record<ListedSequence>({
  version: text,
  session: text,
  correlationId,
  place: nullable(place),
  backlog: integer,
  steps: count,
  waiting: count,
  idleUs: count,
  ageUs: count,
});

function kindOf<K extends MessageKind>(kind: K): FrameReader<K> {
  return () => kind;
}

/** The reader of each kind's header. */
export const MESSAGE_READERS: { readonly [K in MessageKind]: FrameReader<Extract<Message, { kind: K }>> } = {
  infer: record({
    kind: kindOf('infer'),
    model: text,
    epoch,
    id: text,
    g: integer,
    low: integer,
    prev: integer,
    session: nullable(text),
    step: integer,
    sends: integer,
    msLeft: number,
    replyTo: text,
    request,
  }),
  cancel: record({
    kind: kindOf('cancel'),
    model: text,
    epoch,
    id: text,
    g: integer,
    low: integer,
    session: nullable(text),
  }),
  stale: record({ kind: kindOf('stale'), model: text, id: text, known: nullable(epoch) }),
  moved: record({ kind: kindOf('moved'), model: text, id: text, sent: nullable(text), current: nullable(text) }),
  missing: record({ kind: kindOf('missing'), model: text, id: text }),
  execute: record<Omit<ExecuteMessage, 'load'>>({
    kind: kindOf('execute'),
    model: text,
    epoch,
    version: text,
    batch: integer,
    instance: integer,
    entries: list(entry),
  }),
  response: record({
    kind: kindOf('response'),
    model: text,
    id: text,
    outcome,
    execution: text,
    chunk: integer,
    last: flag,
  }),
  // Frames of version 2, the only ones in which it is a map, know no streams.
  done: record<Omit<DoneMessage, 'responses' | 'load'>>({
    kind: kindOf('done'),
    model: text,
    epoch,
    version: text,
    worker: text,
    batch: integer,
    instance: integer,
    timing,
    executed: flag,
    entries: list(doneEntry),
  }),
  refused: record({ kind: kindOf('refused'), model: text, batch: integer, sent: epoch, highest: epoch }),
  describe: record({ kind: kindOf('describe'), model: text, epoch, askedAt: number }),
  echo: record({ kind: kindOf('echo'), model: text, sentUs: number }),
  described: record({
    kind: kindOf('described'),
    model: text,
    worker: text,
    askedAt: number,
    versions: list(version),
    streams,
    draining: flag,
  }),
  free: record({ kind: kindOf('free'), model: text, epoch, session: text }),
  control: readControl,
  running: record({ kind: kindOf('running'), model: text, streams }),
  count: record({ kind: kindOf('count'), model: text, epoch, id: text, versions: list(text) }),
  counted: record({ kind: kindOf('counted'), model: text, id: text, versions: list(versionStatistics) }),
  list: record({ kind: kindOf('list'), model: text, epoch, id: text, after: text, limit: count }),
  evict: record({ kind: kindOf('evict'), model: text, epoch, id: text, session: text }),
  listed: record({ kind: kindOf('listed'), model: text, id: text, sequences: list(listed), more: flag }),
  place: record({ kind: kindOf('place'), model: text, epoch, id: text, action: oneOf(PLACE_ACTIONS) }),
  placed: record({ kind: kindOf('placed'), model: text, id: text, report: text }),
  cancel_job: record({ kind: kindOf('cancel_job'), model: text, id: text }),
  cached: record({
    kind: kindOf('cached'),
    model: text,
    epoch,
    version: text,
    hits: count,
    hitRequest: cachedTime,
    hitQueue: cachedTime,
    hitLookup: cachedTime,
    misses: count,
    miss: cachedTime,
  }),
  kept: record({
    kind: kindOf('kept'),
    model: text,
    id: text,
    action: oneOf(KEPT_ACTIONS),
    ids: list(blobId),
    replyTo: text,
  }),
  put: record({ kind: kindOf('put'), model: text, id: text, tensors: list(putTensor) }),
  change: readChange,
  changed: readChanged,
  explain: readExplain,
  explained: readExplained,
};
