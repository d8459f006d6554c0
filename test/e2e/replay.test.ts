import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Queue } from 'bullmq';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCommand } from '../../deploy/setup/command.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { grpcClient } from './grpc-client.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { changeWeight } from './onnx-weight.ts';
import {
  listedByCommand,
  listRecordings,
  overRecording,
  replayCommand,
  shownByCommand,
  showRecording,
} from './recordings.ts';
import { infer } from './requests.ts';
import { byFile, FRAME, frameOf, speechFile } from './silero.ts';

const samples = sampleRepository('silero_vad');
/** Each is recorded for a reason of its own: by its config, by the server's flag, by the request. */
const MODELS = { http: 'vad_config', grpc: 'vad_flag', producer: 'vad_request' } as const;
/** Steps against the version with another weight; 1,000 take a minute on a busy machine. */
const STEPS = Number(process.env.NEREID_REPLAY_STEPS ?? 100);
/** Without sound the weight that is changed does nothing. */
const SILENT_STEPS = 12;
const WEIGHT = 'model.encoder.0.reparam_conv.weight';
const WEIGHT_AT = 4_000;
const TEST_MS = 120_000;
const isLong = STEPS >= 1_000;
/** Recording and running again are the same code in both modes: in `npm test` the roles apart will do. */
const RUN_MODES = isLong ? MODES : MODES.slice(-1);
/** A step whose frame is replaced by silence, where there is speech. */
const REPLACED = 60;
const FROM = 50;
const COULD_NOT_RUN = 2;

/** All of the speech file where there is time, else what has the first of its two segments. */
const SPEECH_STEPS = 90;
const speech = isLong ? speechFile() : speechFile().subarray(0, SPEECH_STEPS * FRAME);
const speechSteps = speech.length / FRAME;

/** Silence, then the speech file as often as it takes. */
function longSound(): Float32Array {
  const sound = new Float32Array(STEPS * FRAME);
  for (let at = SILENT_STEPS * FRAME; at < sound.length; at += speech.length) {
    sound.set(speech.subarray(0, Math.min(speech.length, sound.length - at)), at);
  }
  return sound;
}

function addSilero(folder: ModelFolder, name: string, journal: string, more = ''): void {
  const from = join(samples ?? '', 'silero_vad');
  mkdirSync(join(folder.path, name));
  cpSync(join(from, '1'), join(folder.path, name, '1'), { recursive: true });
  const parameter = journal === '' ? '' : `parameters { key: "nereid.journal" value { string_value: "${journal}" } }`;
  const text = readFileSync(join(from, 'config.pbtxt'), 'utf8').replace('"silero_vad"', `"${name}"`);
  writeFileSync(join(folder.path, name, 'config.pbtxt'), `${text}\n${parameter}\n${more}\n`);
}

const flagsOf = (sound: Float32Array, step: number) => ({
  sequence_start: step === 0,
  sequence_end: step === sound.length / FRAME - 1,
});

async function byHttp(http: string, model: string, sound: Float32Array): Promise<number[]> {
  const found: number[] = [];
  for (let step = 0; step < sound.length / FRAME; step += 1) {
    const inputs = [{ name: 'audio', shape: [1, FRAME], datatype: 'FP32', data: [...frameOf(sound, step)] }];
    const parameters = { sequence_id: 'speech', ...flagsOf(sound, step) };
    const answer = await infer(http, model, JSON.stringify({ parameters, inputs }));
    expect(answer.error).toBeUndefined();
    found.push(Math.fround(Number(answer.outputs.get('output')?.data?.[0])));
  }
  return found;
}

async function byGrpcStream(address: string, model: string, sound: Float32Array, id: string): Promise<number[]> {
  const client = grpcClient(address);
  try {
    const stream = client.stream();
    for (let step = 0; step < sound.length / FRAME; step += 1) {
      const { sequence_start: start, sequence_end: end } = flagsOf(sound, step);
      const frame = frameOf(sound, step);
      stream.send({
        model_name: model,
        model_version: '1',
        parameters: {
          sequence_id: { string_param: id },
          sequence_start: { bool_param: start },
          sequence_end: { bool_param: end },
        },
        inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, FRAME] }],
        raw_input_contents: [Buffer.from(frame.buffer)],
      });
    }
    stream.halfClose();
    const answers = await stream.rest();
    return answers.map(({ error_message: error, infer_response: response }) => {
      expect(error ?? '').toBe('');
      return response?.raw_output_contents?.[0]?.readFloatLE(0) ?? Number.NaN;
    });
  } finally {
    client.close();
  }
}

