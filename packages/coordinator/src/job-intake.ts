import {
  type BatchTiming,
  type CancelJobMessage,
  type ErrorInfo,
  failedReason,
  isJobCancelled,
  isWholeOutcome,
  JOB_CANCELLED,
  type MissingMessage,
  type Outcome,
  type ProcessId,
  QUEUE_TIMEOUT,
  type ResponseMessage,
  runJson,
  senderOf,
  sequenceLost,
} from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { type JobQueues, type LargeTensors, publicJobId, type TakenJob } from '@nereid/transport';
import { endSequence } from './answer-sequences.ts';
import { createComingCancels } from './coming-cancels.ts';
import { type HeldJob, heldJob, isQueued, type ServedModel } from './held-job.ts';
import type { Intake } from './intake.ts';
import { readJob, resultOf, sequenceOf } from './job-request.ts';
import { countedIdentity, createJobSteps, runsSteps, type StepIdentity, stepVerdict } from './job-steps.ts';
import { type JobStream, progressOf, streamUnwritten } from './job-stream.ts';
import { type JobVerdict, jobVerdict } from './job-verdict.ts';
import { liveRun } from './live-runs.ts';
import { allDescribed, type OwnedModel } from './owned-model.ts';
import type { RunNotes } from './run-notes.ts';

export interface JobIntakeParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly queues: JobQueues;
  readonly intake: Pick<Intake, 'infer' | 'cancel'>;
  readonly notes: Pick<RunNotes, 'of'>;
  /** Undefined where messages are passed by reference. */
  readonly largeTensors: LargeTensors | undefined;
  readonly stopping: () => boolean;
  /** How long a request that no queue knows may be without its answer. */
  readonly answerWaitMs: number;
}

/**
 * Brings the jobs of owned models into the queues where requests wait, so that both share batches.
 *
 * A job is *taken* under a lock, which its taker renews; read and checked as its HTTP body would be,
 * and failed at once where it is wrong; then *held*: an infer request whose answer is to come to this
 * coordinator's own mailbox. The answer ends the job in Redis. The worker sends it before `done`; where
 * it was lost, the queue forgets the request and the job stays held, so whatever no queue knows for a
 * while is put into the queue again (docs/protocol.md R33). A job leaves without an outcome when its
 * lock is lost or the model is given up: then its next owner runs it. Jobs that are steps are taken once every worker
 * has said what it has: before, a sequence of which one is lost is not known and cannot be ended. Of a decoupled model
 * each answer is written as the job's progress when it comes, and the last one ends it (job-stream.ts).
 */
export interface JobIntake {
  /** Takes the model's jobs from now until the returned function is called; held ones then go back. */
  serve(model: OwnedModel): () => void;
  /** An answer to this coordinator. */
  response(message: ResponseMessage): void;
  /** A client cancels a job: where it is held here, it fails, and what still waits for it is taken out. */
  cancel(message: CancelJobMessage): void;
  /** A worker did not find a job's tensors. */
  missing(message: MissingMessage): void;
  /** Resolves once every job is ended or back. Idempotent. */
  close(): Promise<void>;
  /** Jobs without an outcome. */
  readonly held: number;
}

/** Requests of a version that may wait before no more jobs are taken; at least two batches. */
const WAITING_MAX = 16;
const WAITING_BATCHES_MAX = 2;
/** A job that cannot run now is tried again after this, which counts no attempt. */
const LATER_MS = 500;
/** A job whose answers get lost so often has failed. */
const SENDS_MAX = 5;

const ANSWER_LOST: ErrorInfo = { code: 'INTERNAL', message: `the answer was lost ${SENDS_MAX} times` };

