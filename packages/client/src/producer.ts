import type { Blobs } from './blobs.ts';
import { NereidError } from './error.ts';
import type { InferResult } from './infer.ts';
import { type BlobPlace, type JobDataOptions, type JobInput, jobData, jobResult } from './job-data.ts';
import { createOutcomes, type QueueEventsLike, type QueueLike } from './job-outcomes.ts';
import { randomId } from './random-id.ts';

/** What BullMQ does with a job; its own names and meanings. */
export interface BullOptions {
  /** 1 is the highest; 0, the default, goes before all of these. */
  readonly priority?: number;
  /** Milliseconds until it may be taken. */
  readonly delay?: number;
  readonly attempts?: number;
  readonly backoff?:
    | number
    | { readonly type: 'fixed' | 'exponential'; readonly delay: number; readonly jitter?: number };
  /** How finished jobs are kept, by default for an hour. `true` removes one before its result can be read. */
  readonly removeOnComplete?: boolean | number | { readonly age?: number; readonly count?: number };
  readonly removeOnFail?: boolean | number | { readonly age?: number; readonly count?: number };
}

export interface ProduceOptions extends BullOptions, JobDataOptions {
  /** BullMQ's name of the job, which is free. */
  readonly name?: string;
  /** A second one of the same id adds nothing. A new one without it. */
  readonly jobId?: string;
}

export interface ProducedJob {
  readonly id: string;
  /**
   * The job's answer once it is there. Throws the job's error, NOT_FOUND where it was removed before its end was
   * seen, UNAVAILABLE with the reason `timeout` after `timeoutMs`.
   */
  result(options?: { readonly timeoutMs?: number }): Promise<InferResult>;
}

export interface ProducedSequence {
  readonly id: string;
  /** The next step; its number keeps the order, whatever becomes of that of the jobs. */
  add(input: Omit<JobInput, 'sequence'>, options?: ProduceOptions): Promise<ProducedJob>;
  /** The last step. */
  end(input: Omit<JobInput, 'sequence'>, options?: ProduceOptions): Promise<ProducedJob>;
}

export interface ProducerOptions {
  /** BullMQ's `Queue` of the model, `infer.<model>`. */
  readonly queue: QueueLike;
  /** BullMQ's `QueueEvents` of the same queue. */
  readonly events: QueueEventsLike;
  /** The client's blobs: large tensors then do not pass through Redis as text. */
  readonly blobs?: Pick<Blobs, 'put' | 'get'>;
  /** Inputs of more bytes in all go there: 16,384 by default. */
  readonly blobBytesMin?: number;
  /** How long an input is kept there for its job, in seconds. */
  readonly blobTtlS?: number;
}

/** Adds jobs for one model with the caller's own BullMQ, 5 or 6 (docs/producers.md). */
export interface Producer {
  add(input: JobInput, options?: ProduceOptions): Promise<ProducedJob>;
  /** A sequence under an id of its own, which must never have been used before. */
  sequence(id?: string): ProducedSequence;
  /** Lets go of the events; results that are waited for fail. Queue and events are left to the caller. */
  close(): void;
}

const KEPT = { age: 3_600 };
const BLOB_BYTES_MIN = 16_384;

export function createProducer({
  queue,
  events,
  blobs,
  blobBytesMin = BLOB_BYTES_MIN,
  blobTtlS,
}: ProducerOptions): Producer {
  const place: BlobPlace | undefined =
    blobs === undefined ? undefined : { blobs, bytesMin: blobBytesMin, ttlS: blobTtlS };
  const outcomes = createOutcomes(queue, events);

  const add = async (input: JobInput, options: ProduceOptions = {}): Promise<ProducedJob> => {
    const { name = 'infer', jobId: id = randomId(), priority, delay, attempts, backoff } = options;
    const data = await jobData(input, options, place);
    const { removeOnComplete = KEPT, removeOnFail = KEPT } = options;
    await events.waitUntilReady();
    // Listened for before it is added: a job may be over before the call that adds it returns.
    const outcome = outcomes.of(id);
    try {
      const opts = { jobId: id, priority, delay, attempts, backoff, removeOnComplete, removeOnFail };
      await queue.add(name, data, withoutUnset(opts));
      outcomes.added(id);
    } catch (thrown) {
      outcomes.forget(id);
      throw thrown;
    }
    return {
      id,
      async result({ timeoutMs = 0 } = {}) {
        return jobResult(await within(outcome, id, timeoutMs), blobs);
      },
    };
  };

  return {
    add,
    sequence(id = randomId()) {
      let next = 0;
      const step = (input: Omit<JobInput, 'sequence'>, options: ProduceOptions | undefined, end: boolean) => {
        const number = next++;
        return add({ ...input, sequence: { id, start: number === 0, end, step: number } }, options);
      };
      return {
        id,
        add: (input, options) => step(input, options, false),
        end: (input, options) => step(input, options, true),
      };
    },
    close: () => outcomes.close(),
  };
}

/** BullMQ takes an option that is there and undefined for a value in some places. */
function withoutUnset(options: object): object {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

async function within<T>(promise: Promise<T>, id: string, timeoutMs: number): Promise<T> {
  if (timeoutMs === 0) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new NereidError('UNAVAILABLE', `job '${id}' is not over after ${timeoutMs} ms`, {
      reason: 'timeout',
    });
    timer = setTimeout(() => reject(error), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
