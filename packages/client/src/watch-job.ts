import type { Blobs } from './blobs.ts';
import { NereidError } from './error.ts';
import { type CallOptions, type Http, sleep } from './http.ts';
import type { InferResult } from './infer.ts';
import { jobPath } from './job.ts';
import { jobResult } from './job-data.ts';
import { isObject, parseJson } from './json.ts';
import { backOffMs, RETRY_DEFAULTS } from './retry.ts';
import { type ServerEvent, serverEvents } from './server-events.ts';

/** What happened to a job; `id` continues from there with `lastEventId`. */
export interface JobEvent {
  readonly id: string;
  /** `state`, `progress`, `output` (an answer of a decoupled model) or `end`. */
  readonly type: string;
  readonly data: unknown;
  /** The tensors of an `output`. */
  readonly outputs?: InferResult['outputs'];
}

const LAST = 'end';
/** The last event had been seen. */
const NOTHING_MORE = 204;

/**
 * The job's events until its end. Where the connection ends before, it begins again behind the last event that came;
 * as many times in a row without an event as a call is repeated, then it throws.
 */
export async function* watchJob(
  http: Http,
  blobs: Pick<Blobs, 'get'>,
  id: string,
  options: CallOptions & { readonly lastEventId?: string },
): AsyncGenerator<JobEvent, void, void> {
  const { signal, timeoutMs, retry } = options;
  const pauses = { ...RETRY_DEFAULTS, ...retry };
  let last = options.lastEventId ?? '';
  for (let broken = 0; ; broken++) {
    const { body, status } = await http.open({
      signal,
      timeoutMs,
      retry,
      method: 'GET',
      path: `${jobPath(id)}/events`,
      headers: { Accept: 'text/event-stream', ...(last === '' ? {} : { 'Last-Event-ID': last }) },
      repeatable: 'always',
    });
    if (status === NOTHING_MORE) return;
    let cause: unknown;
    try {
      for await (const event of serverEvents(body ?? new ReadableStream())) {
        broken = 0;
        if (event.id !== '') last = event.id;
        yield await jobEvent(event, blobs);
        if (event.type === LAST) return;
      }
    } catch (thrown) {
      if (signal?.aborted === true || thrown instanceof NereidError) throw thrown;
      cause = thrown;
    }
    if (broken >= pauses.attempts) {
      throw new NereidError('UNAVAILABLE', `the events of job '${id}' break off`, { reason: 'connection', cause });
    }
    await sleep(backOffMs(broken, pauses), signal);
  }
}

async function jobEvent({ id, type, data }: ServerEvent, blobs: Pick<Blobs, 'get'>): Promise<JobEvent> {
  const event = { id, type, data: parseJson(data) };
  const hasOutputs = type === 'output' && isObject(event.data) && Array.isArray(event.data.outputs);
  return hasOutputs ? { ...event, outputs: (await jobResult(event.data, blobs)).outputs } : event;
}
