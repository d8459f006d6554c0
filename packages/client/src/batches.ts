import { type BatchFile, encodedFile } from './batch-file.ts';
import { type BatchResult, batchResults, type ResultsOptions } from './batch-results.ts';
import { type ErrorCode, NereidError } from './error.ts';
import { modelPath } from './generate.ts';
import type { Call, CallOptions, Http } from './http.ts';
import { idInPath } from './job.ts';
import { isObject, objectOf } from './json.ts';
import { eachOf, unlessStatus, withQuery } from './paths.ts';
import { patiently } from './patiently.ts';

export type BatchState = 'waiting' | 'running' | 'completed' | 'cancelled' | 'expired' | 'failed';

/** A batch as the server tells it (docs/bulk.md); times are RFC 3339, what is not known is absent. */
export interface Batch {
  readonly id: string;
  readonly model_name: string;
  readonly model_version?: string;
  readonly state: BatchState;
  readonly created_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly deadline_at?: string;
  readonly expires_at?: string;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly attempts_max: number;
  /** Why it failed. */
  readonly error?: { readonly code: ErrorCode; readonly message: string };
  readonly results_url: string;
}

export interface BatchOptions extends CallOptions {
  /** The model's latest without it. */
  readonly version?: string;
  /** From now until lines that have no result get none. */
  readonly deadlineMs?: number;
  /** Of each line: 3 by default. */
  readonly attempts?: number;
  /** How long results are kept after the end: 86,400 by default. */
  readonly resultTtlS?: number;
}

export interface BatchPage {
  readonly batches: readonly Batch[];
  /** Goes into `after` for the next page; absent at the end. */
  readonly next?: string;
}

/** Batches (docs/bulk.md). Of a call with a wait `timeoutMs` bounds the whole wait; without it, it lasts as long as the batch. */
export interface Batches {
  /**
   * The batch, once the server will not lose it. Where the server refuses it with 429 it is sent again, unless it is a
   * stream or comes asynchronously; `timeoutMs` bounds the upload. What is iterated is left in any case, and what it
   * throws is thrown.
   */
  submit(model: string, file: BatchFile, options?: BatchOptions): Promise<Batch>;
  get(id: string, options?: CallOptions): Promise<Batch>;
  /** The batch once it is over. Throws UNAVAILABLE with the reason `timeout` where it is not within `timeoutMs`. */
  wait(id: string, options?: CallOptions): Promise<Batch>;
  /** The results that there are now, in the order of the file, through lost connections. */
  results(id: string, options?: ResultsOptions): AsyncGenerator<BatchResult, void, void>;
  /** Ends a batch that is not over; one that is stays as it is, and is given back. */
  cancel(id: string, options?: CallOptions): Promise<Batch>;
  /** Removes a batch that is over, with its results; nothing where it is not there. Throws INVALID_ARG where it is not over. */
  remove(id: string, options?: CallOptions): Promise<void>;
  /** All batches of a model, the newest first, page by page. */
  list(model: string, options?: CallOptions): AsyncGenerator<Batch, void, void>;
  page(model: string, after?: string, options?: CallOptions & { readonly limit?: number }): Promise<BatchPage>;
}

const OVER: ReadonlySet<BatchState> = new Set<BatchState>(['completed', 'cancelled', 'expired', 'failed']);
const CONFLICT = 409;
const NOT_THERE = 404;

export function createBatches(http: Http): Batches {
  const get = async (id: string, options: CallOptions, query = ''): Promise<Batch> =>
    batchOf(await http.json({ ...options, method: 'GET', path: `${batchPath(id)}${query}`, repeatable: 'always' }));
  const drop = (id: string, only: 'cancel' | 'remove', options: CallOptions) =>
    http.call({ ...options, method: 'DELETE', path: `${batchPath(id)}?only=${only}`, repeatable: 'always' });
  const page: Batches['page'] = async (model, after, { limit, ...options } = {}) => {
    const path = withQuery(`${modelPath(model)}/batches`, { after, limit });
    const answer = objectOf(
      await http.json({ ...options, method: 'GET', path, repeatable: 'always' }),
      'page of batches',
    );
    const batches = Array.isArray(answer.batches) ? answer.batches.map(batchOf) : [];
    return typeof answer.next === 'string' ? { batches, next: answer.next } : { batches };
  };

  return {
    async submit(model, file, { version, deadlineMs, attempts, resultTtlS, ...options } = {}) {
      const { body, contentType, isKept, source } = await encodedFile(file);
      const wishes = {
        'Nereid-Deadline-Ms': deadlineMs,
        'Nereid-Attempts': attempts,
        'Nereid-Result-Ttl-S': resultTtlS,
      };
      const said = Object.entries(wishes).filter(([, value]) => value !== undefined);
      const call: Call = {
        ...options,
        method: 'POST',
        path: `${modelPath(model, version)}/batches`,
        headers: {
          'Content-Type': contentType,
          ...Object.fromEntries(said.map(([name, value]) => [name, String(value)])),
        },
        body,
        // One whose answer is lost would be another batch.
        repeatable: isKept ? 'if refused' : 'never',
      };
      try {
        return batchOf(await http.json(call));
      } catch (thrown) {
        const failure = source?.failure();
        // The connection broke off for want of a file.
        if (failure !== undefined && thrown instanceof NereidError && thrown.reason === 'connection')
          throw failure.thrown;
        throw thrown;
      } finally {
        source?.leave();
      }
    },
    get: (id, options = {}) => get(id, options),
    wait: (id, options = {}) =>
      patiently(`batch '${id}'`, options, async (call, waitMs) => {
        const batch = await get(id, call, `?wait=${waitMs}ms`);
        return OVER.has(batch.state) ? batch : undefined;
      }),
    results: (id, options = {}) => batchResults(http, `${batchPath(id)}/results`, options),
    async cancel(id, options = {}) {
      await unlessStatus(CONFLICT, drop(id, 'cancel', options));
      return get(id, options);
    },
    async remove(id, options = {}) {
      // Perhaps by the first of two attempts.
      await unlessStatus(NOT_THERE, drop(id, 'remove', options));
    },
    list: (model, options = {}) =>
      eachOf(async (after) => {
        const { batches, next } = await page(model, after, options);
        return { found: batches, next };
      }),
    page,
  };
}

function batchPath(id: string): string {
  return `/v2/batches/${idInPath(id)}`;
}

/** Throws INTERNAL where it is none. */
function batchOf(value: unknown): Batch {
  if (isObject(value) && typeof value.id === 'string' && typeof value.state === 'string')
    return value as unknown as Batch;
  throw new NereidError('INTERNAL', "the server's answer is no batch");
}
