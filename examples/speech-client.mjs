// Segments of speech in a file, asked for with the client in TypeScript and JavaScript, as a sequence:
//   node examples/speech-client.mjs [URL [FILE]]
import { createClient } from '@nereid/client';
import { printSegments, readFrames, SPEECH_FILE } from './speech.mjs';

const [url = 'http://localhost:8000', file = SPEECH_FILE] = process.argv.slice(2);
const frames = readFrames(file);
// Its steps are numbered: one whose answer is lost is asked for again, and takes effect once.
const sequence = createClient({ url }).sequence({ model: 'silero_vad' });

async function* probabilities() {
  for (const [index, frame] of frames.entries()) {
    const request = { inputs: { audio: { datatype: 'FP32', shape: [1, frame.length], data: frame } } };
    const { outputs } = await (index === frames.length - 1 ? sequence.end(request) : sequence.step(request));
    yield Object.values(outputs)[0].data[0];
  }
}

await printSegments(probabilities());
