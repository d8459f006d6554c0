/** A job as clients see it. */
import { type ErrorInfo, isStreamProgress, JOB_CANCELLED, parseFailedReason } from '@nereid/protocol';
import { publicJobId, type StoredJob } from '@nereid/transport';
import { jobTagsOf, publicState } from './job-state.ts';
import { type JobExpiry, jobVersion, requestIdOf } from './jobs.ts';
import { timeText } from './time-text.ts';

export function jobUrl({ model, id }: StoredJob): string {
  return `/v2/jobs/${publicJobId(model, id)}`;
}

/** What only some answers tell of a job. */
export interface JobDetails {
  /** Waiting jobs that would be taken before it. */
  readonly position?: number | undefined;
  /** Of the batch that it ran in last. */
  readonly worker?: string | undefined;
  readonly batchSize?: number | undefined;
}

/** What is not known is absent: JSON leaves undefined members out. */
export function jobJson(job: StoredJob, expiry: JobExpiry | undefined, details: JobDetails = {}) {
  const state = publicState(job, expiry);
  const failure = failureOf(job, state === 'cancelled');
  const tags = jobTagsOf(job);
  const version = jobVersion(job);
  const requestId = requestIdOf(job);
  return {
    id: publicJobId(job.model, job.id),
    model_name: job.model,
    model_version: version === '' ? undefined : version,
    state,
    created_at: timeText(job.createdMs),
    started_at: timeText(job.startedMs),
    finished_at: timeText(job.finishedMs),
    attempts_made: job.attemptsMade,
    attempts_max: job.attemptsMax,
    progress: progressJson(job.progress),
    position: details.position,
    tags: tags.length === 0 ? undefined : tags,
    error: failure === undefined ? undefined : { code: failure.code, message: failure.message },
    result_url: `${jobUrl(job)}/result`,
    expires_at: timeText(expiry?.atMs),
    batch_size: details.batchSize,
    worker: details.worker,
    request_id: requestId === '' ? undefined : requestId,
  };
}

function failureOf({ state, failedReason }: StoredJob, isCancelled: boolean): ErrorInfo | undefined {
  if (state === 'failed') return parseFailedReason(failedReason ?? '');
  return isCancelled ? JOB_CANCELLED : undefined;
}

/** Of a stream how many answers there were: their outputs are for who follows it. */
function progressJson(progress: unknown): unknown {
  return isStreamProgress(progress) ? { n: progress.n } : progress;
}
