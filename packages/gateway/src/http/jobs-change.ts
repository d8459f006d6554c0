import type { ErrorInfo } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { DropOnly } from '../job-ends.ts';
import { jobJson } from '../job-json.ts';
import { JOBS_LISTED_MAX } from '../job-pages.ts';
import { PUBLIC_JOB_STATES, type PublicJobState } from '../job-state.ts';
import { sendJson } from './errors.ts';
import { answer, askedJob, type JobRouteContext, jobsOf, refuse, sendJob } from './jobs-answer.ts';
import { limitOf, readQuery, wrongQuery } from './query.ts';

export const CONFLICT_STATUS = 409;

/** DELETE /v2/jobs/{id}[?only=cancel|remove]: the job, cancelled; 204 where it was over, and is removed. */
export function dropJob(context: JobRouteContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id, signal } = askedJob(context, request);
    const { only } = readQuery(request, ['only']);
    const dropped = await jobs.drop(id, dropOnly(only), signal);
    if (!dropped.ok) refuse(context, reply, dropped.error, conflictStatus(dropped.error));
    else if (dropped.value.how === 'cancelled') sendJob(context, reply, dropped.value.job);
    else reply.code(204).send();
  });
}

/** POST /v2/jobs/{id}/retry: a failed or cancelled job runs anew. */
export function retryJob(context: JobRouteContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id } = askedJob(context, request);
    const retried = await jobs.retry(id);
    if (!retried.ok) {
      refuse(context, reply, retried.error, conflictStatus(retried.error));
      return;
    }
    reply.code(202);
    sendJob(context, reply, retried.value);
  });
}

/** GET /v2/jobs[?model=&state=&tag=&limit=&after=]: `next` goes into `after` for those behind. */
export function listJobs(context: JobRouteContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const jobs = jobsOf(context);
    const query = readQuery(request, ['model', 'state', 'tag', 'limit', 'after']);
    const page = await jobs.list({
      model: query.model ?? '',
      state: stateOf(query.state),
      tag: query.tag ?? '',
      limit: limitOf(query.limit, JOBS_LISTED_MAX),
      after: query.after ?? '',
    });
    if (context.closing()) reply.header('Connection', 'close');
    const listed = page.jobs.map((job) => jobJson(job, jobs.expiry(job)));
    sendJson(reply, JSON.stringify({ jobs: listed, next: page.next }));
  });
}

/** A job that is there, in another state than is needed. */
function conflictStatus({ code }: ErrorInfo): number | undefined {
  return code === 'INVALID_ARG' ? CONFLICT_STATUS : undefined;
}

export function dropOnly(text: string | undefined): DropOnly | undefined {
  if (text === undefined || text === 'cancel' || text === 'remove') return text;
  throw wrongQuery('only', `only must be cancel or remove, got: ${text}`);
}

function stateOf(text: string | undefined): PublicJobState | undefined {
  if (text === undefined) return undefined;
  const state = PUBLIC_JOB_STATES.find((each) => each === text);
  if (state !== undefined) return state;
  throw wrongQuery('state', `state must be one of ${PUBLIC_JOB_STATES.join(', ')}, got: ${text}`);
}
