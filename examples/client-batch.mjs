// A batch with the client: requests from lines of a text, and their results:
//   node examples/client-batch.mjs [URL [FILE]]
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { createClient, texts } from '@nereid/client';

const [url = 'http://localhost:8000', file] = process.argv.slice(2);
const lines = createInterface({
  input:
    file === undefined ? Readable.from(['write to ada@example.org\n', 'no address here\n']) : createReadStream(file),
});
async function* requests() {
  let number = 0;
  for await (const line of lines)
    yield { customId: `line ${++number}`, inputs: { TEXT: { datatype: 'BYTES', shape: [1, 1], data: [line] } } };
}

const client = createClient({ url });
const batch = await client.batches.submit('redact', requests());
const { state, request_counts: counts } = await client.batches.wait(batch.id);
console.log(state, counts.completed, 'of', counts.total);
for await (const { customId, answers, error } of client.batches.results(batch.id))
  console.log(customId, error === undefined ? texts(answers[0].outputs.REDACTED).join() : error.message);
await client.batches.remove(batch.id);
