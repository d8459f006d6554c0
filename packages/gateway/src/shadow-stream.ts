import type { StreamedAnswer } from '@nereid/caller';
import { CANCELLED, type Outcome } from '@nereid/protocol';

export interface ReadAnswers {
  readonly read: AsyncIterableIterator<StreamedAnswer>;
  /** The one answer, once it is read or nobody will. */
  readonly answered: Promise<Outcome>;
}

/** The answers as their reader has them, and the one that he had. */
export function readAnswers(answers: AsyncIterableIterator<StreamedAnswer>): ReadAnswers {
  let tell: (outcome: Outcome) => void = () => {};
  const answered = new Promise<Outcome>((resolve) => {
    tell = resolve;
  });
  const read: AsyncIterableIterator<StreamedAnswer> = {
    async next() {
      const step = await answers.next();
      tell(step.done === true ? LEFT : step.value.outcome);
      return step;
    },
    async return() {
      tell(LEFT);
      await answers.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  return { read, answered };
}

const LEFT: Outcome = { ok: false, error: CANCELLED };