async function byProducer(http: string, model: string, sound: Float32Array): Promise<void> {
  const answer = await fetch(`${http}/v2/models/${model}/jobs/queue`);
  const { name, prefix, redis_url: url } = (await answer.json()) as { name: string; prefix: string; redis_url: string };
  const queue = new Queue(name, { connection: { path: decodeURIComponent(url.slice('unix://'.length)) }, prefix });
  try {
    await queue.addBulk(
      Array.from({ length: sound.length / FRAME }, (_, step) => ({
        name: 'frame',
        data: {
          parameters: {
            sequence_id: 'speech',
            ...flagsOf(sound, step),
            ...(step === 0 ? { nereid_journal: true } : {}),
          },
          sequence_index: step,
          inputs: [{ name: 'audio', datatype: 'FP32', shape: [1, FRAME], data: [...frameOf(sound, step)] }],
        },
      })),
    );
    const isOver = async () => (await listRecordings(http, model)).some(({ state }) => state === 'ended');
    await expect.poll(isOver, { timeout: TEST_MS / 2, interval: 100 }).toBe(true);
  } finally {
    await queue.close();
  }
}

const firstDiffering = ({ first, second }: { readonly first: number[]; readonly second: number[] }) =>
  first.findIndex((value, step) => value !== second[step]);

/** The verdict's text, of which numbers are 32-bit values in as few digits as tell them apart. */
const DIFFERS =
  /^differs at step (\d+), output (\S+) \[0,0\]: recorded (\S+), replayed ([^\s;]+)(?:; (\d+) of (\d+) steps differ)?/;

function verdict(output: string): object {
  const [, step, name, recorded, replayed, differing, compared] = DIFFERS.exec(output) ?? [];
  return {
    step: Number(step),
    name,
    recorded: Math.fround(Number(recorded)),
    replayed: Math.fround(Number(replayed)),
    differing: Number(differing ?? 1),
    compared: compared === undefined ? undefined : Number(compared),
  };
}

