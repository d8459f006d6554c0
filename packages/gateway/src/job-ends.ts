import type { ErrorInfo } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { type JobQueues, parsePublicJobId, publicJobId, type StoredJob } from '@nereid/transport';
import { isOver } from './job-state.ts';
import type { Result } from './result.ts';

/** What became of a job that is not wanted any more. */
export type DroppedJob =
  | { readonly how: 'removed' }
  /** Or it ended first, as it says. */
  | { readonly how: 'cancelled'; readonly job: StoredJob };

/** Only the one of both, where a client has to be sure. */
export type DropOnly = 'cancel' | 'remove';

/** Ends and begins jobs anew for their clients. */
export interface JobEnds {
  /**
   * Cancels a job that is not over, else removes it. NOT_FOUND where there is none; INVALID_ARG where it is in no state
   * for what alone is asked for. Rejects with UNAVAILABLE where Redis does not answer.
   */
  drop(publicId: string, only: DropOnly | undefined, signal?: AbortSignal): Promise<Result<DroppedJob>>;
  /** Runs a failed or cancelled job anew, its attempts counted from 0. As above. */
  retry(publicId: string): Promise<Result<StoredJob>>;
}

export interface JobEndsParts {
  readonly queues: Pick<JobQueues, 'find' | 'wait' | 'changes'>;
  readonly clock: Clock;
  /** Tells the model's owner that a running job is cancelled. */
  readonly cancelJob: (model: string, id: string) => void;
}

/** How long a running job's owner is waited for, and how often it is told: it or a message may be lost. */
const OWNER_WAIT_MS = 500;
const TELLS_MAX = 2;

export function createJobEnds({ queues, clock, cancelJob }: JobEndsParts): JobEnds {
  /** Tells its owner until the job is over; one that does not hear it leaves the job to whoever takes it next. */
  const endRunning = async (marked: StoredJob, signal: AbortSignal | undefined): Promise<StoredJob | undefined> => {
    const { model, id } = marked;
    let job: StoredJob | undefined = marked;
    for (let told = 0; job?.state === 'running' && told < TELLS_MAX && signal?.aborted !== true; told++) {
      cancelJob(model, id);
      job = await queues.wait(model, id, OWNER_WAIT_MS, signal);
    }
    return job;
  };

  const cancel = async (job: StoredJob, signal: AbortSignal | undefined): Promise<Result<DroppedJob>> => {
    const marked = await queues.changes.cancel(job.model, job.id);
    const left = marked && (await endRunning(marked, signal));
    return left === undefined ? { ok: false, error: unknownJob(idOf(job)) } : done({ how: 'cancelled', job: left });
  };

  const found = async (publicId: string): Promise<StoredJob | undefined> => {
    const known = parsePublicJobId(publicId);
    return known === undefined ? undefined : queues.find(known.model, known.id);
  };

  return {
    async drop(publicId, only, signal) {
      const job = await found(publicId);
      if (job === undefined) return { ok: false, error: unknownJob(publicId) };
      if (!isOver(job))
        return only === 'remove' ? wrongState(job, 'only one that is over is removed; cancel it') : cancel(job, signal);
      if (only === 'cancel') return wrongState(job, 'there is nothing to cancel');
      if (await queues.changes.remove(job.model, job.id)) return done({ how: 'removed' });
      return wrongState(job, 'it has begun anew, or it is of a job scheduler, and is not removed');
    },
    async retry(publicId) {
      const job = await found(publicId);
      if (job === undefined) return { ok: false, error: unknownJob(publicId) };
      if (job.state !== 'failed') return wrongState(job, 'only one that has failed or was cancelled is run anew');
      if (isLate(job, clock.wallMs())) return wrongState(job, 'its deadline is over; submit it anew');
      const retried = await queues.changes.retry(job.model, job.id);
      return retried === undefined ? { ok: false, error: unknownJob(publicId) } : done(retried);
    },
  };
}

export function unknownJob(publicId: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `job '${publicId}' is not found`, field: 'id' };
}

function idOf({ model, id }: StoredJob): string {
  return publicJobId(model, id);
}

function done<T>(value: T): Result<T> {
  return { ok: true, value };
}

function wrongState(job: StoredJob, text: string): { readonly ok: false; readonly error: ErrorInfo } {
  const state = isOver(job) ? `has ${job.state === 'failed' ? 'failed' : 'completed'}` : `is ${job.state}`;
  return { ok: false, error: { code: 'INVALID_ARG', message: `job '${idOf(job)}' ${state}: ${text}`, field: 'state' } };
}

function isLate({ data, createdMs }: StoredJob, wallMs: number): boolean {
  const deadlineMs = (data as { readonly deadline_ms?: unknown } | null)?.deadline_ms;
  return typeof deadlineMs === 'number' && createdMs + deadlineMs <= wallMs;
}
