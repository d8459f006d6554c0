import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { modelReady, modelUnavailable } from './model-states.ts';
import { infer, oneInput } from './requests.ts';

const CLIENTS_EACH = 6;
/** Long beside the way of the next batch, so that it is there when its turn comes. */
const RUN_MS = 8;
const EXECUTIONS = 90;
const GLOBAL_EXECUTIONS = 40;
/** A request of this value never ends. */
const FOR_EVER = -1;
const TOO_LITTLE =
  'Invalid argument: Resource count for "R1" is limited to 1 which will prevent scheduling of one or more model instances, the minimum required count is 4';

/** What the models of a folder did, in its order. */
interface Line {
  readonly event: string;
  readonly model: string;
  readonly pid: number;
}

/** Models that write down when each execution begins and ends; it takes RUN_MS. */
function limitedModels() {
  const folder = createModelFolder();
  const log = join(folder.path, 'log');
  writeFileSync(log, '');
  const source = (name: string) => `
    import { appendFileSync } from 'node:fs';
    import { setTimeout } from 'node:timers/promises';
    const say = (event) => appendFileSync(${JSON.stringify(log)}, event + ' ${name} ' + process.pid + '\\n');
    export async function execute(requests) {
      say('begin');
      const VALUE = requests[0].inputs.get('VALUE');
      if (VALUE.data[0] === ${FOR_EVER}) await new Promise(() => setInterval(() => {}, 1000));
      await setTimeout(${RUN_MS});
      say('end');
      return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
    }`;
  return {
    folder,
    add(name: string, limiter: string) {
      const instances = `{ count: 1 kind: KIND_CPU rate_limiter { ${limiter} } }`;
      folder.addJavaScript(name, source(name), '', { instances });
    },
    lines(...models: readonly string[]): readonly Line[] {
      const lines = linesIn(log)
        .map((line) => line.split(' '))
        .map(([event = '', model = '', pid]) => ({ event, model, pid: Number(pid) }));
      return lines.filter(({ model }) => models.includes(model));
    },
  };
}

/** Asks these models without pause, several clients each, until so many requests are answered. */
async function load(http: string, models: readonly string[], requests: number): Promise<void> {
  let answered = 0;
  const ask = async (model: string) => {
    while (answered < requests) {
      const { status, error } = await infer(http, model, oneInput('VALUE', 'INT32', [1], [7]));
      expect([status, error]).toEqual([200, undefined]);
      answered++;
    }
  };
  await Promise.all(models.flatMap((model) => Array.from({ length: CLIENTS_EACH }, () => ask(model))));
}

/** Each execution has ended before the next begins. */
function expectOneAtATime(lines: readonly Line[]): void {
  for (const [index, { event, model }] of lines.entries()) {
    if (index % 2 === 0) expect(event).toBe('begin');
    else expect([event, model]).toEqual(['end', lines[index - 1]?.model]);
  }
}

const executions = (lines: readonly Line[], model: string) =>
  lines.filter((line) => line.model === model && line.event === 'begin').length;

describe.each(MODES)('the rate limiter, %s', (mode) => {
  let models: ReturnType<typeof limitedModels>;
  let folder: ModelFolder;
  let served: Deployment;
  beforeAll(async () => {
    models = limitedModels();
    folder = models.folder;
    models.add('first', 'resources { name: "R1" count: 1 } priority: 1');
    models.add('second', 'resources { name: "R1" count: 1 } priority: 2');
    models.add('all_a', 'resources { name: "G" count: 1 global: true }');
    models.add('all_b', 'resources { name: "G" count: 1 global: true }');
    models.add('greedy', 'resources { name: "R1" count: 4 }');
    const flags = ['--rate-limit=execution_count', '--rate-limit-resource=r1:1', '--rate-limit-resource=G:1'];
    served = await deploy(
      mode,
      [folder.path],
      [...flags, '--exit-on-error=false', '--strict-readiness=false'],
      [['first', 'second']],
    );
    // One of the models never is, so the server does not wait for any.
    for (const model of ['first', 'second', 'all_a', 'all_b']) await modelReady(served.http, model);
  });
  afterAll(async () => {
    await served?.stop();
    folder.remove();
  });

  test('a model that needs more than there is does not load, and the index says why', async () => {
    await modelUnavailable(served.http, 'greedy', TOO_LITTLE);
  });

  test('two models that need one of one never run together, and that of priority 1 twice as often as that of 2', async () => {
    await load(served.http, ['first', 'second'], EXECUTIONS);
    const lines = models.lines('first', 'second');
    expectOneAtATime(lines);
    // At the end the clients of one may be alone.
    const counted = lines.slice(0, EXECUTIONS);
    const share = executions(counted, 'first') / executions(counted, 'second');
    expect(share).toBeGreaterThan(1.6);
    expect(share).toBeLessThan(2.4);
  });

  test('a global resource is one for all workers', async () => {
    await load(served.http, ['all_a', 'all_b'], GLOBAL_EXECUTIONS);
    const lines = models.lines('all_a', 'all_b');
    expectOneAtATime(lines);
    expect(executions(lines, 'all_a')).toBeGreaterThan(GLOBAL_EXECUTIONS / 4);
    expect(executions(lines, 'all_b')).toBeGreaterThan(GLOBAL_EXECUTIONS / 4);
    expect(new Set(lines.map(({ pid }) => pid)).size).toBe(mode === 'one' ? 1 : 2);
  });

  test.runIf(mode === 'apart')('a worker that is killed while it holds one leaves it to the others', async () => {
    const lost = infer(served.http, 'all_a', oneInput('VALUE', 'INT32', [1], [FOR_EVER]));
    const last = () => models.lines('all_a', 'all_b').at(-1);
    await eventually('it runs', async () => last()?.event === 'begin');
    const holder = served.workers.find(({ process }) => process.pid === last()?.pid);
    const other = infer(served.http, 'all_b', oneInput('VALUE', 'INT32', [1], [5]));
    holder?.process.kill('SIGKILL');
    expect(await other).toMatchObject({ status: 200, error: undefined });
    // No other worker holds that model.
    expect((await lost).status).toBe(503);
  });
});
