/** A job as clients see it. */
import { parseFailedReason } from '@nereid/protocol';
import { publicJobId, type StoredJob } from '@nereid/transport';
import { type JobExpiry, jobVersion, requestIdOf } from './jobs.ts';

export function jobUrl({ model, id }: StoredJob): string {
  return `/v2/jobs/${publicJobId(model, id)}`;
}

/** What is not known is absent: JSON leaves undefined members out. */
export function jobJson(job: StoredJob, expiry: JobExpiry | undefined) {
  const failure = job.state === 'failed' ? parseFailedReason(job.failedReason ?? '') : undefined;
  const version = jobVersion(job);
  const requestId = requestIdOf(job);
  return {
    id: publicJobId(job.model, job.id),
    model_name: job.model,
    model_version: version === '' ? undefined : version,
    state: expiry?.over === true ? 'expired' : job.state,
    created_at: time(job.createdMs),
    started_at: time(job.startedMs),
    finished_at: time(job.finishedMs),
    attempts_made: job.attemptsMade,
    attempts_max: job.attemptsMax,
    error: failure === undefined ? undefined : { code: failure.code, message: failure.message },
    result_url: `${jobUrl(job)}/result`,
    expires_at: time(expiry?.atMs),
    request_id: requestId === '' ? undefined : requestId,
  };
}

/** RFC 3339, UTC. */
function time(wallMs: number | undefined): string | undefined {
  return wallMs === undefined ? undefined : new Date(wallMs).toISOString();
}
