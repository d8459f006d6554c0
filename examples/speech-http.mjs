// Segments of speech in a file, asked for over HTTP, one frame after the other:
//   node examples/speech-http.mjs [URL [FILE]]
import { randomUUID } from 'node:crypto';
import { printSegments, readFrames, SPEECH_FILE } from './speech.mjs';

const [url = 'http://localhost:8000', file = SPEECH_FILE] = process.argv.slice(2);
const frames = readFrames(file);
// The server keeps what the model remembers under this id, from the first frame to the last.
const id = randomUUID();

async function ask(frame, index) {
  const response = await fetch(`${url}/v2/models/silero_vad/infer`, {
    method: 'POST',
    body: JSON.stringify({
      parameters: { sequence_id: id, sequence_start: index === 0, sequence_end: index === frames.length - 1 },
      inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, frame.length], data: Array.from(frame) }],
    }),
  });
  const { error, outputs } = await response.json();
  if (error !== undefined) throw new Error(error);
  return outputs[0].data[0];
}

async function* probabilities() {
  for (const [index, frame] of frames.entries()) yield await ask(frame, index);
}

await printSegments(probabilities());
