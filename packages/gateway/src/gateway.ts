import type { ModelRecord } from '@nereid/config';
import { type InferRequest, type Message, type Outcome, type ProcessId, STOPPING } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Directory, Transport } from '@nereid/transport';
import { createInfer } from './infer.ts';
import { createModelLookups, type ModelLookup } from './model-lookup.ts';
import { createPending } from './pending.ts';

export interface GatewayLimits {
  /** Requests that wait for an answer at a time; one more is refused with 503. */
  readonly requests_pending_max: number;
}

export interface GatewayOptions {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly log: Log;
  readonly limits: GatewayLimits;
  /** True (the default): ready only while every model is. False: ready from the start until it stops. */
  readonly strictReadiness?: boolean;
}

/**
 * Holds the requests that somebody waits for: checks them, sends them to the model's owner and
 * hands each its one outcome. HTTP, gRPC and the in-process API are thin edges around it.
 *
 * It is *serving* until `drain`, then *stopping* (not ready, new requests refused, running ones
 * finish) until `close` has failed what is left, then *closed*.
 */
export interface Gateway {
  /** Never rejects: what goes wrong is an outcome. `signal` cancels the request wherever it is. */
  infer(request: InferRequest, signal?: AbortSignal): Promise<Outcome>;
  live(): boolean;
  ready(): boolean;
  /** `version` is decimal, or '' for the greatest READY one. */
  modelReady(name: string, version: string): boolean;
  /** A READY version with its record, or Triton's error for it. */
  model(name: string, version?: string): ModelLookup;
  /** No longer ready, and refuses new requests; those it holds go on. Idempotent. */
  drain(): void;
  /** Drains, waits so long for the requests it holds, then fails those left. Idempotent. */
  close(deadlineMs?: number): Promise<void>;
  /** Requests without an outcome. */
  readonly waiting: number;
}

const STOPPED: Outcome = { ok: false, error: STOPPING };

const SEQUENCE_LOST: Outcome = {
  ok: false,
  error: {
    code: 'INVALID_ARG',
    message: 'the sequence of this request is over or held elsewhere; start it anew under a new sequence id',
    reason: 'sequence_lost',
  },
};

export function createGateway(options: GatewayOptions): Gateway {
  const { id, clock, directory, log } = options;
  const pending = createPending(id, options.limits.requests_pending_max);
  const models = createModelLookups(directory);
  const mailbox = options.transport.open(id, (messages) => {
    for (const message of messages) take(message);
  });
  const infer = createInfer({ id, mailbox, directory, models, pending });
  let stopping = false;
  let closing: Promise<void> | undefined;
  let closed = false;

  const take = (message: Message) => {
    switch (message.kind) {
      case 'response':
        if (!pending.settle(message.id, message.outcome)) log.trace({ id: message.id }, 'answer without a waiter');
        break;
      case 'stale':
        infer.stale(message);
        break;
      case 'moved':
        pending.settle(message.id, SEQUENCE_LOST);
        break;
      default:
        log.warn({ kind: message.kind }, 'message that no gateway takes');
    }
  };

  const stop = async (deadlineMs: number) => {
    stopping = true;
    if (pending.size > 0 && deadlineMs > 0) {
      let timer: Timer | undefined;
      await new Promise<void>((resolve) => {
        pending.whenEmpty(resolve);
        timer = clock.at(clock.nowUs() + deadlineMs * 1000, resolve);
      });
      timer?.cancel();
    }
    closed = true;
    pending.settleAll(STOPPED);
    await mailbox.close();
  };

  return {
    infer(request, signal) {
      if (stopping) return Promise.resolve(STOPPED);
      const error = infer.refusal(request);
      return error === null ? infer.submit(request, signal) : Promise.resolve({ ok: false, error });
    },
    live: () => !closed,
    ready: () => !stopping && (options.strictReadiness === false || models.allReady()),
    modelReady: (name, version) => !stopping && models.ready(name, version),
    model: (name, version = '') => models.find(name, version),
    drain() {
      stopping = true;
    },
    close(deadlineMs = 0) {
      closing ??= stop(deadlineMs);
      return closing;
    },
    get waiting() {
      return pending.size;
    },
  };
}
