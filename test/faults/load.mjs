import { setTimeout as delay } from 'node:timers/promises';
import { answerIn, isRight, LOAD_MODEL, requestOf, VALUE_MAX } from './load-model.mjs';

/** A client that waits for longer counts as left without an answer. */
export const ANSWER_LIMIT_MS = 60_000;
export const LOOK_FOR_DOOR_MS = 20;
const INT32_BYTES = 4;

/**
 * Clients that each send one request after another, in JSON and in binary by turns, spread over the doors, until
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
      const form = sent % 2 === 0 ? 'json' : 'binary';
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

const FORMS = {
  json: {
    init: (value) => ({ body: JSON.stringify(requestOf(value)) }),
    read: async (response) => answerIn(await response.json()),
  },
  binary: { init: binaryRequest, read: binaryAnswer },
};

/** How one request ended: `right`, `wrong`, `refused` (503) or `broken` (no answer); the worker's pid where right. */
async function ask(door, form, value) {
  const { init, read } = FORMS[form];
  try {
    const response = await fetch(`${door}/v2/models/${LOAD_MODEL}/infer`, {
      method: 'POST',
      ...init(value),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    if (response.status === 503) {
      return { outcome: 'refused', text: await response.text(), retryAfter: response.headers.get('retry-after') };
    }
    if (response.status !== 200) return { outcome: 'wrong', text: `${response.status} ${await response.text()}` };
    const answer = await read(response);
    return isRight(answer, value)
      ? { outcome: 'right', pid: answer.pid }
      : { outcome: 'wrong', text: `${value}: ${JSON.stringify(answer)}` };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}

function binaryRequest(value) {
  const header = Buffer.from(
    JSON.stringify({
      inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], parameters: { binary_data_size: INT32_BYTES } }],
      parameters: { binary_data_output: true },
    }),
  );
  const data = Buffer.alloc(INT32_BYTES);
  data.writeInt32LE(value);
  return { body: Buffer.concat([header, data]), headers: { 'Inference-Header-Content-Length': String(header.length) } };
}

async function binaryAnswer(response) {
  const body = Buffer.from(await response.arrayBuffer());
  const headerBytes = Number(response.headers.get('inference-header-content-length'));
  const { outputs } = JSON.parse(body.subarray(0, headerBytes).toString());
  let at = headerBytes;
  const values = outputs.map(({ name, parameters }) => {
    const value = body.readInt32LE(at);
    at += parameters.binary_data_size;
    return [name, value];
  });
  const { VALUE: value, PID: pid } = Object.fromEntries(values);
  return at === body.length ? { value, pid } : undefined;
}
