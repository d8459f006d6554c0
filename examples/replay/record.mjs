// Segments of speech in a file, as speech-http.mjs finds them, by version 1 of the model and with each frame recorded:
//   node examples/replay/record.mjs [URL [FILE]]
import { randomUUID } from 'node:crypto';
import { printSegments, readFrames, SPEECH_FILE } from '../speech.mjs';

const [url = 'http://localhost:8000', file = SPEECH_FILE] = process.argv.slice(2);
const frames = readFrames(file);
const id = randomUUID();
let recording;

async function ask(frame, index) {
  const parameters = { sequence_id: id, sequence_start: index === 0, sequence_end: index === frames.length - 1 };
  // What the first request says holds for the whole sequence.
  if (index === 0) parameters.nereid_journal = true;
  const response = await fetch(`${url}/v2/models/silero_vad/versions/1/infer`, {
    method: 'POST',
    body: JSON.stringify({
      parameters,
      inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, frame.length], data: Array.from(frame) }],
    }),
  });
  const { error, outputs } = await response.json();
  if (error !== undefined) throw new Error(error);
  // A recording has the name of the request that began it.
  recording ??= `silero_vad~${response.headers.get('Nereid-Request-Id')}`;
  return outputs[0].data[0];
}

async function* probabilities() {
  for (const [index, frame] of frames.entries()) yield await ask(frame, index);
}

await printSegments(probabilities());
console.log(`recorded as ${recording}`);
