import { isLargeRight } from './load.mjs';
import { answerIn, isRight, LARGE_MODEL, LOAD_MODEL, numberIn } from './load-model.mjs';
import { SEQUENCE_MODEL } from './sequence-model.mjs';
import { isStepRight, stepAnswer } from './step-load.mjs';

// What jobs of each model keep: of their data, where that still says it, and as their result.

const MODELS = {
  [LOAD_MODEL]: {
    read: answerIn,
    isRight,
    value: (job) => numberIn(job.data.inputs[0]),
  },
  [LARGE_MODEL]: {
    read: largeAnswer,
    isRight: (answer, value) => answer?.value !== undefined && isLargeRight(answer.value, value),
    // Its inputs stood beside it and are gone: the rest of the result has to fit its first element.
    value: largeValue,
  },
  [SEQUENCE_MODEL]: { read: stepAnswer, isRight: isStepRight, value: () => undefined },
};

/** What a job's return value says, undefined where it is none: a value, and the process that gave it where the model tells it. */
export function answerOf(model, returned) {
  return MODELS[model].read(returned);
}

export function isAnswerRight(model, answer, value) {
  return MODELS[model].isRight(answer, value);
}

/** The value that a job of an unknown producer had, by its data or else by its result; undefined where neither says it. */
export function askedValue(model, job) {
  return MODELS[model].value(job);
}

function largeAnswer(returned) {
  const [tensor] = returned?.outputs ?? [];
  if (tensor === undefined) return undefined;
  if (tensor.data !== undefined) return { value: Int32Array.from(tensor.data) };
  const bytes = Uint8Array.from(Buffer.from(tensor.b64, 'base64'));
  return { value: new Int32Array(bytes.buffer) };
}

function largeValue(job) {
  const value = largeAnswer(job.returnvalue)?.value[0];
  return value === undefined ? undefined : value - 1;
}
