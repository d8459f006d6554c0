import { bulkRule, LIMITS, type ModelRecord } from '@nereid/config';
import { type ErrorInfo, modelNotFound } from '@nereid/protocol';
import { type Clock, pause } from '@nereid/runtime';
import {
  BULK_ENDS,
  type BulkRecord,
  type BulkStore,
  type Directory,
  type JobPayloads,
  type LineResult,
  type NewBulk,
  newJobId,
  publicJobId,
} from '@nereid/transport';
import { type BulkFile, uploadLines } from './bulk-upload.ts';
import type { DropOnly } from './job-ends.ts';
import type { Jobs } from './jobs.ts';
import type { Result } from './result.ts';

export interface BulkParts {
  readonly store: BulkStore;
  readonly directory: Directory<ModelRecord>;
  readonly jobs: Pick<Jobs, 'model' | 'target' | 'admission'>;
  readonly payloads: Pick<JobPayloads, 'open'>;
  readonly clock: Clock;
}

export interface BulkWishes {
  /** From now until lines that have no result get none, 0 for none. */
  readonly deadlineMs: number;
  readonly attempts: number;
  readonly resultTtlS: number;
}

export const BULK_DEFAULTS: BulkWishes = { deadlineMs: 0, attempts: 3, resultTtlS: 86_400 };

export type SubmittedBulk =
  | { readonly ok: true; readonly record: BulkRecord }
  /** `status`: in place of the code's own. */
  | { readonly ok: false; readonly error: ErrorInfo; readonly status?: number };

/** Batches as clients see them. What asks Redis rejects with UNAVAILABLE where that does not answer. */
export interface Bulk {
  /** Why no batch can be taken for the model; undefined where one can. Also while no worker holds it. */
  refusal(model: string, version: string): ErrorInfo | undefined;
  /** Takes the lines as they come; resolves once Redis has them all. */
  submit(model: string, version: string, file: BulkFile, wishes: BulkWishes): Promise<SubmittedBulk>;
  /** A file that was put as a blob; undefined where it is not there. */
  blobFile(ref: string): Promise<BulkFile | undefined>;
  /** Waits so long for its end. */
  find(id: string, waitMs: number, signal?: AbortSignal): Promise<BulkRecord | undefined>;
  page(model: string, after: string, limit: number): ReturnType<BulkStore['page']>;
  /**
   * Ends one that is not over; removes one that is; `only`: nothing else. What it was or is then; undefined for none.
   * Not ok where it is in the other state.
   */
  drop(id: string, only: DropOnly | undefined): Promise<Result<BulkRecord> | undefined>;
  results(id: string, from: number, count: number): Promise<readonly LineResult[]>;
}

const WAIT_LOOK_MS = 250;

export function isOver({ state }: BulkRecord): boolean {
  return BULK_ENDS.some((end) => end === state);
}

export function createBulk({ store, directory, jobs, payloads, clock }: BulkParts): Bulk {
  const find = async (id: string): Promise<BulkRecord | undefined> => {
    const record = await store.find(id);
    if (record === undefined || isOver(record)) return record;
    if (record.deadlineMs === 0 || clock.wallMs() < record.deadlineMs) return record;
    // Its owner sees to it, if there is one.
    await store.end(id, 'expired');
    return store.find(id);
  };

  return {
    refusal(name, version) {
      const record = directory.record(jobs.target(name, version).model);
      if (record === undefined) return modelNotFound(name);
      const model = jobs.model(name, version);
      if (!model.ok) return model.error;
      if (bulkRule(record.config) === 'off')
        return unsupported(`model '${name}' takes no batches: its config sets 'nereid.bulk' to 'off'`, 'nereid.bulk');
      if (model.signature.sequence !== undefined)
        return unsupported(`model '${name}' keeps sequences, whose steps are no lines of a batch: send each as a job`);
      return undefined;
    },
    blobFile: payloads.open,
    async submit(name, asked, file, { deadlineMs, attempts, resultTtlS: ttlS }) {
      const { model, version } = jobs.target(name, asked);
      if ((await store.active()).length >= LIMITS.bulk_active_max) return { ok: false, ...TOO_MANY };
      const createdMs = clock.wallMs();
      const id = publicJobId(model, newJobId(createdMs));
      const untilMs = deadlineMs === 0 ? 0 : createdMs + deadlineMs;
      const batch: NewBulk = { id, model, version, createdMs, deadlineMs: untilMs, ttlS, attempts };
      return uploadLines({ store, admission: jobs.admission }, batch, file);
    },
    async find(id, waitMs, signal) {
      const untilUs = clock.nowUs() + waitMs * 1000;
      for (;;) {
        const record = await find(id);
        if (record === undefined || isOver(record) || clock.nowUs() >= untilUs || signal?.aborted === true)
          return record;
        await pause(clock, WAIT_LOOK_MS, signal);
      }
    },
    page: (name, after, limit) => store.page(jobs.target(name, '').model, after, limit),
    async drop(id, only) {
      const record = await find(id);
      if (record === undefined) return undefined;
      const doable = isOver(record) ? 'remove' : 'cancel';
      if (only !== undefined && only !== doable) return { ok: false, error: wrongState(record) };
      if (doable === 'cancel') {
        await store.end(id, 'cancelled');
        return done(await store.find(id));
      }
      await store.remove(id);
      return done(record);
    },
    results: store.results,
  };
}

const TOO_MANY: { readonly error: ErrorInfo; readonly status: number } = {
  status: 429,
  error: {
    code: 'UNAVAILABLE',
    message: `${LIMITS.bulk_active_max} batches wait or run already; come again once some are over`,
  },
};

function done(record: BulkRecord | undefined): Result<BulkRecord> | undefined {
  return record && { ok: true, value: record };
}

function wrongState(record: BulkRecord): ErrorInfo {
  const why = isOver(record) ? 'there is nothing to cancel' : 'only one that is over is removed; cancel it';
  return { code: 'INVALID_ARG', message: `batch '${record.id}' is ${record.state}: ${why}`, field: 'state' };
}

function unsupported(message: string, field?: string): ErrorInfo {
  return { code: 'UNSUPPORTED', message, ...(field === undefined ? {} : { field }) };
}
