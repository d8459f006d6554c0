import { setTimeout as delay } from 'node:timers/promises';
import { asBinary, asJson, HEADER_LENGTH, readTensors } from '../v2-tensors.mjs';
import {
  answerIn,
  isRight,
  LARGE_ELEMENTS,
  LARGE_MODEL,
  LARGE_PIPELINE_MODEL,
  LOAD_MODEL,
  PIPELINE_MODEL,
  requestOf,
  VALUE_MAX,
} from './load-model.mjs';

/** A client that waits for longer counts as left without an answer. */
export const ANSWER_LIMIT_MS = 60_000;
export const LOOK_FOR_DOOR_MS = 20;
/** One request of so many is of a tensor that travels beside its message. */
const LARGE_EVERY = 10;
/** One of so many, of each size, goes through an ensemble. */
const PIPELINE_EVERY = 3;
/** Of a wrong answer so much is told. */
const TEXT_MAX = 200;

/**
 * Clients that each send one request after another, in JSON and in binary by turns and some with a large
 * tensor, spread over the doors, until
 * `stop`. `doors` gives base addresses by place; undefined while nobody listens there, and its clients wait. Each
 * request is written down once it has ended; `oldestSentMs` is when the oldest of those that have not was sent.
 */
export function startLoad({ doors, places, clients }) {
  const requests = [];
  const waiting = new Set();
  let running = true;
  let sent = 0;
  const run = async (place) => {
    while (running) {
      const door = doors(place);
      if (door === undefined) {
        await delay(LOOK_FOR_DOOR_MS);
        continue;
      }
      sent += 1;
      const form = formOf(sent);
      const request = { place, form, sentMs: performance.now() };
      waiting.add(request);
      const end = await ask(door, form, sent % VALUE_MAX);
      waiting.delete(request);
      requests.push({ ...request, endedMs: performance.now(), ...end });
    }
  };
  const done = Promise.all(Array.from({ length: clients }, (_, index) => run(index % places)));
  return {
    requests,
    oldestSentMs: () => Math.min(...[...waiting].map(({ sentMs }) => sentMs)),
    async stop() {
      running = false;
      await done;
      return requests;
    },
  };
}

/** Ways to ask, for requests and jobs alike: the model, the request of a value, and what is read of the answer. */
export const FORMS = {
  json: {
    model: LOAD_MODEL,
    init: (value) => ({ body: JSON.stringify(requestOf(value)) }),
    read: async (response) => answerIn(await response.json()),
    isRight,
  },
  binary: {
    model: LOAD_MODEL,
    init: (value) => asBinary([int32('VALUE', [1, 1], Int32Array.of(value))]),
    read: async (response) => {
      const outputs = await binaryOutputs(response);
      return { value: outputs.get('VALUE')[0], pid: outputs.get('PID')[0] };
    },
    isRight,
  },
  large: {
    model: LARGE_MODEL,
    init: (value) => asBinary([int32('LARGE', [LARGE_ELEMENTS], largeTensor(value))]),
    read: async (response) => (await binaryOutputs(response)).get('LARGE'),
    isRight: (answer, value) => isLargeRight(answer, value),
  },
  largeJson: {
    model: LARGE_MODEL,
    init: (value) => asJson([int32('LARGE', [LARGE_ELEMENTS], largeTensor(value))]),
    read: async (response) => Int32Array.from((await response.json()).outputs[0].data),
    isRight: (answer, value) => isLargeRight(answer, value),
  },
  pipeline: {
    model: PIPELINE_MODEL,
    init: (value) => asBinary([int32('GIVEN', [1, 1], Int32Array.of(value))]),
    read: async (response) => (await binaryOutputs(response)).get('VALUE')[0],
    isRight: (answer, value) => answer === 4 * value + 3,
  },
  largePipeline: {
    model: LARGE_PIPELINE_MODEL,
    init: (value) => asBinary([int32('GIVEN', [LARGE_ELEMENTS], largeTensor(value))]),
    read: async (response) => (await binaryOutputs(response)).get('LARGE'),
    isRight: (answer, value) => Buffer.from(answer.buffer).equals(Buffer.from(largeTensor(value + 2).buffer)),
  },
};

/** By turns; a large one is more work than many others. */
function formOf(index) {
  if (index % LARGE_EVERY === 0) return index % (LARGE_EVERY * PIPELINE_EVERY) === 0 ? 'largePipeline' : 'large';
  if (index % PIPELINE_EVERY === 0) return 'pipeline';
  return index % 2 === 0 ? 'json' : 'binary';
}

/** How one request ended: `right`, `wrong`, `refused` (503) or `broken` (no answer); the worker's pid where it says so. */
async function ask(door, form, value) {
  const { model, init, read, isRight: isAnswer } = FORMS[form];
  try {
    const response = await fetch(`${door}/v2/models/${model}/infer`, {
      method: 'POST',
      ...init(value),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    if (response.status === 503) {
      return { outcome: 'refused', text: await response.text(), retryAfter: response.headers.get('retry-after') };
    }
    if (response.status !== 200) return { outcome: 'wrong', text: `${response.status} ${await response.text()}` };
    const answer = await read(response);
    return isAnswer(answer, value)
      ? { outcome: 'right', pid: answer.pid }
      : { outcome: 'wrong', text: `${form}, ${value}: ${JSON.stringify(answer).slice(0, TEXT_MAX)}` };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}

/** Each element plus one. */
export function isLargeRight(answer, value) {
  return Buffer.from(answer.buffer).equals(Buffer.from(largeTensor(value + 1).buffer));
}

function largeTensor(value) {
  return Int32Array.from({ length: LARGE_ELEMENTS }, (_, index) => value + index);
}

const int32 = (name, shape, values) => ({ name, datatype: 'INT32', shape, values });

/** Each output's elements, by name. */
async function binaryOutputs(response) {
  return readTensors(Buffer.from(await response.arrayBuffer()), response.headers.get(HEADER_LENGTH));
}
