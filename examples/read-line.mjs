// The text in a picture of one line:
//   node examples/read-line.mjs [URL [FILE]]      (PNG or JPEG)
import { readFileSync } from 'node:fs';

const [url = 'http://localhost:8000', file = new URL('line.png', import.meta.url)] = process.argv.slice(2);

const response = await fetch(`${url}/v2/models/ocr_line/infer`, {
  method: 'POST',
  // JSON holds no bytes: the model takes files in base64, too.
  body: JSON.stringify({
    inputs: [{ name: 'IMAGE', datatype: 'BYTES', shape: [1, 1], data: [readFileSync(file).toString('base64')] }],
  }),
});
const { error, outputs } = await response.json();
if (error !== undefined) throw new Error(error);
const first = (name) => outputs.find((output) => output.name === name).data[0];
console.log(`${first('TEXT')} (${first('SCORE').toFixed(2)})`);
