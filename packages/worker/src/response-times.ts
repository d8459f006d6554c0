import {
  type AnswerTimes,
  type OtherResponse,
  type OtherResponseKind,
  RESPONSES_COUNTED_MAX,
  type ResponseTimes,
} from '@nereid/protocol';

const NO_ANSWERS: AnswerTimes = { count: 0, inferNs: 0, outputNs: 0 };

/** Adds up how long the answers of a batch's streams took; the first ones of each, as many as are counted. */
export interface ResponseClock {
  /** When the model was given the batch. */
  readonly startNs: number;
  /** An answer with outputs, at that position of its stream. */
  answered(index: number, inferNs: number, outputNs: number): void;
  /** Something else in its place. */
  other(index: number, how: OtherResponseKind, ns: number): void;
  times(): ResponseTimes;
}

export function createResponseClock(startNs: number): ResponseClock {
  const answers: { -readonly [K in keyof AnswerTimes]: number }[] = [];
  const others: OtherResponse[] = [];
  return {
    startNs,
    answered(index, inferNs, outputNs) {
      if (index >= RESPONSES_COUNTED_MAX) return;
      // A stream may have had something else at a position at which no other has an answer yet.
      while (answers.length <= index) answers.push({ count: 0, inferNs: 0, outputNs: 0 });
      const at = answers[index];
      if (at === undefined) return;
      at.count++;
      at.inferNs += inferNs;
      at.outputNs += outputNs;
    },
    other(index, how, ns) {
      if (index < RESPONSES_COUNTED_MAX) others.push({ index, how, ns });
    },
    times: () => ({ answers, others }),
  };
}

/** Those of two runs of requests of one batch. */
export function sumResponseTimes(a: ResponseTimes | undefined, b: ResponseTimes): ResponseTimes {
  if (a === undefined) return b;
  const answers: AnswerTimes[] = [];
  for (let index = 0; index < Math.max(a.answers.length, b.answers.length); index++) {
    const one = a.answers[index] ?? NO_ANSWERS;
    const other = b.answers[index] ?? NO_ANSWERS;
    answers.push({
      count: one.count + other.count,
      inferNs: one.inferNs + other.inferNs,
      outputNs: one.outputNs + other.outputNs,
    });
  }
  return { answers, others: [...a.others, ...b.others] };
}
