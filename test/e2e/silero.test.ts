import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Cluster, clusterOn, type Deployment, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { modelReady } from './model-states.ts';
import { infer } from './requests.ts';
import { vowels } from './speech.ts';

const samples = sampleRepository('silero_vad');
const FLAGS = ['--model-control-mode=explicit', '--load-model=silero_vad'];
const FRAME = 512;
const CONTEXT = 64;
const STATE = 256;
const SAMPLE_RATE_HZ = 16_000n;
const STEPS = 20;
/** Frames before the model has heard enough to decide. */
const LEAD_IN = 8;
const SEQUENCES = 64;
const SEQUENCE_STEPS = 12;

const silence = new Float32Array(STEPS * FRAME);

/** Sounds of the same length: voices of several pitches, and none. */
const SOUNDS: readonly Float32Array[] = [
  ...[100, 120, 150, 200].map((pitchHz) => vowels(STEPS * FRAME, pitchHz)),
  silence,
];

const openSession = (file: string) => InferenceSession.create(join(samples ?? '', 'silero_vad', file));
const frameOf = (sound: Float32Array, step: number) => sound.slice(step * FRAME, (step + 1) * FRAME);

/** The probability of speech in each frame of a sound, by the original graph. */
async function byOriginal(session: InferenceSession, sound: Float32Array): Promise<number[]> {
  let state = new Tensor('float32', new Float32Array(STATE), [2, 1, 128]);
  const found: number[] = [];
  for (let step = 0; step < sound.length / FRAME; step += 1) {
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

/** The same by the graph that is served, one sound at a time. */
async function byWrapped(session: InferenceSession, sound: Float32Array): Promise<number[]> {
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

/** A sound as a sequence: the probability of speech in each frame. Its steps go to the gateways in turn. */
async function listen(gateways: readonly string[], id: number, sound: Float32Array): Promise<number[]> {
  const steps = sound.length / FRAME;
  const found: number[] = [];
  for (let step = 0; step < steps; step += 1) {
    const parameters = { sequence_id: id, sequence_start: step === 0, sequence_end: step === steps - 1 };
    const audio = { name: 'audio', shape: [1, FRAME], datatype: 'FP32', data: [...frameOf(sound, step)] };
    const http = gateways[(id + step) % gateways.length] ?? '';
    const answer = await infer(http, 'silero_vad', JSON.stringify({ parameters, inputs: [audio] }));
    expect(answer.error).toBeUndefined();
    const output = answer.outputs.get('output');
    expect(output?.shape).toEqual([1, 1]);
    found.push(Math.fround(Number(output?.data?.[0])));
  }
  return found;
}

describe.skipIf(samples === undefined)('silero_vad (a sample that is downloaded)', () => {
  let byGraph: { readonly original: number[][]; readonly wrapped: number[][] };

  beforeAll(async () => {
    const [original, wrapped] = await Promise.all(['original.onnx', '1/model.onnx'].map(openSession));
    if (original === undefined || wrapped === undefined) throw new Error('there are two graphs');
    byGraph = { original: [], wrapped: [] };
    for (const sound of SOUNDS) {
      byGraph.original.push(await byOriginal(original, sound));
      byGraph.wrapped.push(await byWrapped(wrapped, sound));
    }
    await Promise.all([original.release(), wrapped.release()]);
  });

  test('the graph that set-up writes answers as the original does, to the last bit', () => {
    expect(byGraph.wrapped).toEqual(byGraph.original);
  });

  test('a voice is speech, silence is not', () => {
    const speech = (row: readonly number[]) => row.slice(LEAD_IN).filter((value) => value > 0.5).length;
    for (const row of byGraph.original.slice(0, -1)) expect(speech(row)).toBeGreaterThan((STEPS - LEAD_IN) / 2);
    expect(speech(byGraph.original.at(-1) ?? [])).toBe(0);
  });

  describe.each(MODES)('served in mode %s', (mode) => {
    let served: Deployment;
    let gateways: readonly string[];

    beforeAll(async () => {
      served = await deploy(mode, [samples ?? ''], FLAGS);
      gateways = served.gateways.map(({ http }) => http);
    });
    afterAll(async () => {
      await served.stop();
    });

    test('one sound: as the graph with its state carried over', async () => {
      expect(await listen(gateways, 1, SOUNDS[0] ?? silence)).toEqual(byGraph.original[0]);
    });

    test('sounds at the same time, whose steps share batches', async () => {
      const found = await Promise.all(SOUNDS.map((sound, index) => listen(gateways, 10 + index, sound)));
      expect(found).toEqual(byGraph.original);
    });
  });
});

describe.skipIf(samples === undefined || !MODES.includes('apart'))('two gateways and two workers', () => {
  const sounds = Array.from({ length: SEQUENCES }, (_, index) =>
    vowels((SEQUENCE_STEPS + 1) * FRAME, 90 + 2 * index).subarray(FRAME),
  );
  let redis: Awaited<ReturnType<typeof startPrivateRedis>>;
  let started: readonly Awaited<ReturnType<Cluster['start']>['started']>[];

  beforeAll(async () => {
    redis = await startPrivateRedis();
    const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${samples}`, ...FLAGS]));
    const roles = ['gateway', 'gateway', 'coordinator', 'worker', 'worker'] as const;
    started = await Promise.all(roles.map((role) => cluster.start(role).started));
  });
  afterAll(async () => {
    for (const { process } of started) process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
  });

  test(`${SEQUENCES} interleaved sequences answer as one by one, to the last bit`, async () => {
    const gateways = started.flatMap(({ http }) => http ?? []);
    for (const http of gateways) await modelReady(http, 'silero_vad');
    const session = await openSession('1/model.onnx');
    const expected: number[][] = [];
    for (const sound of sounds) expected.push(await byWrapped(session, sound));
    await session.release();
    const [first = silence] = sounds;
    expect(await listen(gateways, 1_000, first)).toEqual(expected[0]);
    const found = await Promise.all(sounds.map((sound, index) => listen(gateways, 1 + index, sound)));
    expect(found).toEqual(expected);
  });
});
