import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT, VENV } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { clusterOn, deploy, flagEnvironment, MODES, type Mode, type StartedProcess } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { eventually } from './metrics.ts';
import { modelReady } from './model-states.ts';
import { infer } from './requests.ts';
import { liveSequences } from './sequence-models.ts';
import { byWrapped, CONTEXT, FRAME, frameOf, STATE } from './silero.ts';
import { vowels } from './speech.ts';

const samples = sampleRepository('silero_vad');
const PYTHON = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');
const SEGMENTS = ['speech from 0.70 to 2.37 s', 'speech from 3.20 to 4.96 s'];
const FLAGS = ['--model-control-mode=explicit', '--load-model=silero_vad'];
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

/** One frame: the probability that it is speech. */
async function hear(http: string, parameters: object, frame: Float32Array): Promise<number> {
  const audio = { name: 'audio', shape: [1, FRAME], datatype: 'FP32', data: [...frame] };
  const answer = await infer(http, 'silero_vad', JSON.stringify({ parameters, inputs: [audio] }));
  expect(answer.error).toBeUndefined();
  const output = answer.outputs.get('output');
  expect(output?.shape).toEqual([1, 1]);
  return Math.fround(Number(output?.data?.[0]));
}

/**
 * A sound as a sequence: the probability of speech in each frame. Its steps go to the gateways in turn, all but the
 * first after `goOn`.
 */
async function listen(
  gateways: readonly string[],
  id: number,
  sound: Float32Array,
  goOn?: Promise<void>,
): Promise<number[]> {
  const steps = sound.length / FRAME;
  const found: number[] = [];
  for (let step = 0; step < steps; step += 1) {
    const parameters = { sequence_id: id, sequence_start: step === 0, sequence_end: step === steps - 1 };
    found.push(await hear(gateways[(id + step) % gateways.length] ?? '', parameters, frameOf(sound, step)));
    if (step === 0) await goOn;
  }
  return found;
}

const workersInUse = async (http: string) =>
  new Set((await liveSequences(http, 'silero_vad')).flatMap(({ worker }) => worker ?? [])).size;

/** Two sequences at a time have a worker each once both hold the model. */
async function haveBothWorkers(http: string): Promise<boolean> {
  const ids = [1, 2];
  const each = (flag: object) =>
    Promise.all(ids.map((id) => hear(http, { sequence_id: id, ...flag }, frameOf(silence, 0))));
  await each({ sequence_start: true });
  const inUse = await workersInUse(http);
  await each({ sequence_end: true });
  return inUse === 2;
}

interface Served {
  readonly gateways: readonly StartedProcess[];
  stop(): Promise<unknown>;
}

/** In mode `apart` two gateways and two workers, each of which holds the model. */
async function serve(mode: Mode): Promise<Served> {
  if (mode === 'one') return deploy(mode, [samples ?? ''], FLAGS);
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${samples}`, ...FLAGS]));
  const roles = ['gateway', 'gateway', 'coordinator', 'worker', 'worker'] as const;
  const starting = roles.map((role) => cluster.start(role));
  const stop = async () => {
    for (const { process } of starting) process.kill('SIGKILL');
    await Promise.all(starting.map(({ ended }) => ended));
    await redis.stop();
  };
  try {
    const gateways = (await Promise.all(starting.map(({ started }) => started))).slice(0, 2);
    for (const { http } of gateways) await modelReady(http ?? '', 'silero_vad');
    await eventually('both workers hold the model', () => haveBothWorkers(gateways[0]?.http ?? ''));
    return { gateways, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The lines that an example prints. */
async function printed(program: string, name: string, address: string): Promise<readonly string[]> {
  const { code, output } = await runCommand(program, [join(ROOT, 'examples', name), address]);
  expect(code, output).toBe(0);
  return output.trimEnd().split('\n');
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

  test('the example of docs/replay.md has a version that answers otherwise, from the first speech on', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nereid-replay-'));
    try {
      await printed(process.execPath, 'replay/models.mjs', folder);
      const model = join(folder, 'silero_vad');
      expect(await readFile(join(model, 'config.pbtxt'), 'utf8')).toContain('version_policy { all { } }');
      const sound = Float32Array.of(...silence, ...(SOUNDS[0] ?? silence));
      const found: number[][] = [];
      for (const version of ['1', '2']) {
        const session = await InferenceSession.create(join(model, version, 'model.onnx'));
        found.push(await byWrapped(session, sound));
        await session.release();
      }
      const first = found[0]?.findIndex((value, step) => value !== found[1]?.[step]);
      expect(first).toBeGreaterThanOrEqual(STEPS);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  describe.each(MODES)('served in mode %s', (mode) => {
    let served: Served;
    let gateways: readonly string[];
    const http = () => gateways[0] ?? '';

    beforeAll(async () => {
      served = await serve(mode);
      gateways = served.gateways.map(({ http }) => http ?? '');
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

    test.skipIf(mode === 'one')(
      `${SEQUENCES} interleaved sequences through two gateways and two workers, as one by one, to the last bit`,
      async () => {
        const sounds = Array.from({ length: SEQUENCES }, (_, index) => vowels(SEQUENCE_STEPS * FRAME, 90 + 2 * index));
        const session = await openSession('1/model.onnx');
        const expected: number[][] = [];
        for (const sound of sounds) expected.push(await byWrapped(session, sound));
        await session.release();
        let letGo = () => {};
        const all = new Promise<void>((resolve) => {
          letGo = resolve;
        });
        const answers = Promise.all(sounds.map((sound, index) => listen(gateways, 100 + index, sound, all)));
        await eventually('all live, on both workers', async () => {
          const live = await liveSequences(http(), 'silero_vad');
          return live.length === SEQUENCES && (await workersInUse(http())) === 2;
        });
        letGo();
        expect(await answers).toEqual(expected);
      },
    );

    // What examples/README.md says that each prints.
    describe('the examples', () => {
      const httpHost = () => new URL(http()).host;
      const grpc = () => served.gateways[0]?.grpc ?? '';

      test.each([
        ['speech-http.mjs', http],
        ['speech-grpc.mjs', grpc],
        ['speech-jobs.mjs', http],
        ['speech-client.mjs', http],
      ])('%s', async (name, address) => {
        expect(await printed(process.execPath, name, address())).toEqual(SEGMENTS);
      });

      test('replay/record.mjs', async () => {
        const lines = await printed(process.execPath, 'replay/record.mjs', http());
        expect(lines.slice(0, -1)).toEqual(SEGMENTS);
        const [, id] = /^recorded as (silero_vad~\S+)$/.exec(lines.at(-1) ?? '') ?? [];
        const found = await fetch(`${http()}/nereid/v1/journal/${id}?limit=1`);
        expect(await found.json()).toMatchObject({ recording: { state: 'ended', model_version: '1' } });
      });

      test.skipIf(!existsSync(PYTHON)).each([
        ['speech_http.py', httpHost],
        ['speech_grpc.py', grpc],
      ])("%s (with Triton's clients, which npm test installs)", async (name, address) => {
        expect(await printed(PYTHON, name, address())).toEqual(SEGMENTS);
      });
    });
  });
});