describe.skipIf(samples === undefined)('silero_vad (a sample that is downloaded)', { timeout: TEST_MS }, () => {
  let folder: ModelFolder;
  let out: string;
  const sound = longSound();
  /** By the graphs of both versions, outside of any server. */
  let expected: { readonly speech: number[]; readonly first: number[]; readonly second: number[] };

  beforeAll(async () => {
    folder = createModelFolder();
    out = mkdtempSync(join(tmpdir(), 'nereid-replay-'));
    addSilero(folder, MODELS.http, 'on');
    addSilero(folder, MODELS.grpc, '', 'version_policy { all { } }');
    addSilero(folder, MODELS.producer, 'off');
    const [first, second] = ['1', '2'].map((version) => join(folder.path, MODELS.grpc, version, 'model.onnx'));
    mkdirSync(join(folder.path, MODELS.grpc, '2'));
    changeWeight(first ?? '', second ?? '', WEIGHT, WEIGHT_AT, (weight) => weight + 0.5);
    expected = {
      speech: await byFile(first ?? '', speech),
      first: await byFile(first ?? '', sound),
      second: await byFile(second ?? '', sound),
    };
  });
  afterAll(() => {
    folder.remove();
    rmSync(out, { recursive: true, force: true });
  });

  describe.each(RUN_MODES)('in mode %s', (mode) => {
    let served: Deployment;
    /** Of the steps that two versions differ in. */
    let long: string;
    const http = () => served.gateways.at(-1)?.http ?? '';
    const run = (...args: readonly string[]) => replayCommand(http(), ['run', ...args]);

    beforeAll(async () => {
      served = await deploy(mode, [folder.path], ['--journal=on']);
    });
    afterAll(async () => {
      await served.stop();
    });

    test(
      'speech by HTTP, a gRPC stream and a producer: recorded alike, and the same when it runs again',
      async () => {
        const [answers, streamed] = await Promise.all([
          byHttp(served.http, MODELS.http, speech),
          byGrpcStream(served.gateways[0]?.grpc ?? '', MODELS.grpc, speech, 'speech'),
          byProducer(served.http, MODELS.producer, speech),
        ]);
        expect(answers).toEqual(expected.speech);
        expect(streamed).toEqual(expected.speech);
        const recordings = [];
        for (const model of Object.values(MODELS)) recordings.push(await overRecording(http(), model, 'speech'));
        expect(await listedByCommand(http(), MODELS.http)).toEqual(recordings.slice(0, 1));
        const shown = [];
        for (const { id, ...recording } of recordings) {
          expect(recording).toMatchObject({
            kind: 'sequence',
            sequence_id: 'speech',
            state: 'ended',
            steps: speechSteps,
          });
          expect(await run(id)).toEqual({ code: 0, output: `equal: ${speechSteps} steps compared\n` });
          shown.push((await showRecording(http(), id)).steps);
        }
        const [first = '', ...others] = recordings.map(({ id }) => id);
        for (const other of others) {
          const compared = await replayCommand(http(), ['diff', first, other]);
          expect(compared).toEqual({ code: 0, output: `equal: ${speechSteps} steps compared\n` });
        }
        const heard = Array.from({ length: speechSteps }, (_, step) => [...frameOf(speech, step)]);
        expect((await shownByCommand(http(), first)).steps).toEqual(shown[0]);
        for (const steps of shown) {
          expect(steps.map(({ inputs }) => inputs[0]?.data?.map((value) => Math.fround(Number(value))))).toEqual(heard);
          expect(steps.map(({ answers: [answer] }) => Math.fround(Number(answer?.outputs?.[0]?.data?.[0])))).toEqual(
            expected.speech,
          );
        }
      },
      TEST_MS,
    );

    test(
      `${STEPS} steps against a version with one other weight: the first step that differs, with both values`,
      async () => {
        const { first, second } = expected;
        expect(await byGrpcStream(served.gateways[0]?.grpc ?? '', MODELS.grpc, sound, 'long')).toEqual(first);
        const newest = await overRecording(http(), MODELS.grpc, 'long');
        expect(newest).toMatchObject({ steps: STEPS, state: 'ended' });
        long = newest.id;
        const differing = first.flatMap((value, step) => (value === second[step] ? [] : [step]));
        const [step = -1] = differing;
        // The weight does nothing where there is no sound.
        expect(step).toBeGreaterThanOrEqual(SILENT_STEPS);
        const { code, output } = await run(long, '--version=2');
        expect(code, output).toBe(1);
        expect(verdict(output), output).toEqual({
          step,
          name: 'output',
          recorded: first[step],
          replayed: second[step],
          differing: differing.length,
          compared: STEPS,
        });
      },
      TEST_MS,
    );

    test('within tolerances, and with one that is too small', async () => {
      const far = Math.max(...expected.first.map((value, step) => Math.abs(value - (expected.second[step] ?? 0))));
      const wide = await run(long, '--version=2', `--atol=${far * 1.01}`);
      expect(wide).toEqual({ code: 0, output: expect.stringContaining(`equal: ${STEPS} steps compared`) });
      const at = expected.first.findIndex((value, step) => Math.abs(value - (expected.second[step] ?? 0)) > far / 2);
      const small = await run(long, '--version=2', `--atol=${far / 2}`);
      expect(small.code, small.output).toBe(1);
      expect(verdict(small.output), small.output).toMatchObject({ step: at, replayed: expected.second[at] });
    });

    test('from a step on, whose state the steps before it make', async () => {
      expect(await run(long, `--from=${FROM}`)).toEqual({ code: 0, output: `equal: ${STEPS - FROM} steps compared\n` });
      const { first, second } = expected;
      const at = first.findIndex((value, step) => step >= FROM && value !== second[step]);
      const { code, output } = await run(long, '--version=2', `--from=${FROM}`);
      expect(code, output).toBe(1);
      expect(verdict(output), output).toMatchObject({ step: at, recorded: first[at], replayed: second[at] });
    });

    test('with the inputs of one step replaced: it differs from that step on, as the graph does', async () => {
      const file = join(out, `${mode}-silence.json`);
      const audio = { name: 'audio', datatype: 'FP32', shape: [1, FRAME], data: Array(FRAME).fill(0) };
      writeFileSync(file, JSON.stringify({ inputs: [audio] }));
      const muted = sound.slice().fill(0, REPLACED * FRAME, (REPLACED + 1) * FRAME);
      const other = await byFile(join(folder.path, MODELS.grpc, '1', 'model.onnx'), muted);
      const { code, output } = await run(long, `--replace=${REPLACED}=${file}`);
      expect(code, output).toBe(1);
      expect(verdict(output), output).toMatchObject({
        step: REPLACED,
        recorded: expected.first[REPLACED],
        replayed: other[REPLACED],
      });
    });

    test('flat out, at a factor of its pace, and recorded itself', async () => {
      for (const pace of ['flat', '1000']) {
        expect(await run(long, `--pace=${pace}`)).toEqual({ code: 0, output: `equal: ${STEPS} steps compared\n` });
      }
      const { code, output } = await run(long, '--record');
      expect(code, output).toBe(0);
      const [, again = ''] = /recorded as (\S+)/.exec(output) ?? [];
      expect(await replayCommand(http(), ['diff', long, again])).toMatchObject({ code: 0 });
    });

    test.each([
      ['a recording that is not there', () => [`${MODELS.grpc}~nothing`]],
      ['a version that is not there', () => [long, '--version=9']],
      ['a step that is not there', () => [long, `--from=${STEPS}`]],
    ])('could not run: %s', async (_, args) => {
      const { code, output } = await run(...args());
      expect(code, output).toBe(COULD_NOT_RUN);
      expect(output).toMatch(/^nereid replay run: could not run: /);
    });

    test(
      'a file of it on a fresh server: the same when it runs there; as a test it passes, and fails on the other version',
      async () => {
        const plain = join(out, `${mode}.nrj`);
        const gzipped = `${plain}.gz`;
        const asTest = join(out, `${mode}.test.mjs`);
        for (const args of [[`--out=${plain}`], [`--out=${gzipped}`, '--gzip'], [`--out=${asTest}`, '--as-test']]) {
          expect(await replayCommand(http(), ['export', long, ...args])).toMatchObject({ code: 0 });
        }
        expect(readFileSync(gzipped).length).toBeLessThan(readFileSync(plain).length);
        const fresh = await deploy(
          mode,
          [folder.path],
          ['--model-control-mode=explicit', `--load-model=${MODELS.grpc}`],
        );
        try {
          for (const file of [plain, gzipped]) {
            const { code, output } = await replayCommand(fresh.http, ['import', file]);
            expect(code, output).toBe(0);
            const [, id = ''] = /^imported as (\S+): /.exec(output) ?? [];
            const ran = await replayCommand(fresh.http, ['run', id]);
            expect(ran).toEqual({ code: 0, output: `equal: ${STEPS} steps compared\n` });
            expect(await replayCommand(fresh.http, ['diff', id, plain])).toMatchObject({ code: 0 });
          }
          expect(await listRecordings(fresh.http, MODELS.grpc)).toHaveLength(2);
          const tried = (file: string) =>
            runCommand(process.execPath, ['--test', file], { env: testEnvironment(fresh.http) });
          const same = await tried(asTest);
          expect(same.code, same.output).toBe(0);
          const text = readFileSync(asTest, 'utf8');
          expect(text).toContain("VERSION = '1'");
          const onOther = join(out, `${mode}-2.test.mjs`);
          writeFileSync(onOther, text.replace("VERSION = '1'", "VERSION = '2'"));
          const other = await tried(onOther);
          expect(other.code, other.output).toBe(1);
          expect(other.output).toMatch(new RegExp(`step ${firstDiffering(expected)}\\b.*output`));
        } finally {
          await fresh.stop();
        }
      },
      TEST_MS,
    );

    test('nothing is left of what ran again', async () => {
      const answer = await fetch(`${http()}/nereid/v1/sequences`);
      expect(((await answer.json()) as { sequences: unknown[] }).sequences).toEqual([]);
    });
  });

  test('could not run: no server', async () => {
    const { code, output } = await replayCommand('http://127.0.0.1:1', ['run', 'vad~nothing']);
    expect(code, output).toBe(COULD_NOT_RUN);
  });
});

/** A test that finds itself in a test would not run. */
function testEnvironment(http: string): Record<string, string | undefined> {
  return { ...process.env, NEREID_URL: http, NODE_TEST_CONTEXT: undefined };
}
