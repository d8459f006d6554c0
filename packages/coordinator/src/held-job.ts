import type { DecodedJob, InferMessage, ProcessId } from '@nereid/protocol';
import type { JobTaker, TakenJob } from '@nereid/transport';
import type { StepIdentity } from './job-steps.ts';
import { createJobStream, type JobStream } from './job-stream.ts';
import { allVersions, type OwnedModel } from './owned-model.ts';

/** A model whose jobs are taken. */
export interface ServedModel {
  readonly model: OwnedModel;
  readonly taker: JobTaker;
  /** Held jobs by BullMQ's id. */
  readonly jobs: Map<string, HeldJob>;
}

/** A job whose request is with the scheduler, or on its way there. */
export interface HeldJob {
  readonly id: string;
  readonly served: ServedModel;
  readonly decoded: DecodedJob;
  /** Of a sequence. */
  readonly isStep: boolean;
  readonly deadlineWallMs: number;
  /** Of a decoupled model. */
  readonly stream: JobStream | undefined;
  message: InferMessage;
  /** Since when no queue knows the request. */
  unknownSinceUs: number | undefined;
}

export interface HeldJobParts {
  readonly served: ServedModel;
  readonly job: TakenJob;
  readonly decoded: DecodedJob;
  readonly isStep: boolean;
  readonly identity: StepIdentity;
  readonly replyTo: ProcessId;
}

/** The job, held; its request is not sent yet. */
export function heldJob({ served, job, decoded, isStep, identity, replyTo }: HeldJobParts): HeldJob {
  const { deadlineMs, request, sequenceIndex } = decoded;
  const { name, epoch, signature } = served.model;
  return {
    id: job.id,
    served,
    decoded,
    isStep,
    deadlineWallMs: deadlineMs === 0 ? Number.POSITIVE_INFINITY : job.createdMs + deadlineMs,
    stream: signature.decoupled ? createJobStream(name) : undefined,
    message: {
      kind: 'infer',
      model: name,
      epoch,
      ...identity,
      prev: 0,
      session: isStep && request.sequenceStart ? identity.id : null,
      step: isStep ? sequenceIndex : -1,
      // One that was taken before may be at a worker (docs/protocol.md R9).
      sends: isStep && job.starts > 1 ? 1 : 0,
      msLeft: 0,
      replyTo,
      request,
    },
    unknownSinceUs: undefined,
  };
}

/** Whether a queue of its model knows its request. */
export function isQueued({ served, message }: HeldJob): boolean {
  return allVersions(served.model).some(({ queue }) => queue?.knows(message.id) === true);
}
