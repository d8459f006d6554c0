// node fastify-bullmq-server.mjs PORT SOCKET: Fastify that adds each request to a BullMQ queue and waits for its job.
import { Queue, QueueEvents } from 'bullmq';
import { packTensors, unpackTensors } from './bullmq-tensors.mjs';
import { serveV2 } from './fastify-v2.mjs';

const QUEUE = 'infer';
const WAIT_LIMIT_MS = 60_000;
/** Kept for a while: waitUntilFinished asks once for a job that may have ended before it listened. */
const KEPT_JOBS = 1_000;

const [port, path] = process.argv.slice(2);
const queue = new Queue(QUEUE, { connection: { path } });
const events = new QueueEvents(QUEUE, { connection: { path } });
await events.waitUntilReady();

async function run(model, inputs) {
  const job = await queue.add(model, packTensors(inputs), { removeOnComplete: KEPT_JOBS, removeOnFail: KEPT_JOBS });
  return unpackTensors(await job.waitUntilFinished(events, WAIT_LIMIT_MS));
}

await serveV2(Number(port), run);
