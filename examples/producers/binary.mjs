// Tensors as bytes, by base64 in the job's data and as blobs beside it, and the answer's as bytes too:
//   node examples/producers/binary.mjs [URL]
import { Queue, QueueEvents } from 'bullmq';
import { queueOf } from './queue-of.mjs';

const WAIT_LIMIT_MS = 30_000;

const [url = 'http://localhost:8000'] = process.argv.slice(2);
const { name, prefix, connection } = await queueOf(url, 'simple');
const queue = new Queue(name, { connection, prefix });
const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });

/** Little-endian, rows behind each other: the v2 binary form. */
const base64 = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString('base64');
const counted = Int32Array.from({ length: 16 }, (_, index) => index);
const tensor = (name, values) => ({ name, datatype: 'INT32', shape: [1, 16], b64: base64(values) });

const job = await queue.add(
  'add',
  { inputs: [tensor('INPUT0', counted), tensor('INPUT1', counted)], respond: 'b64' },
  { removeOnComplete: { age: 600 } },
);
const { outputs } = await job.waitUntilFinished(events, WAIT_LIMIT_MS);
for (const output of outputs) {
  // Copied, since a Buffer may begin anywhere.
  const bytes = Uint8Array.from(Buffer.from(output.b64, 'base64'));
  console.log(`${output.name}: ${new Int32Array(bytes.buffer).join(' ')}`);
}

// A large tensor does not go through the queue: it is put first, and the job names it. So does the answer.
async function blobOf(name, values) {
  const response = await fetch(`${url}/v2/blobs`, { method: 'POST', headers: { 'Nereid-Ttl-S': '600' }, body: values });
  if (!response.ok) throw new Error(await response.text());
  const { ref, byte_size } = await response.json();
  return { name, datatype: 'INT32', shape: [1, 16], blob: { ref, byte_size } };
}
const inputs = [await blobOf('INPUT0', counted), await blobOf('INPUT1', counted)];
const large = await queue.add('add', { inputs, respond: 'blob' }, { removeOnComplete: { age: 600 } });
const [sum] = (await large.waitUntilFinished(events, WAIT_LIMIT_MS)).outputs;
const bytes = await (await fetch(`${url}/v2/blobs/${sum.blob.ref}`)).arrayBuffer();
console.log(`${sum.name} as a blob: ${new Int32Array(bytes).join(' ')}`);

await Promise.all([events.close(), queue.close()]);
