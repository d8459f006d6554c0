import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, flagEnvironment, MODES } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { addGated, type GatedModel } from './gated-model.ts';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';
import { type Served, serve } from './serve.ts';
import { limitMs } from './time-limits.ts';

// Bug cases about health while a part dies or a server stops; each name begins with the case's id.

/** Long enough for a few requests on a busy machine. */
const PAUSE_MS = 2_500;
const PROCESS = 'parameters { key: "nereid.carrier" value { string_value: "process" } }';

type Door = Pick<Served, 'http' | 'stop' | 'waitFor'>;
type Cluster = ReturnType<typeof clusterOn>;
/** A status, or that the connection was not taken. */
type Came = number | 'refused';

const came = async (answer: Promise<{ readonly status: number }>): Promise<Came> =>
  answer.then(({ status }) => status).catch(() => 'refused' as const);
const answered = ({ status, outputs }: Answer) => [status, outputs.get('VALUE')?.data];

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let redis: Awaited<ReturnType<typeof startPrivateRedis>> | undefined;
  let cluster: Cluster;
  let gated: GatedModel;
  let plain: Door;
  let pausing: Door;
  const processes: Pick<Served, 'process' | 'ended'>[] = [];

  const start = async (role: 'gateway' | 'coordinator' | 'worker', flags: readonly string[] = []) => {
    const one = cluster.start(role, flags);
    processes.push(one);
    return one.started;
  };
  const openDoor = async (flags: readonly string[] = []): Promise<Door> => {
    if (mode === 'one') {
      const served = await serve([folder.path], flags);
      processes.push(served);
      return served;
    }
    const gateway = await start('gateway', flags);
    if (gateway.http === undefined) throw new Error('the gateway has no HTTP');
    return { ...gateway, http: gateway.http };
  };

  const ready = (of = 'health') => came(fetch(`${plain.http}/v2/${of}/ready`));
  const ask = (door: Door, model: string, value: number) =>
    infer(door.http, model, oneInput('VALUE', 'INT32', [1], [value]));
  const pids = () => readdirSync(join(folder.path, '.pids')).map(Number);

  beforeAll(async () => {
    folder = createModelFolder();
    mkdirSync(join(folder.path, '.pids'));
    const notes = `import { writeFileSync } from 'node:fs';
      export const initialize = () => writeFileSync(${JSON.stringify(join(folder.path, '.pids'))} + '/' + process.pid, '');
      export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));`;
    folder.addJavaScript('carried', notes, PROCESS);
    gated = addGated(folder, 'gated');
    if (mode === 'apart') {
      redis = await startPrivateRedis();
      cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
      await Promise.all([start('coordinator'), start('worker')]);
    }
    [plain, pausing] = await Promise.all([openDoor(), openDoor([`--drain-pause-ms=${PAUSE_MS}`])]);
    await eventually('it is ready', async () => (await ready()) === 200);
  });
  afterAll(async () => {
    for (const { process } of processes) process.kill('SIGKILL');
    await Promise.all(processes.map(({ ended }) => ended));
    await redis?.stop();
    folder.remove();
  });

  test('BC-103: a model whose process was killed works again, and is ready', async () => {
    const before = pids();
    for (const pid of before) process.kill(pid, 'SIGKILL');
    await delay(1_000);
    const begun = performance.now();
    expect([answered(await ask(plain, 'carried', 1)), answered(await ask(plain, 'carried', 2))]).toEqual([
      [200, [1]],
      [200, [2]],
    ]);
    expect(performance.now() - begun).toBeLessThan(limitMs(10_000));
    expect([await ready('models/carried'), await ready()]).toEqual([200, 200]);
    expect(pids().length).toBeGreaterThan(before.length);
  });

  test.runIf(mode === 'apart')(
    'BC-103: a model whose only worker was killed is not ready, until another comes',
    async () => {
      const worker = processes.find((one) => 'role' in one && one.role === 'worker');
      worker?.process.kill('SIGKILL');
      await eventually('the model is not ready', async () => (await ready('models/carried')) === 400);
      expect(await ready()).toBe(400);
      expect((await ask(plain, 'carried', 1)).status).toBe(503);
      await start('worker');
      await eventually('it is ready', async () => (await ready()) === 200);
      expect(answered(await ask(plain, 'carried', 2))).toEqual([200, [2]]);
    },
  );

  test('BC-106: what runs and what waits is answered, newcomers are told that it stops', async () => {
    const first = ask(plain, 'gated', 1);
    await eventually('the first runs', async () => gated.begun().length === 1);
    const second = ask(plain, 'gated', 2);
    // It has been taken once one that was sent behind it is answered.
    expect((await ask(plain, 'carried', 3)).status).toBe(200);
    const ending = plain.stop();
    await plain.waitFor(/SIGTERM received: stopping/);
    let late: Came = 200;
    await eventually('newcomers are refused', async () => {
      late = await came(ask(plain, 'carried', 4));
      return late !== 200;
    });
    expect([503, 'refused']).toContain(late);
    gated.open();
    expect([answered(await first), answered(await second)]).toEqual([
      [200, [1]],
      [200, [2]],
    ]);
    expect((await ending).code).toBe(0);
  });

  test('BC-107: in the pause before a stop it is not ready and answers, then it refuses', async () => {
    expect(await came(fetch(`${pausing.http}/v2/health/ready`))).toBe(200);
    const ending = pausing.stop();
    await pausing.waitFor(/Not ready from now on/);
    const seen: (readonly [isReady: Came, isLive: Came, answered: Came])[] = [];
    await eventually('newcomers are refused', async () => {
      const isReady = await came(fetch(`${pausing.http}/v2/health/ready`));
      const isLive = await came(fetch(`${pausing.http}/v2/health/live`));
      seen.push([isReady, isLive, await came(ask(pausing, 'carried', 1))]);
      return seen.at(-1)?.[2] !== 200;
    });
    const right = seen.filter(([, , status]) => status === 200);
    expect(right.length).toBeGreaterThan(0);
    expect(right).toEqual(right.map(() => [400, 200, 200]));
    expect([503, 'refused']).toContain(seen.at(-1)?.[2]);
    expect((await ending).code).toBe(0);
  });
});
