// Segments of speech in a file, asked for by a BullMQ producer, a job for each frame:
//   node examples/speech-jobs.mjs [URL [FILE]]
import { randomUUID } from 'node:crypto';
import { Queue, QueueEvents } from 'bullmq';
import { printSegments, readFrames, SPEECH_FILE } from './speech.mjs';

const [url = 'http://localhost:8000', file = SPEECH_FILE] = process.argv.slice(2);
const answer = await fetch(`${url}/v2/models/silero_vad/jobs/queue`);
const { error, name, prefix, redis_url: redisUrl } = await answer.json();
if (error !== undefined) throw new Error(error);
const connection = redisUrl.startsWith('unix://') ? { path: decodeURIComponent(redisUrl.slice(7)) } : { url: redisUrl };

const frames = readFrames(file);
const id = randomUUID();
const queue = new Queue(name, { connection, prefix });
const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
const jobs = await queue.addBulk(
  frames.map((frame, index) => ({
    name: 'frame',
    data: {
      parameters: { sequence_id: id, sequence_start: index === 0, sequence_end: index === frames.length - 1 },
      // Its place in the sequence, whatever becomes of the jobs' order.
      sequence_index: index,
      inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, frame.length], data: Array.from(frame) }],
    },
    opts: { removeOnComplete: { age: 60 } },
  })),
);

async function* probabilities() {
  for (const job of jobs) {
    const { outputs } = await job.waitUntilFinished(events);
    yield outputs[0].data[0];
  }
}

await printSegments(probabilities());
await Promise.all([events.close(), queue.close()]);
