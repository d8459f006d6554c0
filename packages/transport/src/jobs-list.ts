import { Job, type Queue } from 'bullmq';
import type { JobListing, JobListPlace, JobListQuery, JobState, StoredJob } from './jobs.ts';
import { optionsOf, storedJob } from './jobs-stored.ts';
import type { RedisClient } from './redis-connection.ts';

/** BullMQ's set of jobs, what its jobs are for us, and how it is walked: lists by place, sorted sets by score. */
interface JobSet {
  readonly name: string;
  readonly state: JobState;
  readonly kind: 'list' | 'rising' | 'falling';
}

/**
 * In the order in which a job goes through them, so that one which goes on while its queue is walked is seen twice
 * rather than not at all. What waits is told in the order in which it is taken, what is over by its end, the last first.
 */
const SETS: readonly JobSet[] = [
  { name: 'waiting-children', state: 'waiting', kind: 'rising' },
  { name: 'delayed', state: 'delayed', kind: 'rising' },
  { name: 'prioritized', state: 'waiting', kind: 'rising' },
  // The newest first: those that are taken meanwhile then move no others.
  { name: 'wait', state: 'waiting', kind: 'list' },
  { name: 'paused', state: 'waiting', kind: 'list' },
  { name: 'active', state: 'running', kind: 'list' },
  { name: 'completed', state: 'completed', kind: 'falling' },
  { name: 'failed', state: 'failed', kind: 'falling' },
];

/** What is read of a job: not its result, nor its stack. */
const FIELDS = ['data', 'opts', 'timestamp', 'delay', 'processedOn', 'finishedOn', 'atm', 'failedReason'] as const;

/** Jobs read at a time. */
const CHUNK = 64;
/** Jobs of one page that are looked at, whether or not they match; also a bound of the data read. */
const LOOKED_AT_MAX = 1_024;
const READ_CHARACTERS_MAX = 4_194_304;
/** Data read at a time: a producer's may be of any length. */
const AT_ONCE_CHARACTERS_MAX = 1_048_576;
/** Queues that are asked at a time whether they hold any. */
const QUEUES_AT_ONCE = 32;

interface Page {
  readonly jobs: StoredJob[];
  lookedAt: number;
  characters: number;
}

export interface JobListParts {
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly client: () => RedisClient;
  readonly opened: (model: string) => Queue;
}

