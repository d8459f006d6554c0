import type { StreamedAnswer } from '@nereid/caller';
import { type ErrorInfo, type InferResult, inferResult, NereidError } from '@nereid/protocol';

export function thrownError({ code, message, ...detail }: ErrorInfo): NereidError {
  return new NereidError(code, message, detail);
}

/**
 * A stream's answers with plain values; an end that comes alone is none. Throws at the first that is
 * an error, and leaves the stream.
 */
export function results(answers: AsyncIterableIterator<StreamedAnswer>): AsyncIterableIterator<InferResult> {
  const leave = async (): Promise<IteratorReturnResult<undefined>> => {
    await answers.return?.();
    return { done: true, value: undefined };
  };
  return {
    async next() {
      const step = await answers.next();
      if (step.done === true) return { done: true, value: undefined };
      const { outcome, last } = step.value;
      if (!outcome.ok) {
        await leave();
        throw thrownError(outcome.error);
      }
      if (last && outcome.response.outputs.length === 0) return leave();
      return { done: false, value: inferResult(outcome.response) };
    },
    return: leave,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
