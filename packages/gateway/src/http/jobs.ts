import { type DecodedRequest, type ErrorInfo, errorInfo, NereidError, withRequestId } from '@nereid/protocol';
import type { StoredJob } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { jobJson, jobUrl } from '../job-json.ts';
import type { JobExpiry, Jobs } from '../jobs.ts';
import { CODINGS_TAKEN } from './content-coding.ts';
import { retrySoon, sendJson } from './errors.ts';
import { decodeInfer, type InferContext, refusedCoding } from './infer.ts';
import { sendInferResponse } from './infer-answer.ts';
import { sendOwnError } from './jobs-error.ts';
import { jobWishes, waitMs } from './jobs-headers.ts';
import { modelOf } from './model-path.ts';
import { type Body, readEncodedBody } from './read-body.ts';

export interface JobsContext {
  /** Undefined without Redis. */
  readonly jobs: Jobs | undefined;
  /** How to get one, for the answer then. */
  readonly redisHint: string;
}

type Context = InferContext & JobsContext;

function noJobs({ redisHint }: JobsContext): NereidError {
  return new NereidError('UNAVAILABLE', `jobs need a Redis: ${redisHint}`);
}

/** POST /v2/models/{m}[/versions/{v}]/jobs: 202 once Redis has the job, refused as infer would be. */
export function submitJob(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  const { jobs } = context;
  if (jobs === undefined) {
    refuse(context, reply, noJobs(context));
    return;
  }
  const { name, version } = modelOf(request);
  const model = jobs.model(name, version);
  if (!model.ok) {
    refuse(context, reply, model.error);
    return;
  }
  const refusal = refusedCoding(request);
  if (refusal !== undefined) {
    reply.header('Accept-Encoding', CODINGS_TAKEN);
    refuse(context, reply, refusal);
    return;
  }
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    if (!body.ok) {
      refuse(context, reply, body.error, body.tooLarge ? 413 : undefined);
      return;
    }
    answer(context, reply, async () => {
      const wishes = jobWishes(request.headers);
      const decoded = decodeInfer(context, request, model.signature, version, body, account);
      if (decoded.ok) refuseSharedOutputs(decoded.value);
      const submitted = decoded.ok ? await jobs.submit(decoded.value, model.signature, wishes) : decoded;
      if (!submitted.ok) {
        refuse(context, reply, submitted.error);
        return;
      }
      const { job } = submitted;
      reply.code(202).header('Location', jobUrl(job));
      sendJob(context, reply, job, undefined);
    });
  };
  readEncodedBody(request.raw, context.inputBytesMax, context.inflate, take, account);
}

/** Its answer is asked for later, perhaps at another gateway, which does not know the region. */
function refuseSharedOutputs({ outputs }: DecodedRequest): void {
  const shared = outputs.find(({ sharedMemory }) => sharedMemory !== undefined);
  if (shared === undefined) return;
  const text = `a job does not put outputs into shared memory; leave 'shared_memory_region' of output '${shared.name}' out`;
  throw new NereidError('UNSUPPORTED', text, { field: 'outputs.parameters.shared_memory_region' });
}

/** GET /v2/jobs/{id}[?wait=30s] */
export function jobStatus(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id, wait, signal } = asked(context, request);
    const job = await jobs.find(id, wait, signal);
    if (job === undefined) refuse(context, reply, unknownJob(id));
    else sendJob(context, reply, job, jobs.expiry(job));
  });
}

/** GET /v2/jobs/{id}/result[?wait=30s]: the infer answer, or the job with 202 while there is none yet. */
export function jobResult(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id, wait, signal } = asked(context, request);
    const result = await jobs.result(id, wait, signal);
    switch (result.state) {
      case 'unknown':
        refuse(context, reply, unknownJob(id));
        break;
      case 'expired':
        refuse(
          context,
          reply,
          { code: 'NOT_FOUND', message: `the result of job '${id}' has expired`, reason: 'expired' },
          410,
        );
        break;
      case 'failed':
        refuse(context, reply, result.error);
        break;
      case 'pending':
        reply.code(202);
        retrySoon(reply);
        sendJob(context, reply, result.job, undefined);
        break;
      case 'done': {
        const { response, request: forms } = result;
        const account = context.openBytes(request.raw.socket, reply.raw);
        const error = sendInferResponse(reply, response, forms, context.closing, account);
        if (error !== null) refuse(context, reply, withRequestId(response, error));
        break;
      }
    }
  });
}

/** GET /v2/models/{m}/jobs/queue: what `new Queue(…)` of a BullMQ producer needs. */
export function jobQueue(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  const { jobs } = context;
  if (jobs === undefined) {
    refuse(context, reply, noJobs(context));
    return;
  }
  const { name } = modelOf(request);
  const model = jobs.model(name, '');
  if (!model.ok) {
    refuse(context, reply, model.error);
    return;
  }
  const queue = jobs.queue(name);
  sendJson(reply, JSON.stringify({ name: queue.name, prefix: queue.prefix, redis_url: queue.url }));
}

function asked(context: Context, request: FastifyRequest) {
  const { jobs } = context;
  if (jobs === undefined) throw noJobs(context);
  const { job: id } = request.params as { job: string };
  return { jobs, id, wait: waitMs(request.query), signal: context.clientSignal(request.raw.socket) };
}

/** Runs a handler: what it throws is its answer. */
function answer(context: Context, reply: FastifyReply, handler: () => Promise<void>): void {
  void (async () => {
    try {
      await handler();
    } catch (thrown) {
      if (!(thrown instanceof NereidError)) context.log.error({ err: thrown }, 'job request threw');
      refuse(context, reply, errorInfo(thrown));
    }
  })();
}

function refuse(context: Context, reply: FastifyReply, error: ErrorInfo, status?: number): void {
  context.log.debug({ err: error }, 'job request failed');
  if (context.closing()) reply.header('Connection', 'close');
  sendOwnError(reply, error, status);
}

function unknownJob(id: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `job '${id}' is not found`, field: 'id' };
}

function sendJob(context: Context, reply: FastifyReply, job: StoredJob, expiry: JobExpiry | undefined): void {
  if (context.closing()) reply.header('Connection', 'close');
  sendJson(reply, JSON.stringify(jobJson(job, expiry)));
}
