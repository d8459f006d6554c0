import { setTimeout as delay } from 'node:timers/promises';

/** Twice that and one is an INT32. */
const VALUE_MAX = 1_000_000_000;
/** A client that waits for longer counts as left without an answer. */
const ANSWER_LIMIT_MS = 60_000;
const LOOK_FOR_DOOR_MS = 20;

/** The model that the load asks: twice the value and one, and which process computed it. */
export const LOAD_MODEL = 'twice_and_one';
export const LOAD_MODEL_SOURCE = `
import { setTimeout } from 'node:timers/promises';
export async function execute(requests) {
  await setTimeout(5);
  return requests.map((request) => {
    const [value] = request.inputs.get('VALUE').data;
    const one = (number) => ({ datatype: 'INT32', shape: [1, 1], data: new Int32Array([number]) });
    return { outputs: { VALUE: one(value * 2 + 1), PID: one(process.pid) } };
  });
}
`;
export const LOAD_MODEL_CONFIG = `name: "${LOAD_MODEL}"
backend: "javascript"
max_batch_size: 4
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] }, { name: "PID", data_type: TYPE_INT32, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
dynamic_batching { }
`;

/**
 * Clients that each send one request after another, spread over the doors, until `stop`. `doors` gives base addresses
 * by place; undefined while nobody listens there, and its clients wait. Each request is written down once it has ended;
 * `oldestSentMs` is when the oldest of those that have not was sent.
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
      const request = { place, sentMs: performance.now() };
      waiting.add(request);
      const end = await ask(door, sent % VALUE_MAX);
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

/** How one request ended: `right`, `wrong`, `refused` (503) or `broken` (no answer); the worker's pid where right. */
async function ask(door, value) {
  try {
    const response = await fetch(`${door}/v2/models/${LOAD_MODEL}/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }] }),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    const text = await response.text();
    if (response.status === 503) return { outcome: 'refused', text };
    if (response.status !== 200) return { outcome: 'wrong', text: `${response.status} ${text}` };
    const outputs = new Map(JSON.parse(text).outputs.map(({ name, data }) => [name, data]));
    const isRight = outputs.get('VALUE')?.[0] === value * 2 + 1;
    return isRight
      ? { outcome: 'right', pid: outputs.get('PID')?.[0] }
      : { outcome: 'wrong', text: `${value}: ${text}` };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}
