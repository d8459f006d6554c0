import { checkRequest, type ModelRecord, type ModelSignature } from '@nereid/config';
import {
  CANCELLED,
  type CancelMessage,
  type CarriedRequest,
  compareEpochs,
  type Epoch,
  type ErrorInfo,
  firstKeeper,
  type InferMessage,
  modelNotFound,
  type ProcessId,
  STOPPING,
  senderOf,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { batchShapeKey } from '@nereid/scheduler';
import type { Directory, Mailbox } from '@nereid/transport';
import { allVersions, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import { refusedAnswer } from './refused-answer.ts';
import type { RunNotes } from './run-notes.ts';
import { chooseVersion, endReplaced, versionOfSequence } from './version-choice.ts';
import type { OwnedRequest } from './version-queue.ts';

export interface IntakeParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly stopping: () => boolean;
  /** A request has come into a queue of the model. */
  readonly arrived: (model: OwnedModel) => void;
  /** Stopping, and other coordinators go on with its models. */
  readonly handingOver: () => boolean;
  /** Stopping, and something that it waits for may wait for an inner call by that process. */
  readonly awaits: (caller: ProcessId) => boolean;
  /** Whether this coordinator is just taking the model's lease. */
  readonly taking: (model: string) => boolean;
  /** Roles are processes of their own. */
  readonly apart: boolean;
  /** What becomes of requests is noted there. */
  readonly notes: Pick<RunNotes, 'refused'>;
  /** Requests that are kept for a model that is being taken or loaded. */
  readonly early_max: number;
}

/** Takes requests from gateways: to the right queue, or back with the reason. */
export interface Intake {
  /** `job`: public id of the job that it is. */
  infer(message: InferMessage, job?: string): void;
  cancel(message: CancelMessage): void;
  /** The model is taken or loaded, or could not be: handles what came meanwhile. */
  taken(model: string): void;
  /** Ends a request in place of a worker. */
  answer(message: InferMessage, error: ErrorInfo): void;
  /** Messages that were meant for another owner or epoch. */
  readonly refused: number;
}

export function createIntake(parts: IntakeParts): Intake {
  const { id, clock, mailbox, directory, models } = parts;
  /** By model and id. */
  const early = new Map<string, Map<string, InferMessage>>();
  let refused = 0;

  /**
   * Whether requests for the model are to wait: gateways may know of a new owner before it does, and
   * what reaches one that still loads the model was sent while another owner served it.
   */
  const isEarly = ({ model, epoch }: InferMessage | CancelMessage): boolean => {
    const owned = models.get(model);
    if (owned === undefined) return epoch.owner === id && parts.taking(model);
    return owned.phase === 'loading' && compareEpochs(owned.epoch, epoch) === 0;
  };

  /** False where the message is to be handled now. */
  const keep = (message: InferMessage): boolean => {
    if (parts.stopping() || !isEarly(message)) return false;
    const kept = early.get(message.model) ?? new Map<string, InferMessage>();
    if (kept.size >= parts.early_max && !kept.has(message.id)) return false;
    early.set(message.model, kept.set(message.id, message));
    return true;
  };

  const answer = (message: InferMessage, error: ErrorInfo) => {
    mailbox.send(message.replyTo, refusedAnswer(id, message, error));
  };

  /** It came to no queue. */
  const refuse = (message: InferMessage, error: ErrorInfo) => {
    parts.notes.refused(message, error);
    answer(message, error);
  };

  const stale = (message: InferMessage | CancelMessage, known: Epoch | null) => {
    refused++;
    const { model } = message;
    const gateway = message.kind === 'infer' ? message.replyTo : senderOf(message.id);
    mailbox.send(gateway, { kind: 'stale', model, id: message.id, known });
  };

  /** The model, where the message was meant for this owner in its present epoch (R6). */
  const owned = (message: InferMessage | CancelMessage): OwnedModel | undefined => {
    const model = models.get(message.model);
    if (model !== undefined && compareEpochs(model.epoch, message.epoch) === 0) return model;
    const known = model?.epoch ?? directory.owner(message.model);
    // In one process nobody else can know it. Apart, a model without an owner is between two of them, and
    // where a Redis that began anew has no record either the gateway remembers it, or knows that it is gone.
    if (known === undefined && !parts.apart && message.kind === 'infer') refuse(message, modelNotFound(message.model));
    else stale(message, known ?? null);
    return undefined;
  };

  const queuedRequest = ({ signature }: OwnedVersion, message: InferMessage, job: string): OwnedRequest => {
    const { request } = message;
    const arrivedUs = clock.nowUs();
    return {
      id: message.id,
      rows: requestRows(signature, request),
      shapeKey: batchShapeKey(signature, request),
      arrivedUs,
      priority: Number(request.priority),
      timeoutUs: Number(request.timeoutUs),
      patient: message.replyTo === id,
      sender: message.replyTo,
      coming: message.coming ?? 0,
      sequence: undefined,
      near: firstKeeper(request.inputs),
      background: request.background === true,
      message,
      deadlineUs: message.msLeft > 0 ? arrivedUs + message.msLeft * 1000 : undefined,
      job,
      foundWaiting: 0,
      foundAhead: 0,
      foundRunning: 0,
    };
  };

  const intake: Intake = {
    answer,
    infer(message, job = '') {
      if (keep(message)) return;
      const model = owned(message);
      if (model === undefined) return;
      // A copy of what is queued or running is dropped; a finished id runs again (R25).
      for (const { queue } of allVersions(model)) if (queue?.takesCopy(message) === true) return;
      const isAwaited = message.request.inner !== undefined && parts.awaits(message.replyTo);
      if (parts.handingOver() && !isAwaited) {
        stale(message, null);
        return;
      }
      // A sequence goes on where it is, also while its version is ready nowhere else.
      const its = versionOfSequence(model, message);
      if (its !== undefined) {
        its.queue.arrive(queuedRequest(its.version, message, job));
        return;
      }
      if (parts.stopping() && !isAwaited) {
        refuse(message, STOPPING);
        return;
      }
      const choice = chooseVersion(model, message.request.modelVersion, parts.apart);
      if (!choice.ok) {
        refuse(message, choice.error);
        return;
      }
      const isSure = clock.nowUs() >= model.checksUntilUs;
      const unfit = isSure ? null : checkRequest(choice.version.signature, message.request);
      if (unfit !== null) {
        refuse(message, unfit);
        return;
      }
      endReplaced(model, message, choice);
      choice.queue.arrive(queuedRequest(choice.version, message, job));
      parts.arrived(model);
    },
    cancel(message) {
      const kept = early.get(message.model)?.get(message.id);
      if (kept !== undefined) {
        early.get(message.model)?.delete(message.id);
        refuse(kept, CANCELLED);
        return;
      }
      const model = owned(message);
      if (model === undefined) return;
      for (const { queue } of allVersions(model)) if (queue?.cancel(message) === true) break;
    },
    taken(model) {
      const kept = early.get(model);
      early.delete(model);
      for (const message of kept?.values() ?? []) intake.infer(message);
    },
    get refused() {
      return refused;
    },
  };
  return intake;
}

/** Rows that the request adds to a batch: its batch dimension, at least 1. */
function requestRows(signature: ModelSignature, request: CarriedRequest): number {
  return signature.maxBatchSize > 0 ? Math.max(1, request.inputs[0]?.shape[0] ?? 1) : 1;
}
