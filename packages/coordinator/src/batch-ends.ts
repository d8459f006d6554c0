import {
  CANCELLED,
  type DoneEntry,
  type DoneMessage,
  type EntryResult,
  type ErrorInfo,
  type FailureReason,
  noteEvent,
  type ProcessId,
} from '@nereid/protocol';
import { countClose } from './close-counts.ts';
import { countExecution, countFailure, countSuccess } from './model-statistics.ts';
import type { Entry, RequestEntries } from './request-entries.ts';
import { countResponses, countWholeAnswers } from './response-counts.ts';
import type { RunningElsewhere } from './running-elsewhere.ts';
import { hasRun, isAnswered, type SentBatch } from './sent-batch.ts';
import type { SequenceSteps } from './sequence-steps.ts';
import type { OwnedRequest, QueueParts } from './version-queue.ts';

/** What the results mean that are no outcome. */
const HAPPENED: Readonly<
  Record<
    Exclude<EntryResult, 'ok' | 'error' | 'cancelled' | 'replayed' | 'refused' | 'again'>,
    (worker: ProcessId) => string
  >
> = {
  duplicate: (worker) => `${worker} runs it already`,
  lost: (worker) => `${worker} does not have its answer, or its sequence's state, any more`,
  gap: (worker) => `${worker} lacks the step before it`,
  noslot: (worker) => `${worker} takes no more, or does not have its sequence`,
  blob: (worker) => `${worker} did not find its tensors`,
};

export interface BatchEndsParts {
  readonly queue: QueueParts;
  readonly entries: RequestEntries;
  readonly elsewhere: RunningElsewhere;
  /** Undefined where the model keeps no sequences. */
  readonly steps: Pick<SequenceSteps, 'over'> | undefined;
  /** Ends a request that no worker answers. */
  readonly end: (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => void;
  /** Puts the request of a lost batch back, or fails it. Whoever calls has what came back decided once all is there. */
  readonly retry: (request: OwnedRequest) => void;
  /** As `retry` where its batch was not lost. */
  readonly requeue: (entry: Entry) => void;
}

/** What a worker's `done` means for the requests of its batch, and what is counted of it. */
export interface BatchEnds {
  /** Of a batch of this owner, which is taken off its instance already. How many of its requests were answered, but for those in the background. */
  ended(batch: SentBatch, message: DoneMessage): number;
  /** Of a batch that an earlier owner sent, or this one before its worker was held for gone. */
  endedElsewhere(message: DoneMessage): void;
}

export function createBatchEnds(parts: BatchEndsParts): BatchEnds {
  const { entries, elsewhere, end, steps } = parts;
  const { clock, decoupled, mailbox, model, statistics } = parts.queue;

  /** `sentUs`: when its batch was sent, as far as is known. */
  const settle = (request: OwnedRequest, sentUs: number, done: DoneEntry, message: DoneMessage) => {
    countOutcome(request, sentUs, done, message);
    noteOutcome(request, done, message);
    if (steps !== undefined) {
      steps.over(request, done.result, message.worker);
      return;
    }
    switch (done.result) {
      case 'ok':
      case 'error':
      case 'cancelled':
      case 'duplicate':
        entries.forget(request.id);
        return;
      case 'blob':
        notFound(request);
        return;
      case 'noslot': {
        // Its worker takes no more: it runs elsewhere, which is no loss.
        const entry = entries.get(request.id);
        if (entry !== undefined) parts.requeue(entry);
        return;
      }
      default:
        end(request, { code: 'INTERNAL', message: `the worker did not run the request: ${done.result}` }, 'OTHER');
    }
  };

  const noteOutcome = (request: OwnedRequest, { result, error }: DoneEntry, done: DoneMessage) => {
    const entry = entries.get(request.id);
    const { notes } = parts.queue;
    if (entry === undefined) return;
    if (result === 'ok' || result === 'replayed') notes.ended(parts.queue, entry, { state: 'ok', done });
    else if (result === 'error' || result === 'refused')
      notes.ended(parts.queue, entry, { state: 'error', error, done });
    else if (result === 'cancelled') notes.ended(parts.queue, entry, { state: 'error', error: CANCELLED, done });
    else if (result !== 'again') noteEvent(entry, clock.nowUs(), HAPPENED[result](done.worker));
    if (steps === undefined && (result === 'duplicate' || (result === 'blob' && !entry.cancelled)))
      notes.ended(parts.queue, entry, { state: 'left', done });
  };

  /** What did not run is counted where it runs, or ends. */
  const countOutcome = (request: OwnedRequest, sentUs: number, { result }: DoneEntry, { timing }: DoneMessage) => {
    const nowUs = clock.nowUs();
    if (result === 'ok') countSuccess(statistics, request.rows, request.arrivedUs, sentUs, nowUs, timing);
    else if (result === 'error') countFailure(statistics, 'BACKEND', request.arrivedUs, nowUs);
    else if (result === 'cancelled') countFailure(statistics, 'CANCELED', request.arrivedUs, nowUs);
    else if (result === 'refused') countFailure(statistics, 'OTHER', request.arrivedUs, nowUs);
  };

  /** Nothing was executed; its sender has the data and sends it again (R29). */
  const notFound = (request: OwnedRequest) => {
    const { id, message } = request;
    const entry = entries.get(id);
    if (entry === undefined) return;
    if (entry.cancelled) {
      end(request, CANCELLED, 'CANCELED');
      return;
    }
    entries.forget(id);
    mailbox.send(message.replyTo, { kind: 'missing', model, id });
  };

  /** `rows`: of the requests that were in the batch when it ran. */
  const countBatch = ({ timing, entries: done, responses }: DoneMessage, rows: number) => {
    countExecution(statistics, rows, timing, clock.wallMs());
    if (responses !== undefined) countResponses(statistics.responses, responses);
    else if (decoupled) countWholeAnswers(statistics.responses, done, timing);
  };

  return {
    ended(batch, message) {
      let rows = 0;
      let answered = 0;
      for (const [index, request] of batch.requests.entries()) {
        const inOrder = message.entries[index];
        const result = inOrder?.id === request.id ? inOrder : message.entries.find(({ id }) => id === request.id);
        // A step whose sequence has begun anew meanwhile is in another batch.
        if (steps !== undefined && entries.get(request.id)?.batch !== batch) continue;
        if (result === undefined) {
          parts.retry(request);
          continue;
        }
        if (hasRun(result)) rows += request.rows;
        if (isAnswered(result) && request.background !== true) answered++;
        settle(request, batch.sentUs, result, message);
      }
      if (message.executed) {
        countBatch(message, rows);
        countClose(statistics.closes, batch.reason, rows);
      }
      return answered;
    },
    endedElsewhere(message) {
      let rows = 0;
      for (const done of message.entries) {
        const entry = entries.get(done.id);
        // What has not come here again is one row for all that is known of it.
        if (hasRun(done)) rows += entry?.request.rows ?? 1;
        if (elsewhere.worker(done.id) !== message.worker) continue;
        elsewhere.delete(done.id);
        if (entry?.elsewhere === message.worker) settle(entry.request, entry.request.arrivedUs, done, message);
      }
      if (message.executed) countBatch(message, rows);
    },
  };
}
