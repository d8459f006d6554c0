// The lines of text on a page, and where they are:
//   node examples/read-page.mjs [URL [FILE]]      (PNG or JPEG)
import { readFileSync } from 'node:fs';

const [url = 'http://localhost:8000', file = new URL('page.png', import.meta.url)] = process.argv.slice(2);

const response = await fetch(`${url}/v2/models/ocr_page/infer`, {
  method: 'POST',
  // JSON holds no bytes: the model takes files in base64, too.
  body: JSON.stringify({
    inputs: [{ name: 'IMAGE', datatype: 'BYTES', shape: [1], data: [readFileSync(file).toString('base64')] }],
  }),
});
const { error, outputs } = await response.json();
if (error !== undefined) throw new Error(error);
const dataOf = (name) => outputs.find((output) => output.name === name).data;
for (const [line, text] of dataOf('TEXT').entries()) {
  const [left, top, width, height] = dataOf('BOX').slice(line * 4, line * 4 + 4);
  console.log(`${left},${top} ${width}x${height} ${text}`);
}
