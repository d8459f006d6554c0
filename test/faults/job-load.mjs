import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ANSWER_LIMIT_MS, FORMS, LOOK_FOR_DOOR_MS } from './load.mjs';
import { VALUE_MAX } from './load-model.mjs';

const WAIT_S = 5;
const PAUSE_MS = 100;
/** Apart from the values of other sources, so that no answer fits another's question. */
const FIRST_VALUE = 200_000_000;
/** So many submissions in a row have each their form; the first half of them has a key. */
const TURN = ['json', 'binary', 'large', 'json', 'binary', 'json', 'binary', 'largeJson'];
/** Of the submissions with a key so many are left by their client, which sends them again meanwhile. */
const LEFT_SHARE = 1 / 4;
const LEFT_MS = 200;
/** Of a wrong answer so much is told. */
const TEXT_MAX = 200;

/**
 * Clients that each submit one job after another over HTTP, and ask for its result at any gateway that listens, until
 * `stop`: in JSON and binary by turns, some with tensors that stand beside the job. Half of them have an
 * `Idempotency-Key`: where the connection breaks, or their client leaves it, they are sent again by it, to the other
 * gateway. Only accepted jobs (202, 200 of one that is sent again) are written down: BullMQ's id, the value, and how it ended:
 * `right`, `wrong`, or `lost` where no gateway gave a result in time.
 */
export function startJobLoad({ doors, places, clients }) {
  const jobs = [];
  const refusals = [];
  let running = true;
  let sent = 0;
  const openDoor = (place) => doors(place) ?? doors((place + 1) % places);
  const run = async (place) => {
    while (running) {
      sent += 1;
      const form = TURN[sent % TURN.length];
      const value = (FIRST_VALUE + sent) % VALUE_MAX;
      const sentMs = performance.now();
      const submitted =
        sent % (2 * TURN.length) < TURN.length
          ? await submitByKey(form, value, Math.random() < LEFT_SHARE, (turn) => openDoor((place + turn) % places))
          : await submit(await listening(() => openDoor(place)), form, value);
      if (submitted.url === undefined) {
        refusals.push({ place, sentMs, endedMs: performance.now(), ...submitted });
        await delay(PAUSE_MS);
        continue;
      }
      const end = await result(() => openDoor(place), submitted.url, form, value);
      const { id } = submitted;
      jobs.push({
        by: 'http',
        kind: `HTTP, ${form}`,
        model: FORMS[form].model,
        id,
        value,
        sentMs,
        endedMs: performance.now(),
        ...end,
      });
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

/** The gateway, once one listens. */
export async function listening(door) {
  for (;;) {
    const found = door();
    if (found !== undefined) return found;
    await delay(LOOK_FOR_DOOR_MS);
  }
}

/** Until a gateway has answered; `door` names one for each turn. */
async function submitByKey(form, value, isLeft, door) {
  const key = randomUUID();
  const limitMs = performance.now() + ANSWER_LIMIT_MS;
  if (isLeft) void submit(await listening(() => door(1)), form, value, { key, timeMs: LEFT_MS });
  for (let turn = 0; ; turn += 1) {
    const submitted = await submit(await listening(() => door(turn)), form, value, { key });
    if (submitted.outcome !== 'broken' || performance.now() > limitMs) return submitted;
  }
}

async function submit(door, form, value, { key, timeMs = ANSWER_LIMIT_MS } = {}) {
  const { model, init } = FORMS[form];
  try {
    const { headers, body } = init(value);
    const response = await fetch(`${door}/v2/models/${model}/jobs`, {
      method: 'POST',
      headers: { ...headers, ...(key === undefined ? {} : { 'idempotency-key': key }) },
      body,
      signal: AbortSignal.timeout(timeMs),
    });
    const text = await response.text();
    if (response.status === 503) return { outcome: 'refused', text, retryAfter: response.headers.get('retry-after') };
    // One that a key names was there before.
    if (response.status !== 202 && !(response.status === 200 && key !== undefined)) {
      return { outcome: 'wrong', text: `${response.status} ${text}` };
    }
    const { id, result_url: url } = JSON.parse(text);
    return { id: id.slice(id.indexOf('~') + 1), url };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}

async function result(door, url, form, value) {
  const { read, isRight } = FORMS[form];
  const { outcome, response, text } = await resultAt(door, url);
  if (outcome !== 'completed') return { outcome, text };
  const answer = await read(response);
  return isRight(answer, value)
    ? { outcome: 'right', pid: answer.pid }
    : { outcome: 'wrong', text: `${form}, ${value}: ${JSON.stringify(answer).slice(0, TEXT_MAX)}` };
}

/** A job's result by whichever gateway listens: `completed` with the answer, `wrong` where the job failed, `lost` where none came in time. */
export async function resultAt(door, url) {
  let text = 'no gateway answered';
  for (const start = performance.now(); performance.now() - start < ANSWER_LIMIT_MS; ) {
    try {
      const response = await fetch(`${door()}${url}?wait=${WAIT_S}s`, { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
      // Read whole, since its gateway may die meanwhile.
      const body = Buffer.from(await response.arrayBuffer());
      const { status, headers } = response;
      if (status === 200) return { outcome: 'completed', response: new Response(body, { headers }) };
      text = `${status} ${body.toString('utf8', 0, TEXT_MAX)}`;
      // Not ended yet, or nobody can say: anything else would be this job's end.
      if (status !== 202 && status !== 503) return { outcome: 'wrong', text };
    } catch (error) {
      text = error.cause?.message ?? error.message;
    }
    await delay(PAUSE_MS);
  }
  return { outcome: 'lost', text };
}
