import type { Alias } from '@nereid/config';
import { type DecodedRequest, type ErrorInfo, NereidError, withRequestId } from '@nereid/protocol';
import { publicJobId, type StoredJob } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { lastRun } from '../explained-job.ts';
import { unknownJob } from '../job-ends.ts';
import { type JobDetails, jobUrl } from '../job-json.ts';
import { isOver } from '../job-state.ts';
import type { JobResult, Jobs } from '../jobs.ts';
import { CODINGS_TAKEN } from './content-coding.ts';
import { retrySoon, sendError, sendJson } from './errors.ts';
import { decodeInfer, refusedCoding } from './infer.ts';
import { sendInferResponse } from './infer-answer.ts';
import { answer, askedJob, type JobRouteContext, jobsOf, refuse, sendJob } from './jobs-answer.ts';
import { sendFinalError, sendOwnError } from './jobs-error.ts';
import { jobWishes, waitMs } from './jobs-headers.ts';
import { modelOf } from './model-path.ts';
import type { Preference } from './prefer.ts';
import { type Body, readEncodedBody } from './read-body.ts';
import { submissionKey } from './submission-key.ts';

type Context = JobRouteContext;

/** How a route that takes jobs answers. */
interface Submitting {
  readonly send: typeof sendOwnError;
  readonly tooLargeStatus: number | undefined;
  /** Undefined where the job is answered with at once. */
  readonly preference: Preference | undefined;
}

const OWN: Submitting = { send: sendOwnError, tooLargeStatus: 413, preference: undefined };

/**
 * POST /v2/models/{m}[/versions/{v}]/jobs: 202 once Redis has the job, refused as infer would be; 200 where its
 * Idempotency-Key has been used for it before.
 */
export function submitJob(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  submit(context, request, reply, OWN);
}

/**
 * infer with `Prefer: respond-async` or `wait=n`: a job too, and infer's answer where it ends within the wait. Errors are
 * those of infer.
 */
export function inferAsJob(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  preference: Preference,
): void {
  submit(context, request, reply, { send: sendError, tooLargeStatus: undefined, preference });
}

function submit(context: Context, request: FastifyRequest, reply: FastifyReply, how: Submitting): void {
  const { send, preference } = how;
  const { name, version } = modelOf(request);
  const model = context.jobs?.model(name, version);
  const refusal = model?.ok === false ? model.error : refusedCoding(request);
  if (context.jobs === undefined || model?.ok !== true || refusal !== undefined) {
    if (model?.ok === true) reply.header('Accept-Encoding', CODINGS_TAKEN);
    answer(
      context,
      reply,
      async () => {
        jobsOf(context);
        if (refusal !== undefined) refuse(context, reply, refusal, undefined, send);
      },
      send,
    );
    return;
  }
  const { jobs } = context;
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    if (!body.ok) {
      refuse(context, reply, body.error, body.tooLarge ? how.tooLargeStatus : undefined, send);
      return;
    }
    const { bytes } = body;
    answer(
      context,
      reply,
      async () => {
        const wishes = jobWishes(request.headers);
        const key = submissionKey(request.raw, bytes, version, wishes);
        const decoded = decodeInfer(context, request, model.signature, version, body, account);
        if (decoded.ok) refuseSharedOutputs(decoded.value);
        const submitted = decoded.ok ? await jobs.submit(decoded.value, model.signature, wishes, key) : decoded;
        if (!submitted.ok) {
          refuse(context, reply, submitted.error, undefined, send);
          return;
        }
        const { job, known } = submitted;
        if (preference !== undefined) reply.raw.setHeader('Preference-Applied', preference.applied);
        const id = publicJobId(job.model, job.id);
        if (preference !== undefined && preference.waitMs > 0) {
          const signal = context.clientSignal(request.raw.socket);
          const result = await jobs.result(id, preference.waitMs, signal);
          if (result.state !== 'pending') {
            sendResult(context, request, reply, id, result, send);
            return;
          }
          sendAccepted(context, reply, result.job, 202);
          return;
        }
        // Of a key that is used again its job, which may be anywhere.
        sendAccepted(context, reply, job, known && preference === undefined ? 200 : 202);
      },
      send,
    );
  };
  readEncodedBody(request.raw, context.inputBytesMax, context.inflate, take, account);
}

function sendAccepted(context: Context, reply: FastifyReply, job: StoredJob, status: 200 | 202): void {
  reply.code(status).header('Location', jobUrl(job));
  sendJob(context, reply, job);
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
    const { jobs, id, signal } = askedJob(context, request);
    const job = await jobs.find(id, waitMs(request.query), signal);
    if (job === undefined) refuse(context, reply, unknownJob(id));
    else sendJob(context, reply, job, await detailsOf(jobs, id, job));
  });
}

/** What is told of the one job that is asked for, and costs a look of its own. */
async function detailsOf(jobs: Jobs, id: string, job: StoredJob): Promise<JobDetails> {
  if (job.state === 'waiting') return { position: await jobs.place(job) };
  if (!isOver(job)) return {};
  const batch = lastRun(await jobs.notes(id))?.batch;
  return batch === undefined ? {} : { worker: batch.worker, batchSize: batch.rows };
}

/** GET /v2/jobs/{id}/result[?wait=30s]: the infer answer, or the job with 202 while there is none yet. */
export function jobResult(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id, signal } = askedJob(context, request);
    const result = await jobs.result(id, waitMs(request.query), signal);
    if (result.state === 'failed') refuse(context, reply, result.error, undefined, sendFinalError);
    else sendResult(context, request, reply, id, result, sendOwnError);
  });
}

function sendResult(
  context: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string,
  result: JobResult,
  send: typeof sendOwnError,
): void {
  const fail = (error: ErrorInfo) => refuse(context, reply, error, undefined, send);
  switch (result.state) {
    case 'unknown':
      fail(unknownJob(id));
      break;
    case 'expired':
      fail({ code: 'NOT_FOUND', message: `the result of job '${id}' has expired`, reason: 'expired' });
      break;
    case 'failed':
      fail(result.error);
      break;
    case 'pending':
      reply.code(202);
      retrySoon(reply);
      sendJob(context, reply, result.job);
      break;
    case 'done': {
      const { response, request: forms } = result;
      const account = context.openBytes(request.raw.socket, reply.raw);
      const error = sendInferResponse(reply, response, forms, context.closing, account);
      if (error !== null) fail(withRequestId(response, error));
      break;
    }
  }
}

/** GET /v2/models/{m}/jobs/queue: what `new Queue(…)` of a BullMQ producer needs. */
export function jobQueue(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const jobs = jobsOf(context);
    const { name } = modelOf(request);
    const model = jobs.model(name, '');
    if (!model.ok) {
      refuse(context, reply, model.error);
      return;
    }
    const alias = context.gateway.aliases.find(name);
    if (alias !== undefined) {
      refuse(context, reply, producersNameModels(alias));
      return;
    }
    const queue = jobs.queue(name);
    sendJson(reply, JSON.stringify({ name: queue.name, prefix: queue.prefix, redis_url: queue.url }));
  });
}

function producersNameModels({ name, model }: Alias): ErrorInfo {
  const message = `'${name}' is an alias, which has no queue: producers add to the queue of its model '${model}' and name a model_version; POST /v2/models/${name}/jobs takes jobs for it`;
  return { code: 'UNSUPPORTED', message };
}
