import { checkJob, type ModelRecord, type ModelSignature, modelSignature } from '@nereid/config';
import {
  type DecodedRequest,
  decodeJobData,
  decodeJobResult,
  ERROR_TABLE,
  type ErrorInfo,
  errorInfo,
  type InferResponse,
  isJobCancelled,
  JOB_CANCELLED,
  jobStep,
  modelNotFound,
  NereidError,
  noVersions,
  parseFailedReason,
  REDIS_FULL,
  REQUEST_DEFAULTS,
  totalBytes,
  UNLOADED,
  versionNotFound,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import {
  type Directory,
  type JobNews,
  type JobPayloads,
  type JobQueues,
  newJobId,
  parsePublicJobId,
  type StoredJob,
} from '@nereid/transport';
import type { Gateway } from './gateway.ts';
import { createJobAdmission, type JobAdmission } from './job-admission.ts';
import { createJobEnds, type JobEnds } from './job-ends.ts';
import { createJobLetters, type JobLetters } from './job-letters.ts';
import { createJobPages, type JobPage, type JobPageQuery } from './job-pages.ts';
import { jobToAdd, resultBlobs } from './job-payloads.ts';
import { createJobWebhooks, type JobWebhooks } from './job-webhooks.ts';
import { STORED_LIMITS } from './stored-limits.ts';
import { NO_WEBHOOKS, type WebhookRules, webhookRules } from './webhook-rules.ts';

export interface JobsParts {
  readonly queues: JobQueues;
  readonly directory: Directory<ModelRecord>;
  readonly clock: Clock;
  readonly gateway: Pick<Gateway, 'cancelJob' | 'aliases' | 'routed'>;
  /** None are taken without it. */
  readonly webhooks?: WebhookRules | undefined;
}

/** JSON for all. */
const NO_FORMS: OutputForms = { outputs: [], binaryDefault: false };

/** What a client may say of a job beside its request. */
export interface JobWishes {
  /** 0 is highest. */
  readonly priority: number;
  readonly delayMs: number;
  /** From now until it is too late to begin, 0 for none. */
  readonly deadlineMs: number;
  readonly attempts: number;
  /** How long its result can be asked for. */
  readonly resultTtlS: number;
  readonly tags: readonly string[];
  /** The URL that its end is told to. */
  readonly webhook?: string | undefined;
}

/** A client's own key of a submission: the same one twice is one job. */
export interface SubmissionKey {
  readonly text: string;
  /** Of all that was submitted with it. */
  readonly requestHash: string;
}

export const JOB_DEFAULTS: JobWishes = {
  priority: 100,
  delayMs: 0,
  deadlineMs: 0,
  attempts: 3,
  resultTtlS: 3_600,
  tags: [],
};

export type Submitted =
  /** `known`: its key was used before, for this job. */
  | { readonly ok: true; readonly job: StoredJob; readonly known: boolean }
  | { readonly ok: false; readonly error: ErrorInfo };

/** The model's signature, if a job for it can be taken. */
export type JobModel =
  | { readonly ok: true; readonly signature: ModelSignature }
  | { readonly ok: false; readonly error: ErrorInfo };

export type JobResult =
  | { readonly state: 'pending'; readonly job: StoredJob }
  | {
      readonly state: 'done';
      readonly response: InferResponse;
      readonly request: OutputForms;
    }
  | { readonly state: 'failed'; readonly error: ErrorInfo; readonly requestId: string }
  | { readonly state: 'expired' | 'unknown' };

/** How a job asks for its outputs. */
type OutputForms = Pick<DecodedRequest, 'outputs' | 'binaryDefault'>;

export interface FollowedJob {
  readonly forms: OutputForms;
  readonly news: AsyncIterableIterator<JobNews>;
}

export interface JobExpiry {
  /** Wall-clock milliseconds. */
  readonly atMs: number;
  readonly over: boolean;
}

/** Jobs as clients see them; the same checks as for a request that is waited for. */
export interface Jobs extends JobEnds {
  /** Jobs are taken for a model whose config is known, also while no worker holds it; `name` may be an alias of it. */
  model(name: string, version: string): JobModel;
  /** The model and version of a batch for that name: those that its alias stands for. */
  target(name: string, version: string): { readonly model: string; readonly version: string };
  /** Checks the request, then resolves once Redis has the job. Rejects with UNAVAILABLE where that does not answer, INVALID_ARG for a wrong number of a step. */
  submit(
    decoded: DecodedRequest,
    signature: ModelSignature,
    wishes: JobWishes,
    key?: SubmissionKey,
  ): Promise<Submitted>;
  /** By its public id; waits so long for its end. */
  find(publicId: string, waitMs: number, signal?: AbortSignal): Promise<StoredJob | undefined>;
  list(query: JobPageQuery): Promise<JobPage>;
  /** How many waiting jobs would be taken before it, undefined where that is not known. */
  place(job: StoredJob): Promise<number | undefined>;
  result(publicId: string, waitMs: number, signal?: AbortSignal): Promise<JobResult>;
  /** Whether Redis has room for more. */
  readonly admission: JobAdmission;
  /** What follows the ends of jobs. */
  readonly letters: JobLetters;
  readonly webhooks: JobWebhooks;
  /** Its news from the beginning, or after an event; undefined where there is no such job. See JobQueues.follow. */
  follow(publicId: string, after: string | undefined, signal: AbortSignal): Promise<FollowedJob | undefined>;
  /** Keeps a tensor for a job to come. Rejects with UNAVAILABLE where Redis does not answer, or is full. */
  putBlob(data: Uint8Array, ttlS: number): Promise<{ readonly ref: string; readonly expiresMs: number }>;
  /** Undefined where it is not there (any more). */
  readBlob(ref: string): Promise<Uint8Array | undefined>;
  /** The rows of the job's log, the newest first. */
  notes(publicId: string): Promise<readonly string[]>;
  /** Until when the result of a finished job can be asked for; undefined where that is not known. */
  expiry(job: StoredJob): JobExpiry | undefined;
  /** What a producer needs to know of a model's queue. */
  queue(model: string): { readonly name: string; readonly prefix: string; readonly url: string };
}

const LEADING_ZEROS = /^0+(?=[0-9])/;

export function createJobs(parts: JobsParts): Jobs {
  const { queues, directory, clock, gateway, webhooks = webhookRules(NO_WEBHOOKS) } = parts;
  const admission = createJobAdmission(queues, clock);
  const admit = async (bytes: number) => {
    const refusal = await admission.refusal(bytes);
    if (refusal !== undefined) throw new NereidError(refusal.code, refusal.message, { reason: REDIS_FULL });
  };
  const find = async (publicId: string, waitMs: number, signal?: AbortSignal): Promise<StoredJob | undefined> => {
    const known = parsePublicJobId(publicId);
    if (known === undefined) return undefined;
    return waitMs > 0 ? queues.wait(known.model, known.id, waitMs, signal) : queues.find(known.model, known.id);
  };

  const expiry = (job: StoredJob) => jobExpiry(job, clock.wallMs());

  const resultOf = async (job: StoredJob): Promise<JobResult> => {
    if (expiry(job)?.over === true) return { state: 'expired' };
    switch (job.state) {
      case 'completed':
        return completed(queues.payloads, job);
      case 'failed':
        return { state: 'failed', error: parseFailedReason(job.failedReason ?? ''), requestId: requestIdOf(job) };
      case 'running':
        return { state: 'pending', job };
      default:
        // Nothing will run of one that is marked before it is taken.
        if (isJobCancelled(job.data)) return { state: 'failed', error: JOB_CANCELLED, requestId: requestIdOf(job) };
        return { state: 'pending', job };
    }
  };

  const modelOf = (name: string, version: string): JobModel => {
    const alias = gateway.aliases.find(name);
    const record = directory.record(alias?.model ?? name);
    if (record === undefined) return { ok: false, error: modelNotFound(alias?.model ?? name) };
    const plain = version.replace(LEADING_ZEROS, '');
    if (version !== '' && alias?.versions.every((each) => each.version !== plain) === true)
      return { ok: false, error: versionNotFound(name, plain) };
    const error = unservable(record, version);
    if (error !== undefined) return { ok: false, error };
    return { ok: true, signature: { ...modelSignature(record.config), name } };
  };

  return {
    ...createJobEnds({ queues, clock, cancelJob: gateway.cancelJob }),
    list: createJobPages({ queues, directory, expiry }),
    place: ({ model, id }) => queues.place(model, id),
    find,
    async putBlob(data, ttlS) {
      await admit(data.byteLength);
      const nowMs = clock.wallMs();
      return { ref: await queues.payloads.put(data, ttlS, nowMs), expiresMs: nowMs + ttlS * 1000 };
    },
    readBlob: async (ref) => (await queues.payloads.read([ref])).get(ref),
    async notes(publicId) {
      const known = parsePublicJobId(publicId);
      return known === undefined ? [] : queues.notes(known.model, known.id);
    },
    admission,
    letters: createJobLetters({ queues, directory, model: modelOf }),
    webhooks: createJobWebhooks(queues),
    expiry,
    model: modelOf,
    target(name, version) {
      const asked = { ...REQUEST_DEFAULTS, modelName: name, modelVersion: version, inputs: [] };
      const { modelName, modelVersion } = gateway.routed(asked, { sequence: undefined });
      return { model: modelName, version: modelVersion };
    },
    async submit(decoded, signature, wishes, key) {
      const { request, index: sequenceIndex } = jobStep(gateway.routed(decoded.request, signature), undefined);
      const { priority, delayMs, attempts, resultTtlS, deadlineMs, tags, webhook } = wishes;
      const error = checkJob(signature, request) ?? (webhook === undefined ? undefined : webhooks.refusal());
      if (error !== undefined) return { ok: false, error };
      const createdMs = clock.wallMs();
      // Keeps each bit of each output, whichever form the client then asks for.
      const settings = { respond: 'binary', deadlineMs, resultTtlS, sequenceIndex, tags, webhook } as const;
      const { modelName } = request;
      const add = async (id: string) => {
        await admit(totalBytes(request.inputs));
        const { data, blobs } = jobToAdd(queues.payloads, id, { ...decoded, request }, settings);
        await queues.add(modelName, { id, createdMs, data, blobs, priority, delayMs, attempts, resultTtlS });
        return newJob(modelName, id, data, wishes, createdMs);
      };
      const ownId = newJobId(createdMs);
      if (key === undefined) return { ok: true, job: await add(ownId), known: false };
      return submitKeyed(queues, modelName, { id: ownId, key, add });
    },
    async result(publicId, waitMs, signal) {
      const known = parsePublicJobId(publicId);
      if (known === undefined) return { state: 'unknown' };
      const job =
        waitMs > 0
          ? await queues.waitOutcome(known.model, known.id, waitMs, signal)
          : await queues.find(known.model, known.id);
      return job === undefined ? { state: 'unknown' } : resultOf(job);
    },
    async follow(publicId, after, signal) {
      const known = parsePublicJobId(publicId);
      if (known === undefined) return undefined;
      const { model, id } = known;
      const job = await queues.find(model, id);
      if (job === undefined && after === undefined) return undefined;
      const forms = job && formsOf(job, { modelName: model, limits: STORED_LIMITS });
      return { forms: forms ?? NO_FORMS, news: queues.follow(model, id, after, signal) };
    },
    queue: (model) => ({ ...queues.queue(model), url: queues.url }),
  };
}

interface KeyedSubmission {
  /** Of the job, unless the key stands for another. */
  readonly id: string;
  readonly key: SubmissionKey;
  readonly add: (id: string) => Promise<StoredJob>;
}

/**
 * One job for one key, at whichever gateways it comes: the key is bound to an id before the add, so that who finds it
 * bound, but not yet added, adds that same id, which BullMQ takes once. From then on it is never added again.
 */
async function submitKeyed(queues: JobQueues, model: string, { id, key, add }: KeyedSubmission): Promise<Submitted> {
  const { text, requestHash } = key;
  const claim = await queues.keys.claim(model, text, { id, requestHash });
  if (claim.requestHash !== requestHash) return { ok: false, error: keyTaken(text) };
  const isKnown = claim.id !== id;
  if (claim.added !== true) {
    const job = await add(claim.id);
    await queues.keys.added(model, text, claim);
    if (!isKnown) return { ok: true, job, known: false };
  }
  const job = await queues.find(model, claim.id);
  return job === undefined ? { ok: false, error: keyedJobGone(text) } : { ok: true, job, known: isKnown };
}

function keyTaken(key: string): ErrorInfo {
  const message = `Idempotency-Key '${key}' was used for another request in the last 24 h; use a new key`;
  return { code: 'ALREADY_EXISTS', message, field: 'Idempotency-Key' };
}

function keyedJobGone(key: string): ErrorInfo {
  const message = `the job of Idempotency-Key '${key}' is over, and its result is not kept any more; use a new key to run it again`;
  return { code: 'NOT_FOUND', message, field: 'Idempotency-Key', reason: 'expired' };
}

/** Until when the result of a finished job can be asked for; undefined where that is not known. */
export function jobExpiry({ data, finishedMs }: StoredJob, nowMs: number): JobExpiry | undefined {
  const ttlS = memberOf(data, 'result_ttl_s');
  if (finishedMs === undefined || typeof ttlS !== 'number') return undefined;
  const atMs = finishedMs + ttlS * 1000;
  return { atMs, over: nowMs >= atMs };
}

/** Why no job can be taken for the version, '' for any. A version that is not loaded at the moment is one. */
function unservable(record: ModelRecord, version: string): ErrorInfo | undefined {
  const servable = record.versions.filter(
    ({ state, reason }) =>
      state === 'READY' ||
      state === 'LOADING' ||
      (state === 'UNAVAILABLE' && reason.startsWith(`${ERROR_TABLE.UNAVAILABLE.label}:`) && reason !== UNLOADED),
  );
  if (servable.length === 0) return noVersions(record.name);
  const plain = version.replace(LEADING_ZEROS, '');
  if (version === '' || servable.some((each) => each.version === plain)) return undefined;
  return versionNotFound(record.name, plain);
}

/** As it is right after its add: nobody needs to ask Redis for it. */
function newJob(model: string, id: string, data: unknown, wishes: JobWishes, createdMs: number): StoredJob {
  return {
    model,
    id,
    state: wishes.delayMs > 0 ? 'delayed' : 'waiting',
    data,
    result: null,
    progress: undefined,
    failedReason: undefined,
    createdMs,
    startedMs: undefined,
    finishedMs: undefined,
    attemptsMade: 0,
    attemptsMax: wishes.attempts,
  };
}

async function completed(payloads: JobPayloads, job: StoredJob): Promise<JobResult> {
  const blobs = await resultBlobs(payloads, job);
  if (blobs === undefined) return { state: 'expired' };
  const options = { modelName: job.model, limits: STORED_LIMITS };
  try {
    const response = decodeJobResult(job.result, { ...options, blobs });
    return { state: 'done', response, request: formsOf(job, options) };
  } catch (thrown) {
    return { state: 'failed', error: errorInfo(thrown), requestId: requestIdOf(job) };
  }
}

/** The forms of outputs that the request asked for; JSON where its data do not say, being of another worker. */
function formsOf(job: StoredJob, options: Parameters<typeof decodeJobData>[1]): OutputForms {
  try {
    return decodeJobData({ ...(job.data as object), inputs: [] }, options);
  } catch {
    return NO_FORMS;
  }
}

/** The client's own id of the request, '' for none. */
export function requestIdOf(job: StoredJob): string {
  const id = memberOf(job.data, 'id');
  return typeof id === 'string' ? id : '';
}

/** The version that the job names, '' for none. */
export function jobVersion(job: StoredJob): string {
  const version = memberOf(job.data, 'model_version');
  return typeof version === 'string' || typeof version === 'number' ? String(version) : '';
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
