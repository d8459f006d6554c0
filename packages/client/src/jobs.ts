import type { Blobs } from './blobs.ts';
import { NereidError } from './error.ts';
import { modelPath } from './generate.ts';
import type { CallOptions, Http } from './http.ts';
import { decodeAnswer, encodeRequest, HEADER_LENGTH, type InferInput, type InferResult } from './infer.ts';
import { isOver, type Job, type JobState, type JobWishes, jobOf, jobPath, wishHeaders } from './job.ts';
import { objectOf } from './json.ts';
import { eachOf, unlessStatus, withQuery } from './paths.ts';
import { patiently } from './patiently.ts';
import { randomId } from './random-id.ts';
import { type JobEvent, watchJob } from './watch-job.ts';

export interface SubmitOptions extends CallOptions, JobWishes {
  /** Two submissions with the same key are one job, for 24 h. One of its own for each call without it. */
  readonly idempotencyKey?: string;
}

export interface JobFilter {
  readonly model?: string;
  readonly state?: JobState;
  readonly tag?: string;
  /** Jobs that a page may have. */
  readonly limit?: number;
}

export interface JobPage {
  readonly jobs: readonly Job[];
  /** Goes into `after` for the next page, which there is even where this one is empty; absent at the end. */
  readonly next?: string;
}

export interface WatchOptions extends CallOptions {
  /** The last event that was seen: those after it follow. */
  readonly lastEventId?: string;
}

/** What a BullMQ producer opens a model's queue with. */
export interface JobQueue {
  readonly name: string;
  readonly prefix: string;
  readonly redis_url: string;
}

/** Jobs (docs/jobs.md). Of a call with a wait `timeoutMs` bounds the whole wait; without it, it lasts as long as the job. */
export interface Jobs {
  /** The job, once the server will not lose it. Repeating it, as this does where an answer is lost, adds no second one. */
  submit(input: InferInput, options?: SubmitOptions): Promise<Job>;
  get(id: string, options?: CallOptions): Promise<Job>;
  /** The job once it is over. Throws UNAVAILABLE with the reason `timeout` where it is not within `timeoutMs`. */
  wait(id: string, options?: CallOptions): Promise<Job>;
  /** The job's answer once there is one; throws its error where it failed or was cancelled, NOT_FOUND where it has expired. */
  result(id: string, options?: CallOptions): Promise<InferResult>;
  /** What happens to the job until its end, through any number of lost connections. */
  watch(id: string, options?: WatchOptions): AsyncGenerator<JobEvent, void, void>;
  /** Ends a job that is not over; one that is stays as it is, and is given back. */
  cancel(id: string, options?: CallOptions): Promise<Job>;
  /** Removes a job that is over, with its result; nothing where it is not there. Throws INVALID_ARG where it is not over. */
  remove(id: string, options?: CallOptions): Promise<void>;
  /** Lets a job that failed or was cancelled begin anew. */
  retry(id: string, options?: CallOptions): Promise<Job>;
  /** Tells the job's end to its webhook once more. */
  resendWebhook(id: string, options?: CallOptions): Promise<void>;
  /** All jobs that the filter lets through, page by page. */
  list(filter?: JobFilter, options?: CallOptions): AsyncGenerator<Job, void, void>;
  page(filter?: JobFilter, after?: string, options?: CallOptions): Promise<JobPage>;
  queue(model: string, options?: CallOptions): Promise<JobQueue>;
}

/** What a job that failed with UNAVAILABLE is answered with, but also what a server or proxy says of itself. */
const UNCLEAR: ReadonlySet<number | undefined> = new Set([429, 502, 503, 504, undefined]);

/** The job is in another state than is asked for. */
const CONFLICT = 409;
const NOT_THERE = 404;

export function createJobs(http: Http, blobs: Pick<Blobs, 'get'>): Jobs {
  const get = async (id: string, options: CallOptions, query = ''): Promise<Job> => {
    return jobOf(await http.json({ ...options, method: 'GET', path: `${jobPath(id)}${query}`, repeatable: 'always' }));
  };
  const post = (id: string, what: string, options: CallOptions) =>
    http.json({ ...options, method: 'POST', path: `${jobPath(id)}/${what}`, repeatable: 'if refused' });
  const drop = (id: string, only: 'cancel' | 'remove', options: CallOptions) =>
    http.call({ ...options, method: 'DELETE', path: `${jobPath(id)}?only=${only}`, repeatable: 'always' });
  const page = async (filter: JobFilter, after: string | undefined, options: CallOptions): Promise<JobPage> => {
    const path = withQuery('/v2/jobs', { ...filter, after });
    const { jobs, next } = objectOf(
      await http.json({ ...options, method: 'GET', path, repeatable: 'always' }),
      'page of jobs',
    );
    const found = Array.isArray(jobs) ? jobs.map(jobOf) : [];
    return typeof next === 'string' ? { jobs: found, next } : { jobs: found };
  };

  return {
    async submit(input, options = {}) {
      const { headers, body } = encodeRequest(input);
      const { idempotencyKey: key = randomId() } = options;
      const answer = await http.json({
        ...callOptions(options),
        method: 'POST',
        path: `${modelPath(input.model, input.version)}/jobs`,
        headers: { ...headers, ...wishHeaders(options), 'Idempotency-Key': key },
        body,
        repeatable: 'always',
      });
      return jobOf(answer);
    },
    get: (id, options = {}) => get(id, options),
    wait: (id, options = {}) =>
      patiently(`job '${id}'`, options, async (call, waitMs) => {
        const job = await get(id, call, `?wait=${waitMs}ms`);
        return isOver(job) ? job : undefined;
      }),
    result: (id, options = {}) =>
      patiently(`job '${id}'`, options, async (call, waitMs) => {
        const path = `${jobPath(id)}/result?wait=${waitMs}ms`;
        try {
          const { status, headers, body } = await http.call({
            ...call,
            retry: { attempts: 1 },
            method: 'GET',
            path,
            repeatable: 'always',
          });
          return status === 200 ? decodeAnswer(body, headers.get(HEADER_LENGTH)) : undefined;
        } catch (thrown) {
          const isUnclear = thrown instanceof NereidError && thrown.reason !== 'timeout' && UNCLEAR.has(thrown.status);
          // Whether it is the job's own error, only the job tells.
          if (!isUnclear || isOver(await get(id, call))) throw thrown;
          return undefined;
        }
      }),
    watch: (id, options = {}) => watchJob(http, blobs, id, options),
    async cancel(id, options = {}) {
      await unlessStatus(CONFLICT, drop(id, 'cancel', options));
      return get(id, options);
    },
    async remove(id, options = {}) {
      // Perhaps by the first of two attempts.
      await unlessStatus(NOT_THERE, drop(id, 'remove', options));
    },
    retry: async (id, options = {}) => jobOf(await post(id, 'retry', options)),
    async resendWebhook(id, options = {}) {
      await post(id, 'webhook', options);
    },
    list: (filter = {}, options = {}) =>
      eachOf(async (after) => {
        const { jobs, next } = await page(filter, after, options);
        return { found: jobs, next };
      }),
    page: (filter = {}, after = undefined, options = {}) => page(filter, after, options),
    async queue(model, options = {}) {
      const path = `${modelPath(model)}/jobs/queue`;
      return (await http.json({ ...options, method: 'GET', path, repeatable: 'always' })) as JobQueue;
    },
  };
}

function callOptions({ signal, timeoutMs, retry }: CallOptions): CallOptions {
  return { signal, timeoutMs, retry };
}
