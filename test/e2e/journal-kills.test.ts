import { rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, type Deployment, deploy, flagEnvironment, MODES, type StartedProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { type ListedRecording, listRecordings, overRecording, replayCommand, showRecording } from './recordings.ts';
import { type Answer, infer } from './requests.ts';

/** Values of steps that run until they are let go on, and that end what runs them. */
const HELD = -1;
const KILLS = -2;
/** Sequences that step as fast as they can when their worker is killed. */
const RUNNING = 6;
/** Values of their steps: they are kept apart from the rest of a step. */
const LARGE = 5_000;
/** Workers that are killed, one after the other. */
const KILLS_IN_ALL = Number(process.env.NEREID_REPLAY_KILLS ?? 1);
/** Where carriers die: above it is the roles apart, whose workers are the same code. */
const CARRIER_MODES = KILLS_IN_ALL > 1 ? MODES : MODES.slice(0, 1);
const TEST_MS = 90_000;
const LIMIT_MS = 30_000;

const CONFIG = `
  sequence_batching {
    max_sequence_idle_microseconds: 600000000
    oldest { max_candidate_sequences: 64 }
    state [ {
      input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 1 ]
      initial_state: { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }
    } ]
  }`;

/** Answers with the sum of its sequence's values. A HELD one is written down and runs until there is the file `goOn`. */
const sums = (held: string, goOn: string) => `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    return Promise.all(requests.map(async ({ inputs, correlationId, state }) => {
      const [value] = inputs.get('VALUE').data;
      if (value === ${KILLS}) process.exit(7);
      if (value === ${HELD}) {
        appendFileSync(${JSON.stringify(held)}, correlationId + '\\n');
        while (!existsSync(${JSON.stringify(goOn)})) await setTimeout(5);
      }
      const sum = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(state.get('BEFORE').data[0] + value) };
      return { outputs: { VALUE: sum }, state: { AFTER: sum } };
    }));
  }`;

type Flag = 'start' | 'end' | '';

function step(http: string, model: string, id: string, value: number, flag: Flag = '', size = 1): Promise<Answer> {
  const parameters = { sequence_id: id, sequence_start: flag === 'start', sequence_end: flag === 'end' };
  const inputs = [{ name: 'VALUE', datatype: 'INT32', shape: [1, size], data: [value, ...Array(size - 1).fill(0)] }];
  return infer(http, model, JSON.stringify({ parameters, inputs }));
}

/** So many steps of a sequence, one after the other; throws where one is not answered. */
async function steps(http: string, model: string, id: string, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const { error } = await step(http, model, id, at + 1, at === 0 ? 'start' : '');
    if (error !== undefined) throw new Error(error);
  }
}

