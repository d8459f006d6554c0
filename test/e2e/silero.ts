import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ROOT } from '../../deploy/setup/checkout.mjs';

export const FRAME = 512;
export const CONTEXT = 64;
export const STATE = 256;
const WAV_HEAD_BYTES = 44;

export const frameOf = (sound: Float32Array, step: number) => sound.slice(step * FRAME, (step + 1) * FRAME);

/** The probability of speech in each frame of a sound, by the graph that is served, one frame at a time. */
export async function byWrapped(session: InferenceSession, sound: Float32Array): Promise<number[]> {
  let state: Tensor = new Tensor('float32', new Float32Array(STATE), [1, 2, 128]);
  let context: Tensor = new Tensor('float32', new Float32Array(CONTEXT), [1, CONTEXT]);
  const found: number[] = [];
  for (let step = 0; step < sound.length / FRAME; step += 1) {
    const audio = new Tensor('float32', frameOf(sound, step), [1, FRAME]);
    const outputs = await session.run({ audio, state, context });
    found.push(Number(outputs.output?.data[0]));
    state = outputs.next_state as typeof state;
    context = outputs.next_context as typeof context;
  }
  return found;
}

/** The same of a graph in a file. */
export async function byFile(file: string, sound: Float32Array): Promise<number[]> {
  const session = await InferenceSession.create(file);
  try {
    return await byWrapped(session, sound);
  } finally {
    await session.release();
  }
}

/** The speech file of the examples, 16 kHz, in whole frames. */
export function speechFile(): Float32Array {
  const bytes = readFileSync(join(ROOT, 'examples', 'speech.wav')).subarray(WAV_HEAD_BYTES);
  const samples = Math.floor(bytes.length / 2 / FRAME) * FRAME;
  return Float32Array.from({ length: samples }, (_, index) => bytes.readInt16LE(2 * index) / 32_768);
}
