/** Batches that workers hold: the message that sends one, and what is asked of those that are out. */
import {
  type BatchTiming,
  type DoneEntry,
  type Epoch,
  type ExecuteEntry,
  type ExecuteMessage,
  ofLoad,
  type ProcessId,
} from '@nereid/protocol';
import type { BatchTimes, CloseReason, InstanceKey } from '@nereid/scheduler';
import type { PlacedInstance } from './instance-places.ts';
import type { OwnedRequest } from './version-queue.ts';

export interface SentBatch {
  readonly number: number;
  /** Under which it was sent; the model's may be a later one by now. */
  readonly epoch: Epoch;
  readonly worker: ProcessId;
  readonly instance: InstanceKey;
  /** Position among its worker's, and name; '' where the worker has not said. */
  readonly index: number;
  readonly instanceName: string;
  readonly requests: readonly OwnedRequest[];
  /** Of all its requests. */
  readonly rows: number;
  readonly sentUs: number;
  readonly reason: CloseReason;
  /** Of steps: each one's slot. */
  readonly slots: readonly number[] | undefined;
  /** It takes no place of its instance: what is in it is only answered. */
  readonly answersOnly: boolean;
}

/** What the batches of one version have in common. */
export interface BatchSource {
  readonly model: string;
  readonly version: string;
  /** Of which load. */
  readonly load: number;
  readonly epoch: () => Epoch;
  /** The next batch number of the epoch. */
  readonly nextBatch: () => number;
  /** Who gets the answers, where that is not each request's sender. */
  readonly answersTo: ProcessId | undefined;
}

/** A batch to be sent now. */
export function newBatch(
  source: BatchSource,
  { worker, index, name: instanceName }: Pick<PlacedInstance, 'worker' | 'index' | 'name'>,
  requests: readonly OwnedRequest[],
  sentUs: number,
): SentBatch {
  return {
    number: source.nextBatch(),
    epoch: source.epoch(),
    worker,
    instance: `${worker}/${index}`,
    index,
    instanceName,
    requests,
    rows: rowsOf(requests),
    sentUs,
    reason: 'single',
    slots: undefined,
    answersOnly: false,
  };
}

function rowsOf(requests: readonly OwnedRequest[]): number {
  let rows = 0;
  for (const request of requests) rows += request.rows;
  return rows;
}

/** `stepOf` tells of steps of sequences what else their worker is to know. */
export function executeMessage(
  source: BatchSource,
  batch: SentBatch,
  instance: number,
  stepOf?: (request: OwnedRequest) => Pick<ExecuteEntry, 'session' | 'step'>,
): ExecuteMessage {
  const { slots } = batch;
  return {
    kind: 'execute',
    model: source.model,
    epoch: batch.epoch,
    version: source.version,
    ...ofLoad(source.load),
    batch: batch.number,
    instance,
    entries: batch.requests.map((request, index) => {
      const { id, message } = request;
      const replyTo = source.answersTo ?? message.replyTo;
      if (stepOf === undefined) return { id, replyTo, request: message.request, session: null, slot: -1 };
      return { id, replyTo, request: message.request, slot: slots?.[index] ?? -1, ...stepOf(request) };
    }),
  };
}

/**
 * Batches sent to a worker up to a question's time that its answer does not list: the batch or its
 * `done` was lost (docs/protocol.md R28). By requests and not by numbers, which an earlier owner's
 * batches may share.
 */
export function unlistedBatches(
  batches: Iterable<SentBatch>,
  worker: ProcessId,
  running: ReadonlySet<string>,
  sentUpTo: number,
): readonly SentBatch[] {
  return [...batches].filter(
    (batch) => batch.worker === worker && batch.number <= sentUpTo && !batch.requests.some(({ id }) => running.has(id)),
  );
}

/** When the batch that is out longest at a worker was sent; undefined where none is. */
export function outSinceUs(batches: Iterable<SentBatch>, worker: ProcessId): number | undefined {
  // In the order in which they were sent.
  for (const batch of batches) if (batch.worker === worker) return batch.sentUs;
  return undefined;
}

/** Requests in batches behind the first of their instance: workers run an instance's batches in order. */
export function behindOthers(batches: Iterable<SentBatch>): number {
  const busy = new Set<InstanceKey>();
  let requests = 0;
  for (const batch of batches) {
    if (busy.has(batch.instance)) requests += batch.requests.length;
    else busy.add(batch.instance);
  }
  return requests;
}

/** Whether the request was in its batch when that ran, if it ran. */
export function hasRun({ result }: DoneEntry): boolean {
  return result === 'ok' || result === 'error' || result === 'cancelled' || result === 'again';
}

/** Whether somebody has got an answer to it, and may send the next request. */
export function isAnswered({ result }: DoneEntry): boolean {
  return result === 'ok' || result === 'error';
}

/** `outUs`: from its sending until its worker's word that it is over. */
export function batchTimes({ waitNs, inputNs, inferNs, outputNs }: BatchTiming, outUs: number): BatchTimes {
  const runUs = (inputNs + inferNs + outputNs) / 1000;
  return { runUs, wayUs: outUs - waitNs / 1000 - runUs };
}

/** What its execution says of how long so many rows take. */
export function ranOf({ requests }: SentBatch, timing: BatchTiming): { readonly rows: number; readonly runUs: number } {
  return { rows: rowsOf(requests), runUs: batchTimes(timing, 0).runUs };
}
