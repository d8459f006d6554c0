import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ANSWER_LIMIT_MS, LOOK_FOR_DOOR_MS } from './load.mjs';
import { LONG_VALUE, SEQUENCE_MODEL, stepOf } from './sequence-model.mjs';

const STEPS_MIN = 4;
const STEPS_MAX = 24;
/** Between two steps. */
const PAUSE_MS_MAX = 40;
const VALUE_MAX = LONG_VALUE + 1;
/** Before the numbers of sequences whose steps are numbered: their ids are never used again. */
const RUN = randomUUID();
/** Of a wrong answer so much is told. */
const TEXT_MAX = 200;

/** Of numbered steps, before one is sent again. */
const AGAIN_MS = 100;

/**
 * Clients that each run one sequence after another until `stop`, which lets those that run end. Each sequence has an id
 * of its own, its steps go to the doors by turns, and each step's answer must say how many steps there were and what
 * they sum up to. A sequence is written down once it has ended: `right` where every answer was, `lost` where the
 * server says that it is, else `wrong`, `refused` or `broken` with what came. `numbered` steps are sent again, by the
 * other door, until they are answered, so that these two stand for none in all that time.
 */
export function startSequenceLoad({ doors, places, clients, numbered = false }) {
  const sequences = [];
  const running = new Set();
  let goesOn = true;
  let begun = 0;
  const run = async () => {
    while (goesOn) {
      begun += 1;
      const id = numbered ? `${RUN}-${begun}` : begun;
      const sequence = { id, place: begun, begunMs: performance.now(), steps: 0, pid: undefined };
      running.add(sequence);
      const end = await play(sequence, doors, places, numbered);
      running.delete(sequence);
      sequences.push(Object.assign(sequence, end, { endedMs: performance.now() }));
      // Who is refused at once would ask thousands of times, and slow down what it waits for.
      if (end.outcome !== 'right') await delay(PAUSE_MS_MAX);
    }
  };
  const done = Promise.all(Array.from({ length: clients }, run));
  return {
    sequences,
    /** Those that have had an answer. */
    running: () => [...running].filter(({ steps }) => steps > 0),
    async stop() {
      goesOn = false;
      await done;
      return sequences;
    },
  };
}

async function play(sequence, doors, places, numbered) {
  const length = STEPS_MIN + Math.floor(Math.random() * (STEPS_MAX - STEPS_MIN));
  let sum = 0;
  for (let step = 0; step < length; step += 1) {
    const value = Math.floor(Math.random() * VALUE_MAX);
    sum += value;
    const flags = { start: step === 0, end: step === length - 1 };
    const body = stepOf(sequence.id, value, flags, numbered ? { nereid_step: step } : {});
    const answer = await askOnce((turn) => doorFor(doors, (sequence.place + step + turn) % places), body, numbered);
    if (answer.outcome !== 'answered') return answer;
    const [count, total, pid] = answer.values;
    if (count !== step + 1 || total !== sum) {
      const text = `sequence ${sequence.id}, step ${step + 1}: ${count} steps, sum ${total} in place of ${sum}`;
      return { outcome: 'wrong', text };
    }
    if (sequence.pid !== undefined && sequence.pid !== pid) {
      return { outcome: 'wrong', text: `sequence ${sequence.id} went from process ${sequence.pid} to ${pid}` };
    }
    sequence.steps = count;
    sequence.pid = pid;
    sequence.startedMs ??= performance.now();
    await delay(Math.random() * PAUSE_MS_MAX);
  }
  return { outcome: 'right' };
}

async function askOnce(door, body, numbered) {
  const limitMs = performance.now() + ANSWER_LIMIT_MS;
  for (let turn = 0; ; turn += 1) {
    const answer = await ask(await door(turn), body);
    const mayGoOn = numbered && (answer.outcome === 'refused' || answer.outcome === 'broken');
    if (!mayGoOn || performance.now() > limitMs) return answer;
    await delay(AGAIN_MS);
  }
}

async function doorFor(doors, place) {
  for (;;) {
    const door = doors(place);
    if (door !== undefined) return door;
    await delay(LOOK_FOR_DOOR_MS);
  }
}

async function ask(door, body) {
  try {
    const response = await fetch(`${door}/v2/models/${SEQUENCE_MODEL}/infer`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
    });
    const text = await response.text();
    if (response.ok) {
      const outputs = new Map(JSON.parse(text).outputs.map(({ name, data }) => [name, data]));
      return { outcome: 'answered', values: [...outputs.get('SUM'), ...outputs.get('PID')] };
    }
    const told = `${response.status} ${response.headers.get('nereid-error')} ${text}`.slice(0, TEXT_MAX);
    if (response.status === 503) return { outcome: 'refused', text: told };
    const isLost = response.status === 400 && /reason=sequence_lost/.test(response.headers.get('nereid-error') ?? '');
    return { outcome: isLost ? 'lost' : 'wrong', text: told };
  } catch (error) {
    return { outcome: 'broken', text: error.cause?.message ?? error.message };
  }
}