export function createJobIntake(parts: JobIntakeParts): JobIntake {
  const { id: self, clock, log, intake, answerWaitMs } = parts;
  const models = new Set<ServedModel>();
  const steps = createJobSteps();
  const coming = createComingCancels(parts);
  /** Held jobs by the id of their request, oldest first. */
  const requests = new Map<string, HeldJob>();
  const closings = new Set<Promise<void>>();
  let lastG = 0;
  let sweeping: Timer | undefined;

  const room = (served: ServedModel): number => {
    const { model, jobs } = served;
    if (parts.stopping() || model.phase !== 'serving') return 0;
    if (!model.versions.some(({ state }) => state === 'READY')) return 0;
    if (runsSteps(model) && (model.settling || !allDescribed(model))) return 0;
    const waiting = model.versions.reduce((sum, { queue }) => sum + (queue?.waiting ?? 0), 0);
    const waitingMax = Math.max(WAITING_MAX, WAITING_BATCHES_MAX * model.signature.maxBatchSize);
    // One is always taken, so that a busy model's jobs go on too.
    return Math.max(jobs.size === 0 ? 1 : 0, waitingMax - waiting);
  };

  const taken = (served: ServedModel, job: TakenJob): boolean => {
    if (parts.stopping() || served.model.phase !== 'serving' || !models.has(served)) return false;
    const isCancelled = coming.takes(served.model.name, job.id) || isJobCancelled(job.data);
    const unrun = isCancelled ? failedReason(JOB_CANCELLED) : job.deferredFailure;
    if (unrun !== undefined) {
      endSteps(served.model, sequenceOf(served.model, job.data));
      ended(served.taker.fail(job.id, unrun, false));
      return true;
    }
    const read = readJob(served.model, job.data, job.blobs);
    if (!read.ok) {
      ended(served.taker.fail(job.id, failedReason(read.error), false));
      return true;
    }
    const { decoded } = read;
    const { name } = served.model;
    const { correlationId } = decoded.request;
    const isStep = runsSteps(served.model);
    if (isStep && steps.taken(name, job, decoded.sequenceIndex)) {
      endSequence(served.model, correlationId);
      ended(served.taker.fail(job.id, failedReason(sequenceLost(name, correlationId)), false));
      return true;
    }
    const identity = (isStep ? countedIdentity(name, job.id) : undefined) ?? nextIdentity();
    const held = heldJob({ served, job, decoded, isStep, identity, replyTo: self });
    served.jobs.set(job.id, held);
    requests.set(held.message.id, held);
    schedule(held);
    return true;
  };

  const nextIdentity = (): StepIdentity => {
    const g = ++lastG;
    for (const { message } of requests.values()) {
      // Steps that BullMQ has counted are not this owner's.
      if (senderOf(message.id) === self) return { id: `${self}:${g}`, g, low: message.g };
    }
    return { id: `${self}:${g}`, g, low: g };
  };

  /** Puts the job's request into its version's queue. */
  const schedule = (held: HeldJob) => {
    const msLeft = Math.ceil(held.deadlineWallMs - clock.wallMs());
    if (msLeft <= 0) {
      if (held.isStep) endSequence(held.served.model, held.message.request.correlationId);
      settle(held, { ok: false, error: QUEUE_TIMEOUT });
      return;
    }
    held.unknownSinceUs = undefined;
    held.message = {
      ...held.message,
      epoch: held.served.model.epoch,
      sends: held.message.sends + 1,
      msLeft: Number.isFinite(msLeft) ? msLeft : 0,
    };
    intake.infer(held.message, publicJobId(held.message.model, held.id));
  };

  const forget = (held: HeldJob) => {
    parts.largeTensors?.release(held.message.request.inputs);
    requests.delete(held.message.id);
    held.served.jobs.delete(held.id);
  };

  /** What stays with the job of this run. */
  const noteOf = ({ served, message }: HeldJob, outcome: Outcome, timing: BatchTiming | undefined) => {
    const error = outcome.ok ? null : outcome.error;
    const end = {
      state: outcome.ok ? 'ok' : 'error',
      error,
      ...(timing === undefined ? {} : { done: { timing } }),
    } as const;
    const run = parts.notes.of(message.id, liveRun(served.model, message.id), end);
    return run && JSON.stringify(runJson(run));
  };

  const settle = (held: HeldJob, outcome: Outcome, timing?: BatchTiming) => {
    const { id, served, decoded } = held;
    const { taker, model } = served;
    const note = noteOf(held, outcome, timing);
    forget(held);
    const refOf = (index: number) => parts.queues.payloads.outputRef(model.name, id, index);
    const result = outcome.ok ? resultOf(outcome, decoded, model, refOf) : outcome;
    if (result.ok) {
      steps.over(model.name, id);
      ended(taker.complete(id, result.value, note, result.beside));
      return;
    }
    const { error } = result;
    const verdict = verdictOf(held, error);
    log.debug({ job: id, model: model.name, err: error, verdict }, 'job failed');
    if (verdict === 'later') {
      if (held.isStep) steps.waits(model.name, id, clock.nowUs());
      ended(taker.putBack(id, LATER_MS));
      return;
    }
    steps.over(model.name, id);
    ended(taker.fail(id, failedReason(error), verdict === 'retry', note));
  };

  const verdictOf = (held: HeldJob, error: ErrorInfo): JobVerdict => {
    const { name } = held.served.model;
    const late = clock.wallMs() >= held.deadlineWallMs;
    if (!held.isStep) return jobVerdict(error, name, late);
    const { step: index, request } = held.message;
    const waitedUs = steps.waitedUs(name, held.id, clock.nowUs());
    return stepVerdict(error, { model: name, correlationId: request.correlationId, index, waitedUs, late });
  };

  /** The taker repeats until Redis has answered, and says in the log what went wrong. */
  const ended = (step: Promise<void>) => {
    step.catch((error) => log.error({ err: error }, 'job not ended'));
  };

  const sweep = () => {
    const nowUs = clock.nowUs();
    for (const held of [...requests.values()]) {
      if (isQueued(held)) held.unknownSinceUs = undefined;
      else if (held.unknownSinceUs === undefined) held.unknownSinceUs = nowUs;
      else if (nowUs - held.unknownSinceUs >= answerWaitMs * 1000) resend(held);
    }
    for (const { taker } of models) taker.more();
    sweeping = clock.at(nowUs + answerWaitMs * 1000, sweep);
  };

  const resend = (held: HeldJob) => {
    const { id, served, message } = held;
    if (parts.stopping()) {
      forget(held);
      ended(served.taker.putBack(id, 0));
      return;
    }
    log.warn(
      { job: id, model: served.model.name, sends: message.sends },
      'a job is run again: its answer, or its tensors, were lost',
    );
    if (held.message.sends >= SENDS_MAX) settle(held, { ok: false, error: ANSWER_LOST });
    else schedule(held);
  };

  /** Another may run the job now: whatever still waits for it here is taken out. */
  const lost = (served: ServedModel, id: string) => {
    const held = served.jobs.get(id);
    if (held === undefined) return;
    forget(held);
    // A step that is cancelled ends its sequence, while whoever takes its job again names the same step.
    if (!held.isStep) takeOut(held);
  };

  /** Whatever still comes for it here is an answer without a job. */
  const takeOut = ({ served, message }: HeldJob) => {
    const { model, id, g, low, session } = message;
    // The epoch may have risen since the request was put in.
    intake.cancel({ kind: 'cancel', model, epoch: served.model.epoch, id, g, low, session });
  };

  /** Each answer of a decoupled model is the job's progress, and the last one its result. */
  const streamed = (held: HeldJob, stream: JobStream, message: ResponseMessage) => {
    const { served, decoded } = held;
    const { answer, end, isBroken } = stream.take(message);
    if (answer !== undefined) {
      const { value, bytes } = progressOf(answer, decoded, served.model);
      if (!served.taker.progress(held.id, value, bytes)) {
        takeOut(held);
        settle(held, { ok: false, error: streamUnwritten(message.model) });
        return;
      }
    }
    if (isBroken) takeOut(held);
    if (end !== undefined) settle(held, end, message.timing);
  };

  /** False where the job is not held here. */
  const cancelHeld = ({ model, id }: CancelJobMessage): boolean => {
    const held = servedModel(model)?.jobs.get(id);
    if (held === undefined) return false;
    const { served, message } = held;
    const note = noteOf(held, { ok: false, error: JOB_CANCELLED }, undefined);
    forget(held);
    takeOut(held);
    // Whether or not its queue still knew the request.
    endSteps(served.model, message.request.correlationId);
    steps.over(model, id);
    ended(served.taker.fail(id, failedReason(JOB_CANCELLED), false, note));
    return true;
  };

  const servedModel = (name: string) => [...models].find(({ model }) => model.name === name);

  /** A sequence of which a step is left out is over. */
  const endSteps = (model: OwnedModel, correlationId: bigint | string) => {
    if (runsSteps(model)) endSequence(model, correlationId);
  };

  const drop = (served: ServedModel) => {
    if (!models.delete(served)) return;
    for (const held of [...served.jobs.values()]) forget(held);
    const closing = served.taker.close().catch((error) => log.error({ err: error }, 'jobs not given back'));
    closings.add(closing);
    void closing.then(() => closings.delete(closing));
    if (models.size > 0) return;
    sweeping?.cancel();
    sweeping = undefined;
  };

  return {
    serve(model) {
      const jobs = new Map<string, HeldJob>();
      const taker = parts.queues.take(model.name, {
        by: self,
        token: () => `${self}:${model.epoch.number}`,
        room: () => room(served),
        taken: (job) => taken(served, job),
        lost: (id) => lost(served, id),
      });
      const served: ServedModel = { model, taker, jobs };
      models.add(served);
      sweeping ??= clock.at(clock.nowUs() + answerWaitMs * 1000, sweep);
      return () => drop(served);
    },
    response(message) {
      const held = requests.get(message.id);
      if (held === undefined) {
        log.trace({ id: message.id }, 'answer without a job');
        return;
      }
      const { outcome } = message;
      if (held.stream !== undefined) {
        streamed(held, held.stream, message);
        return;
      }
      // One whose outputs were lost is none: as long as its queue has not heard of the end, the sweep runs it again.
      if (isWholeOutcome(outcome)) settle(held, outcome, message.timing);
      else if (!isQueued(held)) resend(held);
    },
    cancel(message) {
      if (cancelHeld(message) || servedModel(message.model) === undefined) return;
      coming.expect(message, () => cancelHeld(message));
    },
    missing(message) {
      const held = requests.get(message.id);
      if (held === undefined || isQueued(held)) return;
      parts.largeTensors?.rewrite(held.message.request.inputs);
      resend(held);
    },
    async close() {
      for (const served of [...models]) drop(served);
      await Promise.all(closings);
    },
    get held() {
      return requests.size;
    },
  };
}
