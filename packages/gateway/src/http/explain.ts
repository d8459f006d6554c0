import { type ExplainedJson, errorInfo, NereidError, thrownError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { explainedJob, type StoredRuns } from '../explained-job.ts';
import { explainedRequests } from '../explained-requests.ts';
import type { Gateway } from '../gateway.ts';
import type { Jobs } from '../jobs.ts';
import { sendJson } from './errors.ts';
import type { JobsContext } from './jobs-answer.ts';
import { sendOwnError } from './jobs-error.ts';

/** Requests of one answer, where its caller does not say, and at most. */
const LIMIT_DEFAULT = 10;
export const EXPLAIN_LIMIT_MAX = 100;
const ABOUT_MAX = 1_024;

interface Context extends JobsContext {
  readonly gateway: Gateway;
}

/**
 * GET /nereid/v1/explain/{id}[?limit=n]: what became of the requests of that id, the newest first, whichever gateway is
 * asked. The id is a client's own, the token of `Nereid-Request-Id`, a job's public id, or the id of a trace.
 */
export function explain({ gateway, jobs }: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(gateway, jobs, request).then(
    (explained) => sendJson(reply, JSON.stringify(explained)),
    (thrown) => sendOwnError(reply, errorInfo(thrown)),
  );
}

async function answer(gateway: Gateway, jobs: Jobs | undefined, request: FastifyRequest): Promise<ExplainedJson> {
  const about = idOf(request);
  const limit = limitOf((request.query as { readonly limit?: unknown }).limit);
  const [known, stored] = await Promise.all([gateway.explain.of(about, limit), storedRuns(jobs, about)]);
  if (!known.ok) throw thrownError(known.error);
  const explained = explainedRequests(known.value, stored?.runs ?? [], limit);
  const { unanswered } = known.value;
  if (explained.requests.length === 0 && stored === undefined) throw unknown(about, unanswered);
  return { ...explained, ...(stored === undefined ? {} : { job: stored.job }), unanswered };
}

/** Without Redis, or while it does not answer, the rest is told all the same. */
function storedRuns(jobs: Jobs | undefined, about: string): Promise<StoredRuns | undefined> {
  if (jobs === undefined || !about.includes('~')) return Promise.resolve(undefined);
  return explainedJob(jobs, about).catch(() => undefined);
}

function idOf(request: FastifyRequest): string {
  const { id } = request.params as { readonly id: string };
  let about: string;
  try {
    about = decodeURIComponent(id);
  } catch {
    throw new NereidError('INVALID_ARG', `the id has an escape that is none: ${id}`, { field: 'id' });
  }
  if (about.length <= ABOUT_MAX) return about;
  throw new NereidError('INVALID_ARG', `an id has at most ${ABOUT_MAX} characters, got ${about.length}`, {
    field: 'id',
  });
}

function limitOf(text: unknown): number {
  if (text === undefined) return LIMIT_DEFAULT;
  const limit = typeof text === 'string' && /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= EXPLAIN_LIMIT_MAX) return limit;
  throw new NereidError(
    'INVALID_ARG',
    `limit must be a whole number from 1 to ${EXPLAIN_LIMIT_MAX}, got: ${String(text)}`,
    {
      field: 'limit',
    },
  );
}

function unknown(about: string, unanswered: readonly string[]): NereidError {
  const silent = unanswered.length === 0 ? '' : `; ${unanswered.join(', ')} did not answer`;
  const text =
    `no request '${about}' is known here: give the id that its client gave it, the Nereid-Request-Id of its answer, ` +
    'the id of its job or of its trace. Only the last requests are remembered (explained_requests_max in ' +
    `docs/limits.md), and none of before its gateway's or its coordinator's start${silent}`;
  return new NereidError('NOT_FOUND', text, { field: 'id' });
}
