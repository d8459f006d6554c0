/** Batches that workers hold: the message that sends one, and what is asked of those that are out. */
import type { Epoch, ExecuteMessage, ProcessId } from '@nereid/protocol';
import type { InstanceKey } from '@nereid/scheduler';
import type { OwnedRequest } from './dispatch.ts';

export interface SentBatch {
  readonly number: number;
  readonly worker: ProcessId;
  readonly instance: InstanceKey;
  readonly requests: readonly OwnedRequest[];
  readonly sentUs: number;
}

/** What the batches of one version have in common. */
export interface BatchSource {
  readonly model: string;
  readonly version: string;
  readonly epoch: () => Epoch;
}

export function executeMessage(source: BatchSource, batch: SentBatch, instance: number): ExecuteMessage {
  return {
    kind: 'execute',
    model: source.model,
    epoch: source.epoch(),
    version: source.version,
    batch: batch.number,
    instance,
    entries: batch.requests.map(({ id, message }) => ({
      id,
      replyTo: message.replyTo,
      request: message.request,
      session: message.session,
      slot: -1,
    })),
  };
}

/** The batch that a request is in. Looks through all of them: few are out, and only a cancel asks. */
export function batchOf(id: string, batches: Iterable<SentBatch>): SentBatch | undefined {
  for (const batch of batches) if (batch.requests.some((request) => request.id === id)) return batch;
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
