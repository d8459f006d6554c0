import type { LeaveSignal, StreamedAnswer } from '@nereid/caller';
import type { InferRequest, Outcome } from '@nereid/protocol';
import type { ModelCaller } from './carrier-calls.ts';
import { int32 } from './worker-harness.ts';

const CANCELLED: Outcome = { ok: false, error: { code: 'CANCELLED', message: 'left' } };

/** An answer of one INT32 tensor Y. */
export function answerWith(values: readonly number[]): Outcome {
  const outputs = [int32('Y', [values.length], values)];
  return { ok: true, response: { modelName: 'called', modelVersion: '1', id: '', parameters: {}, outputs } };
}

/** A request to it, on its way until it is answered or cancelled. */
export interface FixtureCall {
  readonly request: InferRequest;
  answer(outcome: Outcome): void;
  readonly cancelled: boolean;
}

/** For tests: who calls; models named `stream…` are decoupled, and answer so many times 1 at once: `stream3`. */
export function fixtureCaller() {
  const calls: FixtureCall[] = [];
  let streams = 0;
  let waiters: (() => void)[] = [];

  const infer = (request: InferRequest, signal?: LeaveSignal) =>
    new Promise<Outcome>((resolve) => {
      calls.push({
        request,
        answer: resolve,
        get cancelled() {
          return signal?.aborted === true;
        },
      });
      signal?.addEventListener('abort', () => resolve(CANCELLED));
      const woken = waiters;
      waiters = [];
      for (const wake of woken) wake();
    });

  async function* inferStream(
    { modelName }: InferRequest,
    { signal }: { readonly signal?: LeaveSignal } = {},
  ): AsyncGenerator<StreamedAnswer, undefined> {
    streams++;
    try {
      const count = Number(modelName.slice('stream'.length));
      for (let i = 0; i < count; i++) {
        if (signal?.aborted === true) {
          yield { outcome: CANCELLED, last: true };
          return undefined;
        }
        yield { outcome: answerWith([1]), last: i === count - 1 };
      }
      return undefined;
    } finally {
      streams--;
    }
  }

  const caller = {
    models: { find: (name: string) => ({ ok: true, signature: { decoupled: name.startsWith('stream') } }) },
    infer: (request: InferRequest, options?: { signal?: LeaveSignal }) => infer(request, options?.signal),
    inferStream,
  } as unknown as ModelCaller;
  return {
    caller: () => caller,
    calls,
    /** Streams that are read. */
    get streams() {
      return streams;
    },
    /** Once so many calls have come in all. */
    async came(count: number): Promise<void> {
      while (calls.length < count) await new Promise<void>((resolve) => waiters.push(resolve));
    },
  };
}
