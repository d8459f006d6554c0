// A flow: a job of your own that runs once the model has answered all jobs below it:
//   node examples/producers/flow.mjs [URL]
import { FlowProducer, QueueEvents, Worker } from 'bullmq';
import { queueOf } from './queue-of.mjs';

const WAIT_LIMIT_MS = 30_000;
const LETTERS = ['from ada@example.org', 'from grace@example.org', 'from nobody'];

const [url = 'http://localhost:8000'] = process.argv.slice(2);
const { name, prefix, connection } = await queueOf(url, 'redact');
const KEPT = { removeOnComplete: { age: 600 }, removeOnFail: { age: 600 } };

// The parent's queue is yours, and so is its Worker: a model has only the data that its job was added with.
const countOf = ({ outputs }) => outputs.find((output) => output.name === 'COUNT').data[0];
const worker = new Worker(
  'letters',
  async (job) => {
    const answers = Object.values(await job.getChildrenValues());
    return answers.reduce((sum, answer) => sum + countOf(answer), 0);
  },
  { connection, prefix },
);
const events = new QueueEvents('letters', { connection, prefix, lastEventId: '0' });
const flows = new FlowProducer({ connection, prefix });
const { job } = await flows.add({
  name: 'count',
  queueName: 'letters',
  opts: KEPT,
  children: LETTERS.map((letter) => ({
    name: 'letter',
    queueName: name,
    data: { inputs: [{ name: 'TEXT', datatype: 'BYTES', shape: [1, 1], data: [letter] }] },
    // Without this the parent of a child that failed would wait for ever.
    opts: { ...KEPT, failParentOnFailure: true },
  })),
});
console.log(`redacted in ${LETTERS.length} letters: ${await job.waitUntilFinished(events, WAIT_LIMIT_MS)}`);
await Promise.all([flows.close(), worker.close(), events.close()]);
