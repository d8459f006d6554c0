/** What the routes of jobs share. */
import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';
import type { StoredJob } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type JobDetails, jobJson } from '../job-json.ts';
import type { Jobs } from '../jobs.ts';
import { sendJson } from './errors.ts';
import type { InferContext } from './infer.ts';
import { sendOwnError } from './jobs-error.ts';

export interface JobsContext {
  /** Undefined without Redis. */
  readonly jobs: Jobs | undefined;
  /** How to get one, for the answer then. */
  readonly redisHint: string;
}

export type JobRouteContext = InferContext & JobsContext;

const GONE_STATUS = 410;

/** The jobs and the id in the path. Throws UNAVAILABLE without Redis. */
export function askedJob(context: JobRouteContext, request: FastifyRequest) {
  const { job: id } = request.params as { job: string };
  return { jobs: jobsOf(context), id, signal: context.clientSignal(request.raw.socket) };
}

/** Throws UNAVAILABLE without Redis. */
export function jobsOf({ jobs, redisHint }: JobsContext): Jobs {
  if (jobs !== undefined) return jobs;
  throw new NereidError('UNAVAILABLE', `jobs need a Redis: ${redisHint}`);
}

type AnswerContext = Pick<InferContext, 'closing' | 'log'>;

/** Runs a handler: what it throws before an answer has begun is its answer. */
export function answer(
  context: AnswerContext,
  reply: FastifyReply,
  handler: () => Promise<void>,
  send: typeof sendOwnError = sendOwnError,
): void {
  void (async () => {
    try {
      await handler();
    } catch (thrown) {
      if (!(thrown instanceof NereidError)) context.log.error({ err: thrown }, 'job request threw');
      if (!reply.raw.headersSent) refuse(context, reply, errorInfo(thrown), undefined, send);
    }
  })();
}

/** `send`: as the route's errors are. */
export function refuse(
  context: AnswerContext,
  reply: FastifyReply,
  error: ErrorInfo,
  status?: number,
  send: typeof sendOwnError = sendOwnError,
): void {
  context.log.debug({ err: error }, 'job request failed');
  if (context.closing()) reply.header('Connection', 'close');
  send(reply, error, status ?? statusOf(error));
}

/** What was there has no code of its own. */
function statusOf({ reason }: ErrorInfo): number | undefined {
  return reason === 'expired' ? GONE_STATUS : undefined;
}

export function sendJob(context: JobRouteContext, reply: FastifyReply, job: StoredJob, details?: JobDetails): void {
  if (context.closing()) reply.header('Connection', 'close');
  sendJson(reply, JSON.stringify(jobJson(job, context.jobs?.expiry(job), details)));
}
