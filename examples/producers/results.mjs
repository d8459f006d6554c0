// Jobs of a plain BullMQ producer (bullmq 5 or 6), and three ways to their results:
//   node examples/producers/results.mjs [URL]
import { randomUUID } from 'node:crypto';
import { Queue, QueueEvents } from 'bullmq';
import { queueOf } from './queue-of.mjs';

const WAIT_LIMIT_MS = 30_000;
/** Finished jobs are kept for a while: whoever asks for one that is gone hears "Missing key". */
const KEPT = { removeOnComplete: { age: 600 }, removeOnFail: { age: 600 } };

const [url = 'http://localhost:8000'] = process.argv.slice(2);
const { name, prefix, connection } = await queueOf(url, 'redact');
const queue = new Queue(name, { connection, prefix });
// From the first event on: without `lastEventId` those before its first read are missed, `waitUntilReady` or not.
const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });

const textOf = ({ outputs }) => outputs.find((output) => output.name === 'REDACTED').data[0];
const request = (text) => ({ inputs: [{ name: 'TEXT', datatype: 'BYTES', shape: [1, 1], data: [text] }] });

// 1. A call that waits.
const waited = await queue.add('any name', request('write to ada@example.org'), KEPT);
console.log(`waitUntilFinished: ${textOf(await waited.waitUntilFinished(events, WAIT_LIMIT_MS))}`);

// 2. One listener for all: it costs Redis nothing per job. The ids are chosen before the jobs are added, so that no
// result comes before somebody waits for it.
const waiting = new Map();
events.on('completed', ({ jobId, returnvalue }) => waiting.get(jobId)?.resolve(returnvalue));
events.on('failed', ({ jobId, failedReason }) => waiting.get(jobId)?.reject(new Error(failedReason)));
const outcome = (id) =>
  new Promise((resolve, reject) => {
    const settled = (settle) => (value) => {
      waiting.delete(id);
      settle(value);
    };
    waiting.set(id, { resolve: settled(resolve), reject: settled(reject) });
  });
const jobs = [1, 2, 3].map((number) => ({
  name: 'any name',
  data: request(`call 555-010${number}`),
  opts: { ...KEPT, jobId: randomUUID(), priority: number },
}));
const results = jobs.map(({ opts }) => outcome(opts.jobId));
await queue.addBulk(jobs);
for (const result of await Promise.all(results)) console.log(`QueueEvents: ${textOf(result)}`);

// 3. Over HTTP, at any gateway: the id is the model's name, a tilde, and BullMQ's id.
const asked = await queue.add('any name', request('see http://example.org'), KEPT);
const response = await fetch(`${url}/v2/jobs/redact~${asked.id}/result?wait=30s`);
console.log(`HTTP: ${textOf(await response.json())}`);

// A mistake fails at once, whatever its attempts, with the text that HTTP gives.
const wrong = await queue.add('any name', { inputs: [] }, { ...KEPT, attempts: 5 });
await wrong.waitUntilFinished(events, WAIT_LIMIT_MS).catch(({ message }) => console.log(`failed: ${message}`));

await Promise.all([events.close(), queue.close()]);
