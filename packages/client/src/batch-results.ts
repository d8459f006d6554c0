/** Results of a batch as they come, line by line. */
import { answerFailure, NereidError } from './error.ts';
import { type CallOptions, type Http, sleep } from './http.ts';
import type { InferResult } from './infer.ts';
import { jobResult } from './job-data.ts';
import { isObject, objectOf, parseJson } from './json.ts';
import { withQuery } from './paths.ts';
import { backOffMs, RETRY_DEFAULTS } from './retry.ts';
import { textLines } from './text-lines.ts';

/** What became of a line. */
export interface BatchResult {
  /** Counted from 0. */
  readonly line: number;
  readonly customId?: string;
  /** One, or all those of a decoupled model; none where there is an error. */
  readonly answers: readonly InferResult[];
  readonly error?: NereidError;
}

export interface ResultsOptions extends CallOptions {
  /** Such results alone. */
  readonly status?: 'completed' | 'failed';
  /** Those of lines behind this one. */
  readonly after?: number;
  /** So many at most. */
  readonly limit?: number;
}

/** Where the connection ends before, it goes on behind the last line that came. */
export async function* batchResults(
  http: Http,
  path: string,
  options: ResultsOptions,
): AsyncGenerator<BatchResult, void, void> {
  const { signal, timeoutMs, retry, status } = options;
  const pauses = { ...RETRY_DEFAULTS, ...retry };
  let { after, limit } = options;
  for (let broken = 0; ; broken++) {
    const asked = withQuery(path, { status, after, limit });
    const { body } = await http.open({ signal, timeoutMs, retry, method: 'GET', path: asked, repeatable: 'always' });
    let cause: unknown;
    try {
      for await (const text of textLines(body ?? new ReadableStream())) {
        const result = await batchResult(text);
        broken = 0;
        after = result.line;
        if (limit !== undefined) limit--;
        yield result;
      }
      return;
    } catch (thrown) {
      if (signal?.aborted === true || thrown instanceof NereidError) throw thrown;
      cause = thrown;
    }
    if (limit === 0) return;
    if (broken >= pauses.attempts) {
      throw new NereidError('UNAVAILABLE', `the results of ${path} break off`, { reason: 'connection', cause });
    }
    await sleep(backOffMs(broken, pauses), signal);
  }
}

async function batchResult(text: string): Promise<BatchResult> {
  const { line, custom_id: customId, response, error } = objectOf(parseJson(text), 'result');
  const named = { line: Number(line), ...(typeof customId === 'string' ? { customId } : {}) };
  if (isObject(error)) return { ...named, answers: [], error: answerFailure(error) };
  const { body, bodies = [body] } = objectOf(response, 'result');
  const values = Array.isArray(bodies) ? bodies : [];
  return { ...named, answers: await Promise.all(values.map((value) => jobResult(value, undefined))) };
}
