import type { ModelRecord, ModelSignature } from '@nereid/config';
import {
  type CancelMessage,
  compareEpochs,
  type Epoch,
  type ErrorInfo,
  type InferMessage,
  type InferRequest,
  type ProcessId,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { batchShapeKey } from '@nereid/scheduler';
import type { Directory, Mailbox } from '@nereid/transport';
import type { OwnedModel } from './owned-model.ts';
import { modelNotFound, STOPPING } from './request-error.ts';
import { chooseVersion } from './version-choice.ts';

export interface IntakeParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly stopping: () => boolean;
}

/** Takes requests from gateways: to the right queue, or back with the reason. */
export interface Intake {
  infer(message: InferMessage): void;
  cancel(message: CancelMessage): void;
  /** Ends a request in place of a worker. */
  answer(message: InferMessage, error: ErrorInfo): void;
}

export function createIntake(parts: IntakeParts): Intake {
  const { id, clock, mailbox, directory, models } = parts;

  const answer = (message: InferMessage, error: ErrorInfo) => {
    mailbox.send(message.replyTo, {
      kind: 'response',
      model: message.model,
      id: message.id,
      outcome: { ok: false, error },
      // No execution has this name, so a gateway never takes it for a chunk of one.
      execution: `${id}/refused`,
      chunk: 0,
      last: true,
    });
  };

  const stale = (message: InferMessage | CancelMessage, known: Epoch | null) => {
    const { model } = message;
    const gateway = message.kind === 'infer' ? message.replyTo : gatewayOf(message.id);
    mailbox.send(gateway, { kind: 'stale', model, id: message.id, known });
  };

  /** The model, where the message was meant for this owner in its present epoch (R6). */
  const owned = (message: InferMessage | CancelMessage): OwnedModel | undefined => {
    const model = models.get(message.model);
    if (model !== undefined && compareEpochs(model.epoch, message.epoch) === 0) return model;
    const known = model?.epoch ?? directory.owner(message.model);
    if (known === undefined && message.kind === 'infer') answer(message, modelNotFound(message.model));
    else stale(message, known ?? null);
    return undefined;
  };

  return {
    answer,
    infer(message) {
      const model = owned(message);
      if (model === undefined) return;
      // A copy of what is queued or running is dropped; a finished id runs again (R25).
      if (model.versions.some(({ queue }) => queue?.knows(message.id) === true)) return;
      if (parts.stopping()) {
        answer(message, STOPPING);
        return;
      }
      const { request } = message;
      const choice = chooseVersion(model, request.modelVersion);
      if (!choice.ok) {
        answer(message, choice.error);
        return;
      }
      const arrivedUs = clock.nowUs();
      choice.queue.arrive({
        id: message.id,
        rows: requestRows(model.signature, request),
        shapeKey: batchShapeKey(model.signature, request),
        arrivedUs,
        message,
        deadlineUs: message.msLeft > 0 ? arrivedUs + message.msLeft * 1000 : undefined,
      });
    },
    cancel(message) {
      const model = owned(message);
      for (const { queue } of model?.versions ?? []) if (queue?.cancel(message) === true) break;
    },
  };
}

/** Rows that the request adds to a batch: its batch dimension, at least 1. */
function requestRows(signature: ModelSignature, request: InferRequest): number {
  return signature.maxBatchSize > 0 ? Math.max(1, request.inputs[0]?.shape[0] ?? 1) : 1;
}

/** Request ids are `{gateway id}:{g}`. */
function gatewayOf(requestId: string): ProcessId {
  return requestId.slice(0, requestId.lastIndexOf(':'));
}
