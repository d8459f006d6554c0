import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, flagEnvironment, MODES, type StartedProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { type Answer, infer } from './requests.ts';

const LEAK_MIB = 300;
/** A worker of these models has about half of it when it starts. */
const LIMIT_BYTES = 300 * 2 ** 20;
const LEAK = -1;
const CLIENTS = 4;
const TEST_MS = 90_000;

/** Answers with the number of its process; LEAK takes memory that nothing gives back. */
const PID = `
  const kept = [];
  export const execute = (requests) => requests.map(({ inputs }) => {
    const [value] = inputs.get('VALUE').data;
    if (value === ${LEAK}) kept.push(Buffer.alloc(${LEAK_MIB} * 2 ** 20, 1));
    return { outputs: { VALUE: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(process.pid) } } };
  });`;
const SEQUENCES =
  'sequence_batching { max_sequence_idle_microseconds: 600000000 oldest { max_candidate_sequences: 8 } }';

describe.skipIf(!MODES.includes('apart'))('a worker past its memory limit', () => {
  let folder: ModelFolder;
  let redis: PrivateRedis;
  const started: StartedProcess[] = [];
  let http: string;
  let worker: StartedProcess;

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('pid', PID, '', { maxBatchSize: 4 });
    folder.addJavaScript('steps', PID, SEQUENCES, { maxBatchSize: 4 });
    redis = await startPrivateRedis();
    const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
    const starting = [
      cluster.start('gateway'),
      cluster.start('coordinator'),
      cluster.start('worker', [`--worker-memory-limit=${LIMIT_BYTES}`]),
    ];
    started.push(...(await Promise.all(starting.map((each) => each.started))));
    http = started[0]?.http ?? '';
    worker = started[2] as StartedProcess;
    // The keeper has its metrics before it has a worker.
    await worker.waitFor(/Started worker on Redis/);
    for (const model of ['pid', 'steps']) await modelReady(http, model);
  });
  afterAll(async () => {
    for (const one of started) one.process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
    folder.remove();
  });

  const ask = (model: string, value: number, parameters: object = {}): Promise<Answer> => {
    const inputs = [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }];
    return infer(http, model, JSON.stringify({ parameters, inputs }));
  };
  const pidOf = ({ error, outputs }: Answer) => {
    expect(error).toBeUndefined();
    return Number(outputs.get('VALUE')?.data?.[0]);
  };
  const isAlive = (pid: number) => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const step = (flags: object) => ask('steps', 1, { sequence_id: 'kept', ...flags }).then(pidOf);

  test(
    'another takes its place without a failed request; its sequence ends on it, and then it goes',
    async () => {
      const old = pidOf(await ask('pid', 1));
      expect(old).not.toBe(worker.process.pid);
      expect(await step({ sequence_start: true })).toBe(old);
      let isOver = false;
      const pids: number[] = [];
      const failed: (string | undefined)[] = [];
      const clients = Array.from({ length: CLIENTS }, async () => {
        while (!isOver) {
          const { error, outputs } = await ask('pid', 1);
          if (error === undefined) pids.push(Number(outputs.get('VALUE')?.data?.[0]));
          else failed.push(error);
        }
      });
      expect(pidOf(await ask('pid', LEAK))).toBe(old);
      const said = await worker.waitFor(/the worker (\d+) serves; \d+ ends what it has accepted/);
      const next = Number(/the worker (\d+) serves/.exec(said)?.[1]);
      expect(next).not.toBe(old);
      // What it had accepted it still answers.
      await eventually('the old one takes no more', async () => {
        const last = pids.slice(-CLIENTS * 10);
        return last.length === CLIENTS * 10 && last.every((pid) => pid === next);
      });
      isOver = true;
      await Promise.all(clients);
      expect(failed).toEqual([]);
      expect(await step({})).toBe(old);
      expect(isAlive(old)).toBe(true);
      const metrics = await (await fetch(`${worker.metrics}/metrics`)).text();
      expect(metrics).toContain('nereid_held{role="worker"');
      expect(await step({ sequence_end: true })).toBe(old);
      await eventually('it is gone', async () => !isAlive(old));
      expect(await ask('pid', 1).then(pidOf)).toBe(next);
    },
    TEST_MS,
  );

  test('a signal stops the one that serves, in order', async () => {
    const serving = pidOf(await ask('pid', 1));
    const { code, output } = await worker.stop();
    expect(code, output).toBe(0);
    expect(isAlive(serving)).toBe(false);
  });
});
