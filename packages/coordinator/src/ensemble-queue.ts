import type { OpenedCaller } from '@nereid/caller';
import type { ModelSignature } from '@nereid/config';
import {
  ANSWER_REFUSED,
  type CancelMessage,
  type CarriedOutcome,
  type CarriedTensor,
  type Epoch,
  type ErrorInfo,
  type FailureReason,
  type InferMessage,
  QUEUE_FULL,
  type ResponseMessage,
  sequenceLost,
  withRequestId,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { type EnsemblePlan, planEnsemble } from '@nereid/scheduler';
import type { Mailbox } from '@nereid/transport';
import { createEnsembleRunner, type RequestRun } from './ensemble-runner.ts';
import { isOfSequence } from './ensemble-step.ts';
import { createEnsembleTensors } from './ensemble-tensors.ts';
import { countExecution, countFailure, countSuccess, type ModelStatistics } from './model-statistics.ts';
import { IN_NO_BATCH, type NotedEntry, type RunNotes } from './run-notes.ts';
import type { OwnedRequest, VersionQueue } from './version-queue.ts';
import { createWakeTimer } from './wake-timer.ts';

/** Plans that are kept, one for each set of outputs asked for; the oldest goes first. */
const PLANS_MAX = 64;
/** Between two signs of a stream that has begun. */
const SIGN_MS = 1_000;

export interface EnsembleQueueParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly version: string;
  readonly epoch: () => Epoch;
  /** What becomes of requests is noted there. */
  readonly notes: RunNotes;
  readonly signature: ModelSignature;
  readonly caller: OpenedCaller<CarriedTensor>;
  readonly statistics: ModelStatistics;
  /** Requests without an outcome. */
  readonly queue_max: number;
  /** Whether the step's model answers in the order of its requests. */
  readonly ordered: (step: number) => boolean;
  /** Whether the step's model may answer with a tensor that it was given. */
  readonly handsOn: (step: number) => boolean;
  readonly answer: (message: InferMessage, error: ErrorInfo) => void;
  readonly idle: () => void;
  readonly holdsLease: () => boolean;
  readonly leaseLost: () => void;
}

interface Entry extends NotedEntry {
  /** Of its answers. */
  readonly execution: string;
  /** Of the next one. */
  chunk: number;
  cancelled: boolean;
  run: RequestRun | undefined;
}

/**
 * The requests of one version of an ensemble: each is a run, from its arrival to its outcome, and none waits. A run calls
 * the steps' models as anybody does, so that what waits, is batched or is refused is theirs; its answers go to the
 * request's `replyTo` as a worker's would, and are one execution.
 *
 * The request is as stateless as one to a plain model: after the owner's death it is sent again, and another run begins.
 * One of a sequence is not: what a lost run has applied nobody knows, so its copies fail as its sequence.
 */
