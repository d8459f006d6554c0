import type { ModelRecord } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { Directory, JobListPlace, JobQueues, StoredJob } from '@nereid/transport';
import { jobTagsOf, type PublicJobState, publicState, storedStates } from './job-state.ts';
import type { Jobs } from './jobs.ts';

/** Jobs of one page at most. */
export const JOBS_LISTED_MAX = 1_000;

/** As Redis writes one. */
const SCORE = /^-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?$/;
/** Callers at a time: each may have a page of data read. */
const CALLS_MAX = 16;

export interface JobPageQuery {
  /** '' for all that the cluster knows. */
  readonly model: string;
  /** Undefined for all. */
  readonly state: PublicJobState | undefined;
  /** '' for all. */
  readonly tag: string;
  /** From 1 to JOBS_LISTED_MAX. */
  readonly limit: number;
  /** `next` of the page before; '' for the first. */
  readonly after: string;
}

export interface JobPage {
  readonly jobs: readonly StoredJob[];
  /** There may be more behind it, also where this page is empty. */
  readonly next: string | undefined;
}

export interface JobPagesParts {
  readonly queues: Pick<JobQueues, 'list'>;
  readonly directory: Directory<ModelRecord>;
  readonly expiry: Jobs['expiry'];
}

/** Pages of the jobs that the queues hold, by model. Rejects with INVALID_ARG for an `after` that is none. */
export function createJobPages({
  queues,
  directory,
  expiry,
}: JobPagesParts): (query: JobPageQuery) => Promise<JobPage> {
  let calls = 0;

  const page = async ({ model, state, tag, limit, after }: JobPageQuery): Promise<JobPage> => {
    const names = directory.records().map(({ name }) => name);
    const { jobs, next } = await queues.list({
      models: model === '' ? names.sort() : [model],
      states: storedStates(state),
      matches: (job) =>
        (state === undefined || publicState(job, expiry(job)) === state) &&
        (tag === '' || jobTagsOf(job).includes(tag)),
      limit,
      after: after === '' ? undefined : readPlace(after),
    });
    return { jobs, next: next && writePlace(next) };
  };

  return async (query) => {
    if (calls >= CALLS_MAX) throw new NereidError('UNAVAILABLE', 'too many lists of jobs at a time; try again');
    calls++;
    try {
      return await page(query);
    } finally {
      calls--;
    }
  };
}

function writePlace({ model, set, score, skip }: JobListPlace): string {
  return Buffer.from(JSON.stringify([model, set, score ?? null, skip])).toString('base64url');
}

function readPlace(text: string): JobListPlace {
  const [model, set, score, skip] = parsed(text);
  const isPlace =
    typeof model === 'string' && typeof set === 'string' && Number.isSafeInteger(skip) && Number(skip) >= 0;
  // It goes to Redis, which would take what it does not read for a failure of its own.
  const isScore = score === null || (typeof score === 'string' && SCORE.test(score) && Number.isFinite(Number(score)));
  if (isPlace && isScore) return { model, set, score: score ?? undefined, skip: Number(skip) };
  throw new NereidError('INVALID_ARG', `after must be the 'next' of an earlier answer, got: ${text}`, {
    field: 'after',
  });
}

function parsed(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}
