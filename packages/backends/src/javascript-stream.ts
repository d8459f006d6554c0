/** Streams of responses that a JavaScript model returned, in the one internal form. */
import { type ErrorInfo, errorInfo, NereidError, thrownText } from '@nereid/protocol';
import type { RequestOutcome } from './backend.ts';
import { modelError } from './javascript-response.ts';

/** What a model gives in place of one response. */
export function isResponseStream(returned: unknown): returned is AsyncIterable<unknown> {
  try {
    return typeof returned === 'object' && returned !== null && Symbol.asyncIterator in returned;
  } catch {
    // A proxy may throw anything here; as a response it is refused with that.
    return false;
  }
}

/**
 * The stream's responses as outcomes. An Error that it yields is one of them, and others may follow;
 * one that it throws ends it, with that Error's code. Its `return` is the model's.
 */
export function outcomeStream(
  stream: AsyncIterable<unknown>,
  outcome: (returned: unknown) => RequestOutcome,
): AsyncIterable<RequestOutcome> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = stream[Symbol.asyncIterator]();
      return {
        async next() {
          const step = await nextOf(iterator);
          return step.done ? { done: true, value: undefined } : { done: false, value: outcome(step.value) };
        },
        async return() {
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

async function nextOf(iterator: AsyncIterator<unknown>): Promise<IteratorResult<unknown>> {
  try {
    return await iterator.next();
  } catch (cause) {
    const { code, message } = modelError(cause instanceof Error ? cause : new Error(thrownText(cause)));
    throw new NereidError(code, message, { cause });
  }
}

/** Triton's texts for a model that is not decoupled (python_backend, response_sender.cc). */
const TWO: ErrorInfo = {
  code: 'INTERNAL',
  message: 'Unable to send response. Non-decoupled model cannot send more than one response.',
};
const NONE: ErrorInfo = {
  code: 'INTERNAL',
  message: 'Unable to send response. Non-decoupled model cannot send complete final before sending a response.',
};

/** The one response of a stream whose model is not decoupled. Never throws. */
export async function onlyOutcome(stream: AsyncIterable<RequestOutcome>): Promise<RequestOutcome> {
  let only: RequestOutcome | undefined;
  try {
    for await (const outcome of stream) {
      if (only !== undefined) return { ok: false, error: TWO };
      only = outcome;
    }
  } catch (failure) {
    const { code, message } = errorInfo(failure);
    return { ok: false, error: { code, message } };
  }
  return only ?? { ok: false, error: NONE };
}
