import { checkRequest, type ModelRecord } from '@nereid/config';
import {
  compareEpochs,
  type Epoch,
  type ErrorInfo,
  type InferMessage,
  type InferRequest,
  type Outcome,
  type ProcessId,
  QUEUE_FULL,
  type StaleMessage,
  withRequestId,
} from '@nereid/protocol';
import type { Directory, Mailbox, RefusalReason } from '@nereid/transport';
import type { ModelLookups } from './model-lookup.ts';
import type { Pending } from './pending.ts';

/** A request told `stale` this often is refused: ownership is changing faster than it travels. */
const SENDS_MAX = 4;

const CANCELLED: Outcome = { ok: false, error: { code: 'CANCELLED', message: 'the caller gave up' } };

export interface InferParts {
  readonly id: ProcessId;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ModelLookups;
  readonly pending: Pending;
}

export interface Infer {
  /** Why the request cannot be taken, from what is known here; null where it can. */
  refusal(request: InferRequest): ErrorInfo | null;
  /** Sends a request that was not refused and waits; `signal` cancels it wherever it is by then. */
  submit(request: InferRequest, signal: AbortSignal | undefined): Promise<Outcome>;
  /** A coordinator says that it was not the owner: tries the one known now, or gives up. */
  stale(message: StaleMessage): void;
}

export function createInfer({ id: replyTo, mailbox, directory, models, pending }: InferParts): Infer {
  const send = (message: InferMessage) => {
    mailbox.send(message.epoch.owner, message, (reason) => {
      pending.settle(message.id, failed(refusedSend(message, reason)));
    });
  };

  const cancel = (id: string) => {
    const request = pending.find(id);
    if (request === undefined || !pending.settle(id, CANCELLED)) return;
    const { model, epoch, g, session } = request.message;
    mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id, g, low: pending.low, session });
  };

  return {
    refusal(request) {
      const found = models.find(request.modelName, request.modelVersion);
      if (!found.ok) return found.error;
      if (found.signature.decoupled) return decoupled(request.modelName);
      const wrong = checkRequest(found.signature, request);
      if (wrong !== null) return wrong;
      if (pending.full) return withRequestId(request, QUEUE_FULL);
      return directory.owner(request.modelName) === undefined ? ownerless(request.modelName) : null;
    },

    submit(request, signal) {
      const epoch = directory.owner(request.modelName);
      if (epoch === undefined) return Promise.resolve(failed(ownerless(request.modelName)));
      if (signal?.aborted === true) return Promise.resolve(CANCELLED);
      return new Promise((resolve) => {
        const message = firstMessage(request, epoch, replyTo, pending);
        const onAbort = signal === undefined ? undefined : () => cancel(message.id);
        if (onAbort !== undefined) signal?.addEventListener('abort', onAbort);
        pending.add({ message, resolve, signal, onAbort });
        send(message);
      });
    },

    stale({ id, known }) {
      const request = pending.find(id);
      if (request === undefined) return;
      const { message } = request;
      const epoch = newerEpoch(message.epoch, [directory.owner(message.model), known ?? undefined]);
      if (epoch === undefined || message.sends >= SENDS_MAX) {
        pending.settle(id, failed(ownerless(message.model)));
        return;
      }
      const again = { ...message, epoch, low: pending.low, sends: message.sends + 1 };
      pending.resent(request, again);
      send(again);
    },
  };
}

function firstMessage(request: InferRequest, epoch: Epoch, replyTo: ProcessId, pending: Pending): InferMessage {
  const { g, id } = pending.next();
  return {
    kind: 'infer',
    model: request.modelName,
    epoch,
    id,
    g,
    low: pending.low,
    // A sequence's steps are chained by these three once models that keep sequences are served.
    prev: 0,
    session: null,
    step: -1,
    sends: 1,
    msLeft: 0,
    replyTo,
    request,
  };
}

/** The first belief that differs from the epoch that was refused. */
function newerEpoch(refused: Epoch, beliefs: readonly (Epoch | undefined)[]): Epoch | undefined {
  return beliefs.find((belief) => belief !== undefined && compareEpochs(belief, refused) !== 0);
}

function failed(error: ErrorInfo): Outcome {
  return { ok: false, error };
}

function refusedSend(message: InferMessage, reason: RefusalReason): ErrorInfo {
  return reason === 'full' ? withRequestId(message.request, QUEUE_FULL) : ownerless(message.model);
}

function ownerless(model: string): ErrorInfo {
  return { code: 'UNAVAILABLE', message: `no coordinator owns model '${model}' now; try again in a few seconds` };
}

function decoupled(model: string): ErrorInfo {
  const message = `model '${model}' is decoupled: it may answer any number of times, infer waits for one answer`;
  return { code: 'UNSUPPORTED', message };
}
