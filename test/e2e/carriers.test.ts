import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { oneInput, readAnswer } from './requests.ts';
import { serve } from './serve.ts';

const parameter = (key: string, value: string) =>
  `parameters { key: "nereid.${key}" value { string_value: "${value}" } }`;
const PROCESS = parameter('carrier', 'process');
/** All that a test sends at once is one batch. */
const GATHERED = 'dynamic_batching { max_queue_delay_microseconds: 10000000 preferred_batch_size: 4 }';
const ECHO = 'requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }))';
const KILLS = -1;
const SPINS = -2;
const LOAD_REQUESTS = 200;

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

  /** Notes its process by an empty file named for it. */
  const noting = (name: string, body: string) => {
    const pids = join(folder.path, `.${name}`);
    mkdirSync(pids);
    const source = `import { writeFileSync } from 'node:fs';
      export const initialize = () => writeFileSync(${JSON.stringify(pids)} + '/' + process.pid, '');
      export async function execute(requests) {
        const values = requests.map(({ inputs }) => inputs.get('VALUE').data[0]);
        ${body}
        return ${ECHO};
      }`;
    return { source, pids: () => readdirSync(pids).map(Number) };
  };
  let loaded: () => number[];

  beforeAll(async () => {
    folder = createModelFolder();
    const kills = `if (values.includes(${KILLS})) process.kill(process.pid, 'SIGSEGV');`;
    const spins = `if (values.includes(${SPINS})) for (;;);`;
    folder.addJavaScript('killed', noting('killed', kills).source, `${PROCESS} ${GATHERED}`, { maxBatchSize: 4 });
    const exits = kills.replace("process.kill(process.pid, 'SIGSEGV')", 'process.exit(9)');
    folder.addJavaScript('exits', noting('exits', exits).source, GATHERED, { maxBatchSize: 4 });
    const late = `${parameter('execution_timeout_ms', '1000')} ${GATHERED}`;
    folder.addJavaScript('late', noting('late', spins).source, late, { maxBatchSize: 4 });
    const load = noting('loaded', 'await new Promise((go) => setTimeout(go, 5));');
    loaded = load.pids;
    folder.addJavaScript('loaded', load.source, `${PROCESS} dynamic_batching { }`, { maxBatchSize: 4 });
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    const endings = await served.stop();
    expect(loaded().filter(isAlive)).toEqual([]);
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const ask = async (model: string, value: number) => {
    const body = oneInput('VALUE', 'INT32', [1, 1], [value]);
    const response = await fetch(`${served.http}/v2/models/${model}/infer`, { method: 'POST', body });
    const { outputs, error } = readAnswer(response.status, await response.text());
    const why = response.headers.get('nereid-error');
    return { status: response.status, value: outputs.get('VALUE')?.data?.[0], error, why };
  };
  const right = (value: number) => ({ status: 200, value, error: undefined, why: null });

  test.each([
    ['killed', 'its process was ended by signal SIGSEGV'],
    ['exits', 'its thread ended with exit code 9'],
  ])('of a batch of four one kills what runs it (%s): three are answered, one is refused', async (model, why) => {
    const answers = await Promise.all([1, 2, KILLS, 4].map((value) => ask(model, value)));
    expect(answers).toEqual([
      right(1),
      right(2),
      {
        status: 500,
        value: undefined,
        error: `the request is refused: instance '${model}_0_0' of model '${model}' ended: ${why}, a second time with this request in it`,
        why: 'POISONED',
      },
      right(4),
    ]);
    expect(await Promise.all([5, 6, 7, 8].map((value) => ask(model, value)))).toEqual([5, 6, 7, 8].map(right));
  });

  test('of a batch of four one never ends: three are answered, one is ended for its time', async () => {
    const answers = await Promise.all([1, SPINS, 3, 4].map((value) => ask('late', value)));
    expect(answers).toEqual([
      right(1),
      {
        status: 500,
        value: undefined,
        error: expect.stringContaining('an execution took longer than 1000 ms (nereid.execution_timeout_ms)'),
        why: 'INTERNAL; reason=execution_timeout',
      },
      right(3),
      right(4),
    ]);
  });

  test('a process that is killed from outside under load costs a delay', async () => {
    const answers = Array.from({ length: LOAD_REQUESTS }, (_, value) => ask('loaded', value));
    await answers[0];
    const [first] = loaded();
    process.kill(first ?? Number.NaN, 'SIGKILL');
    expect(await Promise.all(answers)).toEqual(Array.from({ length: LOAD_REQUESTS }, (_, value) => right(value)));
    await eventually('another one runs', async () => loaded().length === 2);
  });
});

test('processes end by themselves when their server is killed, also inside a run that has no end', async () => {
  const folder = createModelFolder();
  const pids = join(folder.path, '.pids');
  const begun = join(folder.path, '.begun');
  mkdirSync(pids);
  const children = () => readdirSync(pids).map(Number);
  const source = (body: string) => `import { writeFileSync } from 'node:fs';
    export const initialize = () => writeFileSync(${JSON.stringify(pids)} + '/' + process.pid, '');
    export function execute(requests) { ${body} }`;
  folder.addJavaScript('idle', source(`return ${ECHO};`), PROCESS);
  folder.addJavaScript('spins', source(`writeFileSync(${JSON.stringify(begun)}, ''); for (;;);`), PROCESS);
  const served = await serve([folder.path]);
  try {
    const lost = fetch(`${served.http}/v2/models/spins/infer`, {
      method: 'POST',
      body: oneInput('VALUE', 'INT32', [1], [1]),
    }).catch(() => 'lost');
    await eventually('the run has begun', async () => existsSync(begun));
    expect(children()).toHaveLength(2);
    served.process.kill('SIGKILL');
    expect(await lost).toBe('lost');
    await eventually('they are gone', async () => !children().some(isAlive));
  } finally {
    served.process.kill('SIGKILL');
    for (const pid of children().filter(isAlive)) process.kill(pid, 'SIGKILL');
    folder.remove();
  }
});
