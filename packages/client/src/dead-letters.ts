import type { ErrorCode } from './error.ts';
import type { CallOptions, Http } from './http.ts';
import { idInPath, type Job, jobOf } from './job.ts';
import { type JobDataOptions, type JobInput, jobData } from './job-data.ts';
import { isObject, jsonText, objectOf } from './json.ts';
import { eachOf, withQuery } from './paths.ts';

/** A job that failed for good (docs/dead-letters.md). */
export interface DeadLetter {
  /** Of its job. */
  readonly id: string;
  readonly model_name: string;
  readonly error: { readonly code: ErrorCode; readonly message: string };
  readonly attempts_made: number;
  readonly created_at: string;
  readonly died_at: string;
}

export interface DeadLetterDetail extends DeadLetter {
  /** Of the job, as a producer gives them. */
  readonly data: unknown;
  /** What became of its runs, the newest first. */
  readonly history: readonly unknown[];
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** Goes into `after` for the next page, which there is even where this one is empty; absent at the end. */
  readonly next?: string;
}

export interface DeadLetterFilter {
  readonly model?: string;
  /** Letters that a page may have. */
  readonly limit?: number;
}

/** In place of the job's own: a request, or data as a producer gives them. */
export type ReplayInput = { readonly input: JobInput; readonly options?: JobDataOptions } | { readonly data: unknown };

/** Admin calls: the client's `headers` have `Nereid-Admin-Key` where the server asks for it. */
export interface DeadLetters {
  /** All letters that the filter lets through, by model, the oldest first, page by page. */
  list(filter?: DeadLetterFilter, options?: CallOptions): AsyncGenerator<DeadLetter, void, void>;
  page(filter?: DeadLetterFilter, after?: string, options?: CallOptions): Promise<DeadLetterPage>;
  get(id: string, options?: CallOptions): Promise<DeadLetterDetail>;
  /** Runs the job again; undefined where nobody keeps it. Throws ALREADY_EXISTS where it has been completed since. */
  replay(id: string, replaced?: ReplayInput, options?: CallOptions): Promise<Job | undefined>;
  /** Forgets the letter; its job stays. Throws NOT_FOUND where there is none. */
  remove(id: string, options?: CallOptions): Promise<void>;
}

const PATH = '/nereid/v1/deadletters';

export function createDeadLetters(http: Http): DeadLetters {
  const page: DeadLetters['page'] = async (filter = {}, after = undefined, options = {}) => {
    const path = withQuery(PATH, { ...filter, after });
    const answer = objectOf(await http.json({ ...options, method: 'GET', path, repeatable: 'always' }), 'dead letters');
    const letters = Array.isArray(answer.deadletters) ? (answer.deadletters as readonly DeadLetter[]) : [];
    return typeof answer.next === 'string' ? { letters, next: answer.next } : { letters };
  };

  return {
    list: (filter = {}, options = {}) =>
      eachOf(async (after) => {
        const { letters, next } = await page(filter, after, options);
        return { found: letters, next };
      }),
    page,
    async get(id, options = {}) {
      return (await http.json({
        ...options,
        method: 'GET',
        path: letterPath(id),
        repeatable: 'always',
      })) as DeadLetterDetail;
    },
    async replay(id, replaced, options = {}) {
      const answer = await http.json({
        ...options,
        method: 'POST',
        path: `${letterPath(id)}/replay`,
        headers: { 'Content-Type': 'application/json' },
        body: await replayBody(replaced),
        repeatable: 'if refused',
      });
      return isObject(answer) && 'state' in answer ? jobOf(answer) : undefined;
    },
    async remove(id, options = {}) {
      await http.call({ ...options, method: 'DELETE', path: letterPath(id), repeatable: 'if refused' });
    },
  };
}

async function replayBody(replaced: ReplayInput | undefined): Promise<string | undefined> {
  if (replaced === undefined) return undefined;
  if ('data' in replaced) return jsonText({ data: replaced.data });
  return jsonText({ data: await jobData(replaced.input, replaced.options ?? {}, undefined) });
}

function letterPath(id: string): string {
  return `${PATH}/${idInPath(id)}`;
}
