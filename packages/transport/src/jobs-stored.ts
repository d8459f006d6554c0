/** What BullMQ says of a job, as ours. */
import { WALL_MS_MAX } from '@nereid/protocol';
import { Job, type JobsOptions } from 'bullmq';
import type { JobState, StoredJob } from './jobs.ts';
import type { JobEnd } from './jobs-events.ts';

export function isOver(state: JobState): boolean {
  return state === 'completed' || state === 'failed';
}

/** What `moveToCompleted` leaves in a job, and what takes it back to the queue removes. Null may be a result too. */
export function hasResult(job: Job): boolean {
  return job.finishedOn !== undefined && job.returnvalue !== null;
}

/** The state of a job that is not over, without a look at where it stands. */
export function likelyState(job: Job): JobState {
  if (job.processedOn !== undefined) return 'running';
  return job.delay > 0 ? 'delayed' : 'waiting';
}

export function endedJob(model: string, id: string, job: Job, end: JobEnd): StoredJob {
  const before = storedJob(model, id, end.state, job);
  return end.state === 'completed'
    ? { ...before, result: end.result, finishedMs: end.atMs }
    : { ...before, failedReason: end.failedReason, finishedMs: end.atMs };
}

export function storedJob(model: string, id: string, state: JobState, job: Job): StoredJob {
  return {
    model,
    id,
    state,
    data: job.data,
    result: job.returnvalue,
    progress: toldProgress(job.progress),
    failedReason: job.failedReason,
    createdMs: createdMsOf(job),
    startedMs: job.processedOn,
    finishedMs: job.finishedOn,
    attemptsMade: job.attemptsMade,
    attemptsMax: Math.max(1, Number(job.opts.attempts) || 1),
  };
}

/** A job's options as BullMQ keeps them; none where whoever wrote them wrote no JSON object. */
export function optionsOf(json: string | null): JobsOptions {
  try {
    return Job.optsFromJSON(json ?? '{}');
  } catch {
    return {};
  }
}

/** A producer may have written anything as the job's time, and what is none would spoil the list that the job is in. */
export function createdMsOf({ timestamp }: Pick<Job, 'timestamp'>): number {
  return Math.abs(timestamp) <= WALL_MS_MAX ? timestamp : 0;
}

/** BullMQ has 0 for none. */
function toldProgress(progress: unknown): unknown {
  return progress === 0 ? undefined : progress;
}

/** BullMQ's states of jobs that wait are many, and one is `unknown` while a job moves. */
export function jobState(state: string): JobState {
  switch (state) {
    case 'active':
      return 'running';
    case 'completed':
    case 'failed':
    case 'delayed':
      return state;
    default:
      return 'waiting';
  }
}