describe.skipIf(!MODES.includes('apart'))('a worker that is killed', () => {
  const held = () => `${folder.path}/held`;
  const goOn = () => `${folder.path}/go-on`;
  let folder: ModelFolder;
  let redis: PrivateRedis;
  const started: StartedProcess[] = [];
  let http: string;

  beforeAll(async () => {
    folder = createModelFolder();
    // Steps that are held leave other instances to those that run.
    const instances = '{ count: 4, kind: KIND_CPU }';
    folder.addJavaScript('sums', sums(held(), goOn()), CONFIG, { maxBatchSize: 4, instances, dims: -1 });
    redis = await startPrivateRedis();
    const environment = flagEnvironment([`--model-repository=${folder.path}`, '--journal=on']);
    const cluster = clusterOn(redis, environment);
    const roles = ['gateway', 'coordinator', 'worker'] as const;
    started.push(...(await Promise.all(roles.map((role) => cluster.start(role).started))));
    http = started[0]?.http ?? '';
    await modelReady(http, 'sums');
  });
  afterAll(async () => {
    for (const one of started) one.process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
    folder.remove();
  });

  test.each(Array.from({ length: KILLS_IN_ALL }, (_, kill) => kill))(
    'each recording ends with the last step that took effect, says so, and is the same when it runs again (kill %s)',
    async (kill) => {
      for (const file of [held(), goOn()]) rmSync(file, { force: true });
      /** Steps that were answered, by the id of their sequence. */
      const answered = new Map<string, number>();
      await Promise.all(
        ['after-1', 'after-7', 'in-3', 'ended'].map(async (id) => {
          const count = Number(id.split('-')[1] ?? 2);
          await steps(http, 'sums', `${id}/${kill}`, count);
          answered.set(id, count);
        }),
      );
      expect((await step(http, 'sums', `ended/${kill}`, 1, 'end')).error).toBeUndefined();
      answered.set('ended', 3);
      const lost = [step(http, 'sums', `in-3/${kill}`, HELD), step(http, 'sums', `in-0/${kill}`, HELD, 'start')];
      await eventually('two steps are held', async () => linesIn(held()).length === 2);
      let isKilled = false;
      const running = Array.from({ length: RUNNING }, async (_, index) => {
        const id = `running-${index}`;
        for (let at = 0; ; at += 1) {
          const { error } = await step(http, 'sums', `${id}/${kill}`, at, at === 0 ? 'start' : '', LARGE);
          if (error !== undefined) {
            expect(isKilled, error).toBe(true);
            return;
          }
          answered.set(id, at + 1);
        }
      });
      // Others wait behind the steps that are held.
      const all = () => Array.from({ length: RUNNING }, (_, index) => answered.get(`running-${index}`) ?? 0);
      await eventually('some run', async () => all().filter((count) => count > 9).length >= 2);
      isKilled = true;
      started.at(-1)?.process.kill('SIGKILL');
      await Promise.all(running);
      for (const { error } of await Promise.all(lost)) expect(error).toBeDefined();

      await eventually('the worker is known to be gone', async () =>
        (await listRecordings(http, 'sums')).every(({ state }) => state !== 'open'),
      );
      const recordings = new Map<string, ListedRecording>();
      for (const each of await listRecordings(http, 'sums')) {
        const [id = '', of] = String(each.sequence_id).split('/');
        if (of === String(kill)) recordings.set(id, each);
      }
      const environment = flagEnvironment([`--model-repository=${folder.path}`, '--journal=on']);
      writeFileSync(goOn(), '');
      started.push(await clusterOn(redis, environment).start('worker').started);
      await modelReady(http, 'sums');
      // Of a START that never ended there is nothing.
      expect(recordings.has('in-0')).toBe(false);
      for (const id of answered.keys()) expect(recordings.has(id), id).toBe(true);
      let replayed = 0;
      for (const [id, { id: recording, state, steps: count }] of recordings) {
        const known = answered.get(id) ?? 0;
        const isRunning = id.startsWith('running');
        // The last answer of one that ran may have died on its way.
        expect(count, id).toBeGreaterThanOrEqual(known);
        expect(count, id).toBeLessThanOrEqual(isRunning ? known + 1 : known);
        expect(state, id).toBe(id === 'ended' ? 'ended' : 'lost');
        // A few of those that ran are enough.
        if (isRunning && replayed++ > 1) continue;
        const ran = await replayCommand(http, ['run', recording]);
        expect(ran, id).toEqual({ code: 0, output: `equal: ${count} ${count === 1 ? 'step' : 'steps'} compared\n` });
      }
      const { id = '' } = recordings.get('in-3') ?? {};
      const shown = await replayCommand(http, ['show', id]);
      expect(shown.output).toMatch(
        /^state +lost: step 2 is the last that took effect; after it its state went with its worker/m,
      );
      expect(await replayCommand(http, ['run', id, '--until=9'])).toMatchObject({ code: 2 });
    },
    TEST_MS,
  );
});

describe.each(CARRIER_MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

  beforeAll(async () => {
    folder = createModelFolder();
    const source = sums(`${folder.path}/held`, `${folder.path}/go-on`);
    const parameter = 'parameters { key: "nereid.carrier" value { string_value: "process" } }';
    folder.addJavaScript('process', source, `${CONFIG} ${parameter}`, { maxBatchSize: 4 });
    folder.addJavaScript('thread', source, CONFIG, { maxBatchSize: 4 });
    served = await deploy(mode, [folder.path], ['--journal=on']);
  });
  afterAll(async () => {
    await served.stop();
    folder.remove();
  });

  test.each(['process', 'thread'])(
    'a step that ends its %s is recorded as lost, with its inputs; those before it are the same when they run again',
    async (model) => {
      await steps(served.http, model, 'killed', 4);
      await steps(served.http, model, 'beside', 2);
      const { error } = await step(served.http, model, 'killed', KILLS);
      expect(error).toBeDefined();
      const { id, ...recording } = await overRecording(served.http, model, 'killed');
      expect(recording).toMatchObject({ state: 'lost', steps: 5 });
      const { steps: recorded } = await showRecording(served.http, id);
      expect(recorded.map(({ effect }) => effect)).toEqual([...Array(4).fill('applied'), 'lost']);
      expect(recorded.at(-1)).toMatchObject({ inputs: [{ name: 'VALUE', data: [KILLS] }], answers: [] });
      const shown = await replayCommand(served.http, ['show', id]);
      expect(shown.output).toMatch(
        /^state +lost: step 3 is the last that took effect; step 4 came after it and was lost with what ran it/m,
      );
      const beside = await overRecording(served.http, model, 'beside');
      expect(beside).toMatchObject({ state: 'lost', steps: 2 });
      const ran = [await replayCommand(served.http, ['run', id]), await replayCommand(served.http, ['run', beside.id])];
      expect(ran).toEqual([4, 2].map((count) => ({ code: 0, output: `equal: ${count} steps compared\n` })));
    },
    LIMIT_MS * 2,
  );

  test('what began anew under its id is a recording of its own', async () => {
    await steps(served.http, 'thread', 'anew', 3);
    await steps(served.http, 'thread', 'anew', 2);
    expect((await step(served.http, 'thread', 'anew', 1, 'end')).error).toBeUndefined();
    await overRecording(served.http, 'thread', 'anew');
    const both = (await listRecordings(served.http, 'thread')).filter(({ sequence_id: id }) => id === 'anew');
    expect(both.map(({ state, steps: count }) => [state, count])).toEqual([
      ['ended', 3],
      ['freed', 3],
    ]);
  });
});
