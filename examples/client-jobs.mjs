// A job over HTTP with the client: what becomes of it, and its result:
//   node examples/client-jobs.mjs [URL [TEXT]]
import { createClient, texts } from '@nereid/client';

const [url = 'http://localhost:8000', text = 'write to ada@example.org'] = process.argv.slice(2);
const client = createClient({ url });
const job = await client.jobs.submit(
  { model: 'redact', inputs: { TEXT: { datatype: 'BYTES', shape: [1, 1], data: [text] } } },
  { attempts: 2, tags: ['example'] },
);
for await (const { type, data } of client.jobs.watch(job.id)) console.log(type, data.state);
const { outputs } = await client.jobs.result(job.id);
console.log(...texts(outputs.REDACTED));
