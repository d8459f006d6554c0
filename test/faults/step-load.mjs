import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { bullmqConnection } from './bullmq-connection.mjs';
import { listening, resultAt } from './job-load.mjs';
import { ANSWER_LIMIT_MS } from './load.mjs';
import { numberIn } from './load-model.mjs';
import { LONG_VALUE, SEQUENCE_MODEL, stepOf } from './sequence-model.mjs';

const STEPS_MIN = 3;
const STEPS_MAX = 10;
const AGAIN_MS = 100;
/** Between the adds of two steps. */
const PAUSE_MS_MAX = 20;
/** Of the sequences so many come with two steps exchanged. */
const EXCHANGED_SHARE = 1 / 4;
const WAIT_LIMIT_MS = 60_000;

/**
 * Clients that each have one sequence after another run as jobs, numbered steps, until `stop`: by turns over HTTP, each
 * step at the other gateway and by a key of its own until it is accepted, and as a BullMQ producer. Steps are added
 * without waiting for those before them. A sequence is written down once all its jobs are over: of each step the job's
 * id, what it had to answer, and how it ended for who added it.
 */
export function startStepLoad({ doors, places, clients, queue: { connection, name, prefix } }) {
  const connections = [bullmqConnection(connection), bullmqConnection(connection)];
  const queue = new Queue(name, { connection: connections[0], prefix });
  const events = new QueueEvents(name, { connection: connections[1], prefix, lastEventId: '0' });
  for (const each of [queue, events, ...connections]) each.on('error', () => {});
  // Each job that is waited for has some.
  for (const each of [queue, events]) each.setMaxListeners(0);
  const ways = [httpWay((place) => doors(place % places)), producerWay(queue, events)];
  const sequences = [];
  let goesOn = true;
  let begun = 0;
  const run = async () => {
    while (goesOn) {
      begun += 1;
      const begunMs = performance.now();
      const steps = await play(ways[begun % ways.length], begun, `jobs-${randomUUID()}`);
      sequences.push({ begunMs, endedMs: performance.now(), steps });
    }
  };
  const done = events.waitUntilReady().then(() => Promise.all(Array.from({ length: clients }, run)));
  return {
    sequences,
    async stop() {
      goesOn = false;
      await done;
      await Promise.all([queue.close(), events.close()]);
      for (const each of connections) each.disconnect();
    },
  };
}

async function play(way, place, sequence) {
  const count = STEPS_MIN + Math.floor(Math.random() * (STEPS_MAX - STEPS_MIN));
  const values = Array.from({ length: count }, () => Math.floor(Math.random() * LONG_VALUE));
  const order = values.map((_, index) => index);
  // Never the first, before which there is no sequence to wait in.
  if (Math.random() < EXCHANGED_SHARE) [order[1], order[2]] = [order[2], order[1]];
  const ends = [];
  const steps = [];
  for (const index of order) {
    const flags = { start: index === 0, end: index === count - 1 };
    const sum = values.slice(0, index + 1).reduce((total, value) => total + value, 0);
    const sentMs = performance.now();
    const { id, end } = await way.add(stepOf(sequence, values[index], flags), index, place + index);
    const step = { by: way.name, kind: way.kind, model: SEQUENCE_MODEL, sequence, index, id, sentMs };
    const value = [index + 1, sum];
    steps[index] = Object.assign(step, { value });
    ends.push(
      end.then(({ returned, ...failed }) =>
        Object.assign(step, returned === undefined ? failed : judged(returned, value), { endedMs: performance.now() }),
      ),
    );
    await delay(Math.random() * PAUSE_MS_MAX);
  }
  await Promise.all(ends);
  return steps;
}

/** What a return value of the model says: how many steps there were and their sum, and where. */
export function stepAnswer(returned) {
  if (!Array.isArray(returned?.outputs)) return undefined;
  const tensors = new Map(returned.outputs.map((tensor) => [tensor.name, tensor]));
  return { value: elementsOf(tensors.get('SUM')), pid: numberIn(tensors.get('PID')) };
}

function elementsOf({ data, b64 }) {
  return data ?? [...new Int32Array(Uint8Array.from(Buffer.from(b64, 'base64')).buffer)];
}

export function isStepRight(answer, [count, sum]) {
  return answer?.value[0] === count && answer.value[1] === sum;
}

function judged(returned, value) {
  const answer = stepAnswer(returned);
  return isStepRight(answer, value)
    ? { outcome: 'right', pid: answer.pid }
    : { outcome: 'wrong', text: `${value}: ${JSON.stringify(returned)}` };
}

function httpWay(door) {
  const submit = async (body, place) => {
    const key = randomUUID();
    const limitMs = performance.now() + ANSWER_LIMIT_MS;
    for (let turn = 0; ; turn += 1) {
      const at = await listening(() => door(place + turn));
      try {
        const response = await fetch(`${at}/v2/models/${SEQUENCE_MODEL}/jobs`, {
          method: 'POST',
          headers: { 'idempotency-key': key },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
        });
        const text = await response.text();
        if (response.ok) return JSON.parse(text);
        if (response.status !== 503 || performance.now() > limitMs) throw new RangeError(`${response.status} ${text}`);
      } catch (error) {
        if (error instanceof RangeError || performance.now() > limitMs) throw error;
      }
      await delay(AGAIN_MS);
    }
  };
  return {
    name: 'http',
    kind: 'steps, HTTP',
    async add({ parameters, ...request }, index, place) {
      const body = { ...request, parameters: { ...parameters, nereid_step: index } };
      const { id, result_url: url } = await submit(body, place);
      const end = resultAt(() => door(place) ?? door(place + 1), url).then(async ({ outcome, response, text }) =>
        outcome === 'completed' ? { returned: await response.json() } : { outcome, text },
      );
      return { id: id.slice(id.indexOf('~') + 1), end };
    },
  };
}

function producerWay(queue, events) {
  return {
    name: 'producer',
    kind: 'steps, producer',
    async add(request, index) {
      const jobId = `${request.parameters.sequence_id}-${index}`;
      const job = await queue.add('step', { ...request, sequence_index: index }, { jobId });
      const end = job.waitUntilFinished(events, WAIT_LIMIT_MS).then(
        (returned) => ({ returned }),
        (error) => ({ outcome: 'wrong', text: error.message }),
      );
      return { id: job.id, end };
    },
  };
}
