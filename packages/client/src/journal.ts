import { NereidError } from './error.ts';
import type { CallOptions, Http } from './http.ts';
import { idInPath } from './job.ts';
import { objectOf } from './json.ts';
import { eachOf, unlessStatus, withQuery } from './paths.ts';
import { type RecordedStep, type Recording, type RecordingState, recordedStepOf, recordingOf } from './recording.ts';
import {
  type Difference,
  type ReplayedStep,
  type ReplayOptions,
  type ReplayVerdict,
  replay,
  type Tolerance,
} from './replay.ts';

export interface RecordingFilter {
  readonly model?: string;
  readonly state?: RecordingState;
  readonly sequenceId?: number | bigint | string;
  /** Recordings that a page may have. */
  readonly limit?: number;
}

export interface RecordingPage {
  readonly recordings: readonly Recording[];
  /** Goes into `after` for the next page, which there is even where this one is empty; absent at the end. */
  readonly next?: string;
}

export interface StepsOptions extends CallOptions {
  /** 0 without it. */
  readonly from?: number;
  /** So many at most; all without it. */
  readonly limit?: number;
  /** With the data of their tensors, where they are kept. */
  readonly data?: boolean;
}

/** One that is a stream can be sent once. */
export type RecordingFile = Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array>;

export interface Comparison {
  readonly result: 'equal' | 'differs';
  /** Steps that were compared. */
  readonly compared: number;
  readonly first_difference?: Difference;
}

/**
 * What is recorded of sequences and single requests (docs/replay.md). Admin calls: the client's `headers` have
 * `Nereid-Admin-Key` where the server asks for it.
 */
export interface Journal {
  /** All recordings that the filter lets through, of each model the newest first, page by page. */
  list(filter?: RecordingFilter, options?: CallOptions): AsyncGenerator<Recording, void, void>;
  page(filter?: RecordingFilter, after?: string, options?: CallOptions): Promise<RecordingPage>;
  get(id: string, options?: CallOptions): Promise<Recording>;
  /** The steps of a recording, page by page. */
  steps(id: string, options?: StepsOptions): AsyncGenerator<RecordedStep, void, void>;
  /** Forgets a recording; nothing where it is not there. */
  remove(id: string, options?: CallOptions): Promise<void>;
  /**
   * Runs a recording again: each compared step when it has run; what it returns at its end is the verdict. Throws
   * where it could not be run to its end. Leaving it ends the run; `timeoutMs` bounds its beginning.
   */
  replay(id: string, options?: ReplayOptions): AsyncGenerator<ReplayedStep, ReplayVerdict, void>;
  /** The recording as a file (`.nrj`), to be read as it comes; `timeoutMs` bounds its beginning. */
  export(id: string, options?: CallOptions & { readonly gzip?: boolean }): Promise<ReadableStream<Uint8Array>>;
  /** The recording that a file becomes, under an id of its own. */
  import(file: RecordingFile, options?: CallOptions): Promise<Recording>;
  /** Whether two recordings have the same answers. */
  diff(one: string, other: string, options?: CallOptions & Tolerance): Promise<Comparison>;
}

const PATH = '/nereid/v1/journal';
const NOT_THERE = 404;

export function createJournal(http: Http): Journal {
  const read = (path: string, options: CallOptions) =>
    http.json({ ...options, method: 'GET', path, repeatable: 'always' });
  const page: Journal['page'] = async (filter = {}, after = undefined, options = {}) => {
    const { sequenceId, ...rest } = filter;
    const path = withQuery(PATH, { ...rest, sequence_id: sequenceId, after });
    const answer = objectOf(await read(path, options), 'page of recordings');
    const recordings = Array.isArray(answer.recordings) ? answer.recordings.map(recordingOf) : [];
    return typeof answer.next === 'string' ? { recordings, next: answer.next } : { recordings };
  };

  return {
    list: (filter = {}, options = {}) =>
      eachOf(async (after) => {
        const { recordings, next } = await page(filter, after, options);
        return { found: recordings, next };
      }),
    page,
    async get(id, options = {}) {
      const path = withQuery(recordingPath(id), { limit: 1 });
      return recordingOf(objectOf(await read(path, options), 'recording').recording);
    },
    steps: (id, options = {}) => steps((path, call) => read(path, call), id, options),
    async remove(id, options = {}) {
      // Perhaps by the first of two attempts.
      const call = { ...options, method: 'DELETE', path: recordingPath(id), repeatable: 'always' } as const;
      await unlessStatus(NOT_THERE, http.call(call));
    },
    replay: (id, options = {}) => replay(http, `${recordingPath(id)}/replay`, options),
    async export(id, { gzip, ...options } = {}) {
      const path = withQuery(`${recordingPath(id)}/export`, { gzip });
      const { body } = await http.open({ ...options, method: 'GET', path, repeatable: 'always' });
      if (body !== null) return body;
      throw new NereidError('INTERNAL', "the server's answer has no file");
    },
    async import(file, options = {}) {
      const answer = await http.json({
        ...options,
        method: 'POST',
        path: PATH,
        headers: { 'Content-Type': 'application/octet-stream' },
        body: file,
        // One whose answer is lost would be another recording.
        repeatable: file instanceof ReadableStream ? 'never' : 'if refused',
      });
      return recordingOf(answer);
    },
    async diff(one, other, { atol, rtol, ...options } = {}) {
      const path = withQuery(`${recordingPath(one)}/diff`, { with: other, atol, rtol });
      return objectOf(await read(path, options), 'comparison') as unknown as Comparison;
    },
  };
}

async function* steps(
  read: (path: string, options: CallOptions) => Promise<unknown>,
  id: string,
  { from = 0, limit = Number.POSITIVE_INFINITY, data, ...options }: StepsOptions,
): AsyncGenerator<RecordedStep, void, void> {
  let next: unknown = from;
  for (let left = limit; left > 0 && typeof next === 'number'; ) {
    const path = withQuery(recordingPath(id), { from: next, limit: Math.min(left, STEPS_PAGE), data });
    const answer = objectOf(await read(path, options), 'recording');
    const found = Array.isArray(answer.steps) ? answer.steps.map(recordedStepOf) : [];
    left -= found.length;
    next = answer.next;
    yield* found;
  }
}

/** Of one question. */
const STEPS_PAGE = 1_000;

function recordingPath(id: string): string {
  return `${PATH}/${idInPath(id)}`;
}
