import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, type Deployment, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { modelReady, modelUnavailable } from './model-states.ts';
import { infer, oneInput } from './requests.ts';

/** What an instance said when it loaded. */
interface Loaded {
  readonly instance: string;
  readonly device: { readonly kind: string; readonly id: number };
  readonly pid: number;
  /** Processor cores that its process may use, `0-3,8`. */
  readonly cores: string;
}

/** What instances of a model did, in order. */
interface Ran {
  readonly instance: string;
  readonly what: 'begin' | 'end';
}

const GROUPS: Readonly<Record<string, string>> = {
  pair: '{ count: 2 kind: KIND_CPU }',
  half_passive: '[ { name: "p" kind: KIND_CPU count: 2 passive: true }, { name: "q" kind: KIND_CPU } ]',
  all_passive: '{ kind: KIND_CPU passive: true }',
  several: '[ { kind: KIND_MODEL }, { name: "own" kind: KIND_CPU count: 2 }, { } ]',
  pinned: '[ { kind: KIND_CPU host_policy: "one_core" }, { name: "free" kind: KIND_CPU host_policy: "unknown" } ]',
  threaded: '{ kind: KIND_CPU host_policy: "one_core" }',
  on_gpu: '{ kind: KIND_GPU }',
  on_gpu_9: '{ kind: KIND_GPU gpus: 9 }',
};
/** What asks for a value over this ends its instance. */
const DEADLY = 666;

/** The last core that this process may use. */
function lastCore(): number {
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(/\d+$/.exec(list)?.[0]);
}

/** Models that write down how they were loaded and what they run; each execution waits until `go`. */
function addModels(folder: ModelFolder): void {
  for (const [name, instances] of Object.entries(GROUPS)) {
    const file = (kind: string) => JSON.stringify(join(folder.path, `${name}.${kind}`));
    folder.addJavaScript(
      name,
      `import { appendFileSync, existsSync, readFileSync } from 'node:fs';
       import { setTimeout as delay } from 'node:timers/promises';
       let instance;
       const write = (file, what) => appendFileSync(file, JSON.stringify({ instance, ...what }) + '\\n');
       export function initialize({ instanceName, device }) {
         instance = instanceName;
         const [, cores] = /^Cpus_allowed_list:\\s*(\\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
         write(${file('loaded')}, { device, pid: process.pid, cores });
       }
       export async function execute(requests) {
         const VALUE = requests[0].inputs.get('VALUE');
         if (VALUE.data[0] === ${DEADLY}) process.exit(1);
         write(${file('ran')}, { what: 'begin' });
         while (!existsSync(${file('go')})) await delay(5);
         write(${file('ran')}, { what: 'end' });
         return [{ outputs: { VALUE } }];
       }`,
      name === 'threaded' ? 'parameters { key: "nereid.carrier" value { string_value: "thread" } }' : '',
      { instances },
    );
  }
}

