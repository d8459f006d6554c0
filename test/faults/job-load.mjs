import { setTimeout as delay } from 'node:timers/promises';
import { ANSWER_LIMIT_MS, LOOK_FOR_DOOR_MS } from './load.mjs';
import { answerIn, isRight, LOAD_MODEL, requestOf, VALUE_MAX } from './load-model.mjs';

const WAIT_S = 5;
const PAUSE_MS = 100;
/** Apart from the values of other sources, so that no answer fits another's question. */
const FIRST_VALUE = 200_000_000;

/**
 * Clients that each submit one job after another over HTTP, and ask for its result at any gateway that listens, until
 * `stop`. Only accepted jobs (202) are written down: BullMQ's id, the value, and how it ended: `right`, `wrong`, or
 * `lost` where no gateway gave a result in time.
 */
export function startJobLoad({ doors, places, clients }) {
  const jobs = [];
  const refusals = [];
  let running = true;
  let sent = 0;
  const openDoor = (place) => doors(place) ?? doors((place + 1) % places);
  const run = async (place) => {
    while (running) {
      const door = openDoor(place);
      if (door === undefined) {
        await delay(LOOK_FOR_DOOR_MS);
        continue;
      }
      sent += 1;
      const value = (FIRST_VALUE + sent) % VALUE_MAX;
      const sentMs = performance.now();
      const submitted = await submit(door, value);
      if (submitted.url === undefined) {
        refusals.push({ place, sentMs, endedMs: performance.now(), ...submitted });
        await delay(PAUSE_MS);
        continue;
      }
      const end = await result(() => openDoor(place), submitted.url, value);
      jobs.push({ by: 'http', id: submitted.id, value, sentMs, endedMs: performance.now(), ...end });
    }
  };
  const done = Promise.all(Array.from({ length: clients }, (_, index) => run(index % places)));
  return {
    jobs,
    /** Submissions that were not accepted. */
    refusals,
    async stop() {
      running = false;
      await done;
    },
  };
}

async function submit(door, value) {
  try {
    const response = await fetch(`${door}/v2/models/${LOAD_MODEL}/jobs`, {
      method: 'POST',
      body: JSON.stringify(requestOf(value)),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    const text = await response.text();
    if (response.status === 503) return { outcome: 'refused', text, retryAfter: response.headers.get('retry-after') };
    if (response.status !== 202) return { outcome: 'wrong', text: `${response.status} ${text}` };
    const { id, result_url: url } = JSON.parse(text);
    return { id: id.slice(id.indexOf('~') + 1), url };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}

async function result(door, url, value) {
  let text = 'no gateway answered';
  for (const start = performance.now(); performance.now() - start < ANSWER_LIMIT_MS; ) {
    try {
      const response = await fetch(`${door()}${url}?wait=${WAIT_S}s`, { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
      text = `${response.status} ${await response.text()}`;
      if (response.status === 200) {
        const answer = answerIn(JSON.parse(text.slice(4)));
        return isRight(answer, value) ? { outcome: 'right', pid: answer.pid } : { outcome: 'wrong', text };
      }
      // Not ended yet, or nobody can say: anything else would be this job's end.
      if (response.status !== 202 && response.status !== 503) return { outcome: 'wrong', text };
    } catch (error) {
      text = error.cause?.message ?? error.message;
    }
    await delay(PAUSE_MS);
  }
  return { outcome: 'lost', text };
}
