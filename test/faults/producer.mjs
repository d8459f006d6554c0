import { Queue, QueueEvents } from 'bullmq';
import { bullmqConnection } from './bullmq-connection.mjs';
import { answerIn, isRight, LOAD_MODEL, requestOf, VALUE_MAX } from './load-model.mjs';

// A process of its own with nothing of Nereid: a plain BullMQ producer that adds one job after another for each of so
// many clients, and waits for each result. Tells its parent of each job whose `add` resolved; ends on any message.
//   fork('producer.mjs', [JSON.stringify({ connection, name, prefix, clients })])

const WAIT_LIMIT_MS = 60_000;
/** Apart from the values of other sources, so that no answer fits another's question. */
const FIRST_VALUE = 600_000_000;

const { connection, name, prefix, clients } = JSON.parse(process.argv[2]);
const connections = [bullmqConnection(connection), bullmqConnection(connection)];
const queue = new Queue(name, { connection: connections[0], prefix });
const events = new QueueEvents(name, { connection: connections[1], prefix, lastEventId: '0' });
// Redis goes away in these runs; both dial again by themselves.
for (const each of [queue, events, ...connections]) each.on('error', () => {});
let running = true;
let sent = 0;

async function run() {
  while (running) {
    sent += 1;
    const value = (FIRST_VALUE + sent) % VALUE_MAX;
    const sentMs = now();
    let job;
    try {
      job = await queue.add('anything', requestOf(value));
    } catch (error) {
      process.send({ refused: error.message });
      continue;
    }
    const end = await outcome(job, value);
    process.send({
      job: {
        by: 'producer',
        kind: 'Node producer',
        model: LOAD_MODEL,
        id: job.id,
        value,
        sentMs,
        endedMs: now(),
        ...end,
      },
    });
  }
}

async function outcome(job, value) {
  try {
    const answer = answerIn(await job.waitUntilFinished(events, WAIT_LIMIT_MS));
    return isRight(answer, value)
      ? { outcome: 'right', pid: answer.pid }
      : { outcome: 'wrong', text: `${value}: ${JSON.stringify(answer)}` };
  } catch (error) {
    return { outcome: 'lost', text: error.message };
  }
}

/** On the clock that processes share. */
function now() {
  return performance.timeOrigin + performance.now();
}

process.once('message', () => {
  running = false;
});
await events.waitUntilReady();
await Promise.all(Array.from({ length: clients }, run));
await Promise.all([queue.close(), events.close()]);
for (const each of connections) each.disconnect();
process.disconnect();
