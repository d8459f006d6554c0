import { SetupError } from './command.mjs';

const ANSWER_LIMIT_MS = 30_000;
const TEXT = 'write to ada@example.org';

/**
 * One job over HTTP and one by a plain BullMQ producer on the sample model `redact`, as lines to print. Without a
 * Redis one line says what is missing; a wrong answer throws.
 *
 * @param {string} url the server's, without a slash at its end
 */
export async function firstJobs(url) {
  const queue = await get(`${url}/v2/models/redact/jobs/queue`);
  if (queue.status === 404) return [];
  if (queue.status === 503) return [`jobs: ${queue.body.error}`];
  return [...(await submit(url)), ...(await produce(queue.body))];
}

async function submit(url) {
  const request = JSON.stringify(redactRequest());
  const submitted = await get(`${url}/v2/models/redact/jobs`, { method: 'POST', body: request });
  if (submitted.status !== 202) throw new SetupError(`the job was answered ${submitted.status}`);
  const result = await get(`${url}${submitted.body.result_url}?wait=20s`);
  checkAnswer('the job', result.body);
  return [
    `job: ${submitted.body.id} ended with "${redacted(result.body)}"; again:`,
    `  curl -s ${url}/v2/models/redact/jobs -d '${request}'`,
  ];
}

/** Any BullMQ client can do this, in any language. */
async function produce({ name, prefix, redis_url: redisUrl }) {
  // Imported here: nothing is installed yet when this module is loaded.
  const { Queue, QueueEvents } = await import('bullmq');
  const connection = redisUrl.startsWith('unix://')
    ? { path: decodeURIComponent(redisUrl.slice(7)) }
    : { url: redisUrl };
  const queue = new Queue(name, { connection, prefix });
  // From the first event: one that comes before the first read would be missed.
  const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
  try {
    await events.waitUntilReady();
    const job = await queue.add('demo', redactRequest(), { removeOnComplete: { age: 60 } });
    const result = await job.waitUntilFinished(events, ANSWER_LIMIT_MS);
    checkAnswer('the BullMQ job', result);
    return [`BullMQ producer: queue ${name}, job ${job.id} returned "${redacted(result)}"`];
  } finally {
    await Promise.all([events.close(), queue.close()]);
  }
}

function redactRequest() {
  return { inputs: [{ name: 'TEXT', shape: [1, 1], datatype: 'BYTES', data: [TEXT] }] };
}

function redacted(response) {
  return response?.outputs?.find((output) => output.name === 'REDACTED')?.data?.[0];
}

function checkAnswer(what, response) {
  if (redacted(response) !== 'write to [email]')
    throw new SetupError(`${what} ended wrongly: ${JSON.stringify(response)}`);
}

async function get(url, options = {}) {
  const response = await fetch(url, { ...options, signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
  return { status: response.status, body: await response.json() };
}
