import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { infer, type JsonTensor } from './requests.ts';
import { vowels } from './speech.ts';

const samples = sampleRepository('silero_vad');
const FRAME = 512;
const CONTEXT = 64;
const STATE = 256;
const SAMPLE_RATE_HZ = 16_000n;
const STEPS = 32;
const TOLERANCE = 1e-5;
/** Frames before the model has heard enough to decide. */
const LEAD_IN = 8;

const silence = new Float32Array(STEPS * FRAME);

/** Sounds of the same length: voices of several pitches, and none. */
const SOUNDS: readonly Float32Array[] = [
  ...[100, 120, 150, 200].map((pitchHz) => vowels(STEPS * FRAME, pitchHz)),
  silence,
];

/** The probability of speech in each frame of a sound, by the original graph and onnxruntime alone. */
async function reference(session: InferenceSession, sound: Float32Array): Promise<number[]> {
  let state = new Tensor('float32', new Float32Array(STATE), [2, 1, 128]);
  const found: number[] = [];
  for (let step = 0; step < STEPS; step += 1) {
    const input = new Float32Array(CONTEXT + FRAME);
    input.set(sound.subarray(Math.max(0, step * FRAME - CONTEXT), (step + 1) * FRAME), step === 0 ? CONTEXT : 0);
    const outputs = await session.run({
      input: new Tensor('float32', input, [1, CONTEXT + FRAME]),
      state,
      sr: new Tensor('int64', BigInt64Array.of(SAMPLE_RATE_HZ), []),
    });
    found.push(Number(outputs.output?.data[0]));
    state = outputs.stateN as typeof state;
  }
  return found;
}

describe.skipIf(samples === undefined).each(MODES)('silero_vad (a sample that is downloaded), in mode %s', (mode) => {
  let served: Deployment;
  let expected: number[][];

  beforeAll(async () => {
    served = await deploy(mode, [samples ?? ''], ['--model-control-mode=explicit', '--load-model=silero_vad']);
    const session = await InferenceSession.create(join(samples ?? '', 'silero_vad', 'original.onnx'));
    expected = await Promise.all(SOUNDS.map((sound) => reference(session, sound)));
    await session.release();
  });
  afterAll(async () => {
    await served.stop();
  });

  /** The probability of speech in each frame of each sound; the client carries what one step hands to the next. */
  async function listen(sounds: readonly Float32Array[]): Promise<number[][]> {
    const count = sounds.length;
    let state: readonly unknown[] = Array(count * STATE).fill(0);
    let context: readonly unknown[] = Array(count * CONTEXT).fill(0);
    const found: number[][] = sounds.map(() => []);
    for (let step = 0; step < STEPS; step += 1) {
      const tensor = (name: string, dims: number[], data: readonly unknown[]): JsonTensor => ({
        name,
        shape: [count, ...dims],
        datatype: 'FP32',
        data,
      });
      const frame = sounds.flatMap((sound) => [...sound.subarray(step * FRAME, (step + 1) * FRAME)]);
      const inputs = [
        tensor('audio', [FRAME], frame),
        tensor('state', [2, 128], state),
        tensor('context', [CONTEXT], context),
      ];
      const answer = await infer(served.http, 'silero_vad', JSON.stringify({ inputs }));
      expect(answer.error).toBeUndefined();
      const output = answer.outputs.get('output');
      expect(output?.shape).toEqual([count, 1]);
      for (const [index, row] of found.entries()) row.push(Number(output?.data?.[index]));
      state = answer.outputs.get('next_state')?.data ?? [];
      context = answer.outputs.get('next_context')?.data ?? [];
    }
    return found;
  }

  function expectNear(found: readonly number[], wanted: readonly number[] | undefined, what: string): void {
    expect(found.length).toBe(STEPS);
    for (const [step, value] of found.entries()) {
      expect(Math.abs(value - (wanted?.[step] ?? Number.NaN)), `${what}, step ${step}`).toBeLessThan(TOLERANCE);
    }
  }

  test('one sound at a time: as the original graph with its state carried over', async () => {
    const [found = []] = await listen(SOUNDS.slice(0, 1));
    expectNear(found, expected[0], 'one sound');
  });

  test('a batch of sounds in one request', async () => {
    for (const [index, found] of (await listen(SOUNDS)).entries()) expectNear(found, expected[index], `row ${index}`);
  });

  test('clients at the same time, whose requests share batches', async () => {
    const found = await Promise.all(SOUNDS.map((sound) => listen([sound])));
    for (const [index, [row = []]] of found.entries()) expectNear(row, expected[index], `client ${index}`);
  });

  test('a voice is speech, silence is not', () => {
    const speech = (row: readonly number[]) => row.slice(LEAD_IN).filter((value) => value > 0.5).length;
    for (const row of expected.slice(0, -1)) expect(speech(row)).toBeGreaterThan((STEPS - LEAD_IN) / 2);
    expect(speech(expected.at(-1) ?? [])).toBe(0);
  });
});