export function createEnsembleQueue(parts: EnsembleQueueParts): VersionQueue {
  const { clock, mailbox, signature, statistics, version } = parts;
  const { name: model, ensemble = { steps: [], maxInflight: 0 } } = signature;
  const entries = new Map<string, Entry>();
  const plans = new Map<string, EnsemblePlan>();
  const source = { model, version, epoch: parts.epoch };
  const tensors = createEnsembleTensors(signature, parts.caller.models);
  const runner = createEnsembleRunner({ ...parts, model, signature: ensemble, tensors });
  let executions = 0;

  /** Only a stream that has begun is looked for signs (docs/protocol.md R27). */
  const signs = createWakeTimer(clock, () => {
    for (const { chunk, execution, request } of entries.values()) {
      const { id, replyTo } = request.message;
      if (chunk > 0) mailbox.send(replyTo, { kind: 'running', model, streams: [{ id, execution }] });
    }
    if (entries.size > 0) signs.set(clock.nowUs() + SIGN_MS * 1000);
  });

  const planOf = ({ request: { requestedOutputs } }: InferMessage): EnsemblePlan => {
    const requested = requestedOutputs.length > 0 ? requestedOutputs : signature.outputs.map(({ name }) => name);
    const key = requested.join('\n');
    const known = plans.get(key);
    if (known !== undefined) return known;
    const { decoupled } = signature;
    const { ordered, handsOn } = parts;
    const plan = planEnsemble(ensemble, { name: model, requested, decoupled, ordered, handsOn });
    for (const oldest of plans.keys()) {
      if (plans.size < PLANS_MAX) break;
      plans.delete(oldest);
    }
    plans.set(key, plan);
    return plan;
  };

  const forget = (entry: Entry) => {
    if (!entries.delete(entry.request.id) || entries.size > 0) return;
    signs.drop();
    parts.idle();
  };

  /** Refused, or ended from here: it has no execution. */
  const refuse = (request: OwnedRequest, error: ErrorInfo, reason: FailureReason) => {
    countFailure(statistics, reason, request.arrivedUs, clock.nowUs());
    parts.notes.ended(source, { ...IN_NO_BATCH, request }, { state: 'error', error });
    parts.answer(request.message, error);
  };

  const send = (entry: Entry, outcome: CarriedOutcome, last: boolean) => {
    const { id, replyTo, request } = entry.request.message;
    const isTimed = last && (request.inner !== undefined || replyTo === mailbox.id);
    const message: ResponseMessage = {
      kind: 'response',
      model,
      id,
      outcome,
      execution: entry.execution,
      chunk: entry.chunk++,
      last,
      ...(isTimed && entry.run !== undefined ? { timing: entry.run.timing } : {}),
    };
    mailbox.send(replyTo, message, (reason) => {
      if (!last) cancel(entry);
      else if (reason === 'full') mailbox.send(replyTo, { ...message, outcome: { ok: false, error: ANSWER_REFUSED } });
    });
    if (!last && signature.decoupled && !signs.isSet) signs.set(clock.nowUs() + SIGN_MS * 1000);
  };

  const respond = (entry: Entry, outputs: ReadonlyMap<string, CarriedTensor> | undefined, last: boolean) => {
    const { request } = entry.request.message;
    const { id, correlationId, sequenceStart, sequenceEnd } = request;
    send(
      entry,
      {
        ok: true,
        response: {
          modelName: model,
          modelVersion: version,
          id,
          // Always there in an ensemble's answers (ensemble_scheduler.cc).
          parameters: { sequence_id: correlationId, sequence_start: sequenceStart, sequence_end: sequenceEnd },
          outputs: outputs === undefined ? [] : [...outputs].map(([name, tensor]) => ({ ...tensor, name })),
        },
      },
      last,
    );
    if (!last) return;
    const { rows, arrivedUs } = entry.request;
    const timing = entry.run?.timing ?? { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
    countSuccess(statistics, rows, arrivedUs, arrivedUs, clock.nowUs(), timing);
    countExecution(statistics, rows, timing, clock.wallMs());
    parts.notes.ended(source, entry, { state: 'ok' });
    forget(entry);
  };

  const fail = (entry: Entry, error: ErrorInfo) => {
    const reason = error.code === 'CANCELLED' && entry.cancelled ? 'CANCELED' : 'OTHER';
    countFailure(statistics, reason, entry.request.arrivedUs, clock.nowUs());
    send(entry, { ok: false, error }, true);
    parts.notes.ended(source, entry, { state: 'error', error });
    forget(entry);
  };

  /** Whoever sent the request puts its tensors down anew and sends it again (docs/protocol.md R29). */
  const missing = (entry: Entry): boolean => {
    const { id, replyTo } = entry.request.message;
    entry.run?.drop();
    parts.notes.ended(source, entry, { state: 'left' });
    forget(entry);
    mailbox.send(replyTo, { kind: 'missing', model, id });
    return true;
  };

  const cancel = (entry: Entry) => {
    entry.cancelled = true;
    entry.run?.cancel();
  };

  /** Ends all runs; of each request that had one is told before. */
  const drop = (told: (entry: Entry) => void) => {
    for (const entry of [...entries.values()]) {
      told(entry);
      entry.run?.drop();
      forget(entry);
    }
    runner.close();
    signs.drop();
  };

  return {
    entries: { [Symbol.iterator]: () => entries.values(), get: (id) => entries.get(id) },
    waiting: 0,
    background: 0,
    pending: 0,
    oldestArrivedUs: undefined,
    levels: [],
    sequences: [],
    get running() {
      return entries.size;
    },
    knows: (id) => entries.has(id),
    takesCopy: ({ id }) => entries.has(id),
    finds: () => undefined,
    sequenceOf: () => undefined,
    arrive(request) {
      const { message } = request;
      request.foundRunning = entries.size;
      if (!parts.holdsLease()) {
        parts.leaseLost();
        return;
      }
      if (message.sends > 1 && isOfSequence(message)) {
        refuse(request, sequenceLost(model, message.request.correlationId), 'OTHER');
        return;
      }
      if (entries.size >= parts.queue_max) {
        refuse(request, withRequestId(message.request, QUEUE_FULL), 'REJECTED');
        return;
      }
      const execution = `${mailbox.id}/${message.epoch.number}.${version}.${++executions}`;
      const entry: Entry = { ...IN_NO_BATCH, request, execution, chunk: 0, cancelled: false, run: undefined };
      entries.set(request.id, entry);
      entry.run = runner.start(request, planOf(message), {
        respond: (outputs, last) => respond(entry, outputs, last),
        fail: (error) => fail(entry, error),
        missing: () => missing(entry),
      });
    },
    cancel({ id }: CancelMessage) {
      const entry = entries.get(id);
      if (entry !== undefined) cancel(entry);
      return entry !== undefined;
    },
    close: (error) => drop(({ request }) => refuse(request, error, 'OTHER')),
    abandon: () => drop((entry) => parts.notes.ended(source, entry, { state: 'left' })),
    // Steps wait with their models.
    drain() {},
    draw: () => [],
    failQueued() {},
    // No worker has anything of an ensemble.
    describe() {},
    withdraw() {},
    drainWorker() {},
    workerGone() {},
    outSinceUs: () => undefined,
    done() {},
    answered: () => false,
    undelivered() {},
    // Its sequences are those of its steps' models.
    evict() {},
    heard() {},
  };
}