describe.each(MODES)('in mode %s', (mode) => {
  const core = lastCore();
  const flags = [`--host-policy=one_core,cpu-cores=${core}`, '--exit-on-error=false', '--strict-readiness=false'];
  let folder: ModelFolder;
  let served: Deployment;

  beforeAll(async () => {
    folder = createModelFolder();
    addModels(folder);
    // Whatever this machine has, these tests have no GPU.
    process.env.CUDA_VISIBLE_DEVICES = '';
    served = await deploy(mode, [folder.path], flags);
    const ready = Object.keys(GROUPS).filter((name) => !name.startsWith('on_gpu'));
    for (const name of ready) await modelReady(served.http, name);
  });
  afterAll(async () => {
    delete process.env.CUDA_VISIBLE_DEVICES;
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const lines = <T>(name: string): T[] => linesIn(join(folder.path, name)).map((line) => JSON.parse(line));
  const loaded = (model: string) => lines<Loaded>(`${model}.loaded`);
  const ran = (model: string) => lines<Ran>(`${model}.ran`);
  const letGo = (model: string) => appendFileSync(join(folder.path, `${model}.go`), '');
  const ask = (model: string, value = 1) => infer(served.http, model, oneInput('VALUE', 'INT32', [1], [value]));
  /** The most executions that were on at a time. */
  const overlap = (model: string) => {
    let now = 0;
    return Math.max(...ran(model).map(({ what }) => (what === 'begin' ? ++now : now--)));
  };

  test('work goes to whichever instance waits: two of them run two requests at a time', async () => {
    const answers = Array.from({ length: 4 }, () => ask('pair'));
    await eventually('two have begun', async () => ran('pair').length === 2);
    expect(new Set(ran('pair').map(({ instance }) => instance))).toEqual(new Set(['pair_0_0', 'pair_0_1']));
    letGo('pair');
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(overlap('pair')).toBe(2);
  });

  test.runIf(mode === 'apart')('each worker that holds the model has so many', async () => {
    if (served.redis === undefined) throw new Error('there is no Redis');
    const cluster = clusterOn(served.redis, flagEnvironment([...flags, `--model-repository=${folder.path}`]));
    const before = loaded('pair').length;
    const another = cluster.start('worker', ['--worker-models=pair']);
    try {
      await another.started;
      await eventually('it has loaded its own', async () => loaded('pair').length === before + 2);
      expect(new Set(loaded('pair').map(({ pid }) => pid)).size).toBe(2);
    } finally {
      await another.stop();
    }
  });

  test('passive instances are loaded and never run anything, also when the others had to be started again', async () => {
    letGo('half_passive');
    expect(
      loaded('half_passive')
        .map(({ instance }) => instance)
        .sort(),
    ).toEqual(['p_0', 'p_1', 'q_0']);
    for (let sent = 0; sent < 3; sent++) expect((await ask('half_passive')).status).toBe(200);
    expect((await ask('half_passive', DEADLY)).status).toBe(500);
    await eventually('it answers again', async () => (await ask('half_passive')).status === 200);
    await Promise.all(Array.from({ length: 6 }, () => ask('half_passive')));
    expect(new Set(ran('half_passive').map(({ instance }) => instance))).toEqual(new Set(['q_0']));
  });

  test('a model with passive instances only is ready, and refuses its requests at once', async () => {
    const { status, error } = await ask('all_passive');
    expect(status).toBe(501);
    expect(error).toContain("model 'all_passive' has passive instances only, which run no requests");
  });

  test('instances of several groups have their names and devices, and without GPUs are on the CPU', async () => {
    expect(
      loaded('several')
        .map(({ instance, device }) => `${instance} ${device.kind} ${device.id}`)
        .sort(),
    ).toEqual(['own_0 cpu 0', 'own_1 cpu 0', 'several_0_0 model 0', 'several_2_0 cpu 0']);
    const response = await fetch(`${served.http}/v2/models/several/config`);
    const config = (await response.json()) as {
      instance_group: readonly { name: string; kind: string; count: number }[];
    };
    expect(config.instance_group.map(({ name, kind, count }) => `${name} ${kind} ${count}`)).toEqual([
      'several_0 KIND_MODEL 1',
      'own KIND_CPU 2',
      'several_2 KIND_CPU 1',
    ]);
  });

  test('an instance under a host policy runs on its cores alone, in a process of its own', async () => {
    const byName = new Map(loaded('pinned').map((one) => [one.instance, one]));
    const { pid = 0, cores } = byName.get('pinned_0_0') ?? {};
    expect(cores).toBe(String(core));
    expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(new RegExp(`^Cpus_allowed_list:\\t${core}$`, 'm'));
    const workers = served.workers.map(({ process }) => process.pid);
    expect(workers).not.toContain(pid);
    // A policy that there is not binds nothing.
    expect(workers).toContain(byName.get('free_0')?.pid);
    const output = served.workers.map((worker) => worker.output()).join('');
    expect(output).toContain("there is no --host-policy named 'unknown'");
    letGo('pinned');
    expect((await ask('pinned')).status).toBe(200);
  });

  test('an instance that must be a thread is not bound, of which a warning tells', async () => {
    const workers = served.workers.map(({ process }) => process.pid);
    expect(workers).toContain(loaded('threaded')[0]?.pid);
    const output = served.workers.map((worker) => worker.output()).join('');
    expect(output).toMatch(/a thread is not bound by its host policy \(taskset -c \d+\).*threaded_0_0/);
  });

  test('what asks for GPUs says why it cannot be had', async () => {
    const reasons = {
      on_gpu: 'instance group on_gpu_0 of model on_gpu has kind KIND_GPU but no GPUs are available',
      on_gpu_9: 'instance group on_gpu_9_0 of model on_gpu_9 specifies invalid or unsupported gpu id 9',
    };
    for (const [name, reason] of Object.entries(reasons)) await modelUnavailable(served.http, name, reason);
    // Apart another worker may come that has one: those without leave it to that one.
    const output = served.workers.map((worker) => worker.output()).join('');
    if (mode === 'apart') for (const reason of Object.values(reasons)) expect(output).toContain(reason);
  });
});
