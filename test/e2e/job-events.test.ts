import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commandFile } from '../../deploy/setup/checkout.mjs';
import {
  type Cluster,
  clusterOn,
  type Deployment,
  deploy,
  flagEnvironment,
  MODES,
  type StartedProcess,
} from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { limitMs } from './time-limits.ts';

const WAIT_MS = limitMs(30_000);

/** Counts up to VALUE, one answer each; from the third on only once there is the file `goOn`. */
const counting = (goOn: string) => `
  import { existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  async function* count({ inputs, signal }) {
    for (let n = 1; n <= inputs.get('VALUE').data[0]; n++) {
      while (n > 2 && !signal.aborted && !existsSync(${JSON.stringify(goOn)})) await setTimeout(5);
      yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(n * 10) } } };
    }
  }
  export const execute = (requests) => requests.map(count);`;
const DECOUPLED = 'model_transaction_policy { decoupled: true }';

/** An event of a job, as `nereid jobs watch --json` prints it. */
interface Told {
  readonly event: string;
  readonly id?: string;
  readonly data: {
    readonly n?: number;
    readonly state?: string;
    readonly attempts_made?: number;
    readonly outputs?: readonly { readonly data: readonly number[] }[];
  };
}

interface Watching {
  readonly told: readonly Told[];
  readonly process: ChildProcess;
  /** Its exit code. */
  readonly ended: Promise<number | null>;
}

/** `nereid jobs watch`. */
function watch(url: string, id: string): Watching {
  const child = spawn(process.execPath, [commandFile(), 'jobs', 'watch', id, '--json', `--url=${url}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const told: Told[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => told.push(JSON.parse(line)));
  return { told, process: child, ended: new Promise((resolve) => child.once('close', resolve)) };
}

const numbers = (told: readonly Told[]) => told.flatMap(({ event, data }) => (event === 'output' ? [data.n] : []));
const values = (told: readonly Told[]) =>
  told.flatMap(({ event, data }) => (event === 'output' ? data.outputs?.[0]?.data : []));

async function submit(url: string, model: string, value: number): Promise<string> {
  const body = JSON.stringify({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], data: [value] }] });
  const answer = await fetch(`${url}/v2/models/${model}/jobs`, { method: 'POST', body });
  return ((await answer.json()) as { readonly id: string }).id;
}

const reached = (watching: Watching, n: number) =>
  expect.poll(() => numbers(watching.told).at(-1), { timeout: WAIT_MS }).toBe(n);

describe.each(MODES)('a job of a decoupled model in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('counting', counting(`${folder.path}/go-on`), DECOUPLED);
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  test('tells each answer when it comes, and its last one is the result', async () => {
    const id = await submit(served.http, 'counting', 4);
    const watching = watch(served.http, id);
    await reached(watching, 2);
    const status = await fetch(`${served.http}/v2/jobs/${id}`);
    expect(await status.json()).toMatchObject({ state: 'running', progress: { n: 2 } });
    writeFileSync(`${folder.path}/go-on`, '');
    expect(await watching.ended).toBe(0);
    expect(values(watching.told)).toEqual([10, 20, 30, 40]);
    expect(watching.told.at(-1)).toMatchObject({ event: 'end', data: { state: 'completed', attempts_made: 1 } });
    const result = await fetch(`${served.http}/v2/jobs/${id}/result`);
    expect(await result.json()).toMatchObject({ outputs: [{ name: 'VALUE', data: [40] }] });
  });
});

describe('a cluster that loses processes', () => {
  let folder: ModelFolder;
  let redis: PrivateRedis;
  let cluster: Cluster;
  const started: StartedProcess[] = [];

  const start = async (role: 'gateway' | 'coordinator' | 'worker') => {
    const one = await cluster.start(role).started;
    started.push(one);
    return one;
  };

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('counting', counting(`${folder.path}/go-on`), DECOUPLED);
    redis = await startPrivateRedis();
    cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
    await Promise.all([start('gateway'), start('gateway'), start('coordinator'), start('worker')]);
    await Promise.all(urls().map((url) => modelReady(url, 'counting')));
  });
  afterAll(async () => {
    for (const one of started) one.process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
    folder.remove();
  });

  const urls = () => started.flatMap(({ http }) => (http === undefined ? [] : [http]));
  const kill = (of: (one: StartedProcess) => boolean) => started.find(of)?.process.kill('SIGKILL');

  test(
    'events go on at another gateway, and a job whose worker is killed tells its answers anew',
    async () => {
      const [first = '', second = ''] = urls();
      const id = await submit(second, 'counting', 3);
      const before = watch(first, id);
      await reached(before, 2);
      before.process.kill('SIGKILL');
      kill(({ http }) => http === first);

      const last = before.told.at(-1)?.id ?? '';
      const after = await fetch(`${second}/v2/jobs/${id}/events`, { headers: { 'Last-Event-ID': last } });
      const rest = after.text();
      const watching = watch(second, id);
      await reached(watching, 2);
      kill(({ role }) => role === 'worker');
      writeFileSync(`${folder.path}/go-on`, '');
      await start('worker');
      expect(await watching.ended).toBe(0);
      expect(numbers(watching.told)).toEqual([1, 2, 1, 2, 3]);
      expect(values(watching.told).slice(2)).toEqual([10, 20, 30]);
      // What had been told at the first gateway is not told again.
      const events = (await rest).match(/^event: (?!state)\w+$/gm);
      expect(events).toEqual(['event: output', 'event: output', 'event: output', 'event: end']);
    },
    limitMs(60_000),
  );
});
