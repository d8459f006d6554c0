// What the examples share: sound out of a file in frames, and segments of speech out of probabilities.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const SPEECH_FILE = fileURLToPath(new URL('./speech.wav', import.meta.url));

/** The model's: 32 ms at 16 kHz. */
const SAMPLE_RATE_HZ = 16_000;
const FRAME_SAMPLES = 512;
const FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ;

/** Speech begins in a frame that is above the first, and is over once this many frames are below the second. */
const SPEECH_MIN = 0.5;
const SILENCE_MAX = 0.35;
const PAUSE_FRAMES = 4;

const PCM = 1;
const CHUNK_HEAD_BYTES = 8;

/** The frames of a WAV file (mono, 16 bits, 16 kHz), each of 512 samples from -1 to 1; the last is filled up with zeros. */
export function readFrames(file) {
  const bytes = readFileSync(file);
  const chunk = (name) => {
    for (let at = 12; at + CHUNK_HEAD_BYTES <= bytes.length; ) {
      const begin = at + CHUNK_HEAD_BYTES;
      const size = bytes.readUInt32LE(at + 4);
      if (bytes.toString('latin1', at, at + 4) === name) return bytes.subarray(begin, begin + size);
      at = begin + size + (size % 2);
    }
    throw new Error(`${file} is no WAV file: it has no chunk "${name}"`);
  };
  const format = chunk('fmt ');
  const found = [0, 2, 14].map((at) => format.readUInt16LE(at));
  if (`${found}` !== `${[PCM, 1, 16]}` || format.readUInt32LE(4) !== SAMPLE_RATE_HZ) {
    throw new Error(`${file} is not mono, 16 bits, 16 kHz`);
  }
  const data = chunk('data');
  const frames = [];
  for (let at = 0; at < data.length; at += 2 * FRAME_SAMPLES) {
    const part = data.subarray(at, at + 2 * FRAME_SAMPLES);
    frames.push(
      Float32Array.from(
        { length: FRAME_SAMPLES },
        (_, index) => (2 * index + 2 <= part.length ? part.readInt16LE(2 * index) : 0) / 32_768,
      ),
    );
  }
  return frames;
}

/**
 * Prints each segment of speech once it has ended.
 *
 * @param {AsyncIterable<number> | Iterable<number>} probabilities of the frames in their order
 */
export async function printSegments(probabilities) {
  let frame = 0;
  let begin;
  let end = 0;
  const print = () => console.log(`speech from ${(begin * FRAME_S).toFixed(2)} to ${(end * FRAME_S).toFixed(2)} s`);
  for await (const probability of probabilities) {
    if (probability >= SPEECH_MIN) begin ??= frame;
    frame += 1;
    if (probability >= SILENCE_MAX) end = frame;
    if (begin !== undefined && frame - end >= PAUSE_FRAMES) {
      print();
      begin = undefined;
    }
  }
  if (begin !== undefined) print();
}