/** Walks the sets of the queues, see JobQueues. */
export function createJobList(parts: JobListParts): (query: JobListQuery) => Promise<JobListing> {
  const { ask, client, opened } = parts;

  const isEmpty = async (queue: Queue, { name, kind }: JobSet) =>
    (await (kind === 'list' ? client().llen(queue.toKey(name)) : client().zcard(queue.toKey(name)))) === 0;

  /** The sets of a model's queue that hold jobs, from a place on. */
  const filledSets = async (model: string, { states, after }: JobListQuery): Promise<readonly JobSet[]> => {
    const from = after?.model === model ? SETS.findIndex(({ name }) => name === after.set) : 0;
    const sets = SETS.filter(({ state }, index) => index >= from && states.has(state));
    const queue = opened(model);
    const empty = await Promise.all(sets.map((set) => isEmpty(queue, set)));
    return sets.filter((_, index) => empty[index] === false);
  };

  /** The next ids of a set behind a place in it, each with the place behind it. */
  const idsBehind = async (queue: Queue, { name, kind }: JobSet, place: JobListPlace, count: number) => {
    const key = queue.toKey(name);
    const { score, skip } = place;
    if (kind === 'list') {
      const ids = await client().lrange(key, skip, skip + count - 1);
      return ids.map((id, index) => ({ id, place: { ...place, skip: skip + index + 1 } }));
    }
    const rows =
      kind === 'rising'
        ? await client().zrange(key, score ?? '-inf', '+inf', 'BYSCORE', 'LIMIT', skip, count, 'WITHSCORES')
        : await client().zrange(key, score ?? '+inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', skip, count, 'WITHSCORES');
    return placesByScore(rows.map(String), place);
  };

  const lengthsOf = (queue: Queue, ids: readonly string[]) =>
    Promise.all(ids.map((id) => client().hstrlen(queue.toKey(id), 'data')));

  const readJobs = (model: string, queue: Queue, state: JobState, ids: readonly string[]) =>
    Promise.all(
      ids.map(async (id) => jobOf(model, queue, id, state, await client().hmget(queue.toKey(id), ...FIELDS))),
    );

  /** Adds a set's jobs to the page; where it ended with that, undefined once the set has no more. */
  const walk = async (model: string, set: JobSet, query: JobListQuery, page: Page) => {
    const { after, matches, limit } = query;
    const queue = opened(model);
    const isGoingOn = after?.model === model && after.set === set.name;
    let place: JobListPlace = isGoingOn ? after : { model, set: set.name, score: undefined, skip: 0 };
    for (;;) {
      const from = place;
      const found = await ask(() => idsBehind(queue, set, from, CHUNK));
      const ids = found.map(({ id }) => id);
      const lengths = await ask(() => lengthsOf(queue, ids));
      for (let at = 0; at < found.length; ) {
        const count = readable(lengths, at);
        const jobs = await ask(() => readJobs(model, queue, set.state, ids.slice(at, at + count)));
        for (const job of jobs) {
          place = found[at]?.place ?? place;
          page.lookedAt++;
          page.characters += lengths[at] ?? 0;
          at++;
          if (job !== undefined && matches(job)) page.jobs.push(job);
          const isLooked = page.lookedAt >= LOOKED_AT_MAX || page.characters >= READ_CHARACTERS_MAX;
          if (isLooked || page.jobs.length >= limit) return place;
        }
      }
      if (found.length < CHUNK) return undefined;
    }
  };

  return async (query) => {
    const { models, after } = query;
    const page: Page = { jobs: [], lookedAt: 0, characters: 0 };
    const left = models.filter((model) => after === undefined || model >= after.model);
    for (let first = 0; first < left.length; first += QUEUES_AT_ONCE) {
      const some = left.slice(first, first + QUEUES_AT_ONCE);
      const filled = await ask(() => Promise.all(some.map((model) => filledSets(model, query))));
      for (const [index, model] of some.entries()) {
        for (const set of filled[index] ?? []) {
          const next = await walk(model, set, query, page);
          if (next !== undefined) return { jobs: page.jobs, next };
        }
      }
    }
    return { jobs: page.jobs, next: undefined };
  };
}

/** How many jobs from there on may be read at a time: one at least, however long its data are. */
function readable(lengths: readonly number[], from: number): number {
  let sum = 0;
  let count = 0;
  for (const length of lengths.slice(from)) {
    sum += length;
    if (count > 0 && sum > AT_ONCE_CHARACTERS_MAX) break;
    count++;
  }
  return count;
}

/** Rows are members with their scores; several may have one score. */
function placesByScore(rows: readonly string[], from: JobListPlace) {
  const found: { readonly id: string; readonly place: JobListPlace }[] = [];
  let { score, skip } = from;
  for (let at = 0; at + 1 < rows.length; at += 2) {
    const [id = '', its = ''] = [rows[at], rows[at + 1]];
    skip = its === score ? skip + 1 : 1;
    score = its;
    found.push({ id, place: { ...from, score, skip } });
  }
  return found;
}

/** Undefined where it is gone, or is none: BullMQ's older versions keep a marker in their lists. */
function jobOf(
  model: string,
  queue: Queue,
  id: string,
  state: JobState,
  values: readonly (string | null)[],
): StoredJob | undefined {
  const [data, opts, timestamp, delay, processedOn, finishedOn, attemptsMade, failedReason] = values;
  if (typeof data !== 'string') return undefined;
  const number = (text: string | null | undefined) => (text ? Number(text) : undefined);
  const job = Job.fromJSON(
    queue,
    {
      ...{ id, name: '', data: isJson(data) ? data : 'null', progress: 0, returnvalue: 'null', stacktrace: '' },
      opts: optionsOf(opts ?? null),
      timestamp: number(timestamp) ?? 0,
      delay: number(delay) ?? 0,
      attemptsMade: number(attemptsMade) ?? 0,
      ...(processedOn ? { processedOn: Number(processedOn) } : {}),
      ...(finishedOn ? { finishedOn: Number(finishedOn) } : {}),
      failedReason: failedReason ?? '',
    } as Parameters<typeof Job.fromJSON>[1],
    id,
  );
  return storedJob(model, id, state, job);
}

/** A producer may have written anything, which spoils the list for nobody. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
