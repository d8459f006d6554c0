/** The headers of `explain` and `explained` (message-header.ts). */
import {
  EXPLAINED_STATES,
  type ExplainedBatch,
  type ExplainedCall,
  type ExplainedError,
  type ExplainedEvent,
  type ExplainedMessage,
  type ExplainedRun,
  type ExplainMessage,
} from './explained.ts';
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
import type { ParentCall } from './infer.ts';
import type { BatchTiming } from './message.ts';

const correlationId: FrameReader<bigint | string> = (value, body) =>
  typeof value === 'string' ? value : long(value, body);

const request = {
  process: text,
  id: text,
  requestId: text,
  model: text,
  version: text,
  trace: text,
  parent: nullable(record<ParentCall>({ id: text, step: integer })),
  correlationId,
  arrivedMs: number,
  arrivedUs: number,
  tookUs: number,
  state: oneOf(EXPLAINED_STATES),
  error: nullable(record<ExplainedError>({ code: text, message: text, reason: text })),
  events: list(record<ExplainedEvent>({ afterUs: number, what: text })),
};

const call = record<ExplainedCall>({ ...request, door: text, owner: text, sends: count, answers: count, cached: flag });

const batch = record<ExplainedBatch>({
  number: integer,
  reason: text,
  worker: text,
  instance: integer,
  instanceName: text,
  slot: integer,
  requests: count,
  rows: count,
  timing: nullable(record<BatchTiming>({ waitNs: number, inputNs: number, inferNs: number, outputNs: number })),
  others: list(record({ id: text, requestId: text })),
});

const run = record<ExplainedRun>({
  ...request,
  epoch: integer,
  job: text,
  rows: count,
  priority: number,
  waiting: count,
  ahead: count,
  running: count,
  copies: count,
  losses: count,
  queuedUs: number,
  session: text,
  batch: nullable(batch),
});

export const readExplain = record<ExplainMessage>({
  kind: () => 'explain',
  id: text,
  about: text,
  parents: list(text),
  limit: count,
});

export const readExplained = record<ExplainedMessage>({
  kind: () => 'explained',
  id: text,
  process: text,
  calls: list(call),
  runs: list(run),
  more: flag,
});
