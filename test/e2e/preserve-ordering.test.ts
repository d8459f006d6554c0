import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder } from './model-folder.ts';
import { type Answer, infer, oneInput } from './requests.ts';

/** Of each tensor: too large for the frame of a message. */
const ELEMENTS = 6_000;

/** Where the two gateways, or the one, and the owner's metrics are. */
interface Served {
  readonly doors: readonly string[];
  readonly metrics: string;
  stop(): Promise<void>;
}

async function serveOne(folder: string): Promise<Served> {
  const one = await deploy('one', [folder]);
  return { doors: [one.http], metrics: one.metrics, stop: async () => void (await one.stop()) };
}

/** Two gateways, a coordinator and two workers that both hold the model. */
async function serveApart(folder: string): Promise<Served> {
  const redis: PrivateRedis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder}`]));
  const roles = (['gateway', 'gateway', 'coordinator', 'worker', 'worker'] as const).map((role) => cluster.start(role));
  const stop = async () => {
    for (const { process } of roles) process.kill('SIGKILL');
    await Promise.all(roles.map(({ ended }) => ended));
    await redis.stop();
  };
  try {
    const [first, second, coordinator] = await Promise.all(roles.map(({ started }) => started));
    const doors = [first?.http ?? '', second?.http ?? ''];
    for (const http of doors) {
      await eventually('the models are known', async () => (await fetch(`${http}/v2/health/ready`)).ok);
    }
    return { doors, metrics: coordinator?.metrics ?? '', stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Gives two answers, the second one over 0 once the file is there. */
const STREAM = (goOn: string) => `
  import { existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  async function* answers({ inputs }) {
    const VALUE = inputs.get('VALUE');
    yield { outputs: { VALUE } };
    while (VALUE.data[0] === 0 && !existsSync(${JSON.stringify(goOn)})) await setTimeout(5);
    yield { outputs: { VALUE } };
  }
  export const execute = (requests) => requests.map(answers);`;

describe.each(MODES)('preserve_ordering over two instances, in mode %s', (mode) => {
  const folder = createModelFolder();
  const begun = join(folder.path, 'begun');
  const go = join(folder.path, 'go');
  const goOn = join(folder.path, 'go-on');
  let served: Served | undefined;

  beforeAll(async () => {
    const instances = `{ count: ${mode === 'one' ? 2 : 1}, kind: KIND_CPU }`;
    folder.addJavaScript(
      'ordered',
      `import { appendFileSync, existsSync } from 'node:fs';
       import { setTimeout } from 'node:timers/promises';
       export async function execute([request]) {
         const VALUE = request.inputs.get('VALUE');
         appendFileSync(${JSON.stringify(begun)}, VALUE.data[0] + '\\n');
         while (VALUE.data[0] === 0 && !existsSync(${JSON.stringify(go)})) await setTimeout(5);
         return [{ outputs: { VALUE } }];
       }`,
      'dynamic_batching { preserve_ordering: true }',
      { maxBatchSize: 1, dims: -1, instances },
    );
    folder.addJavaScript(
      'stream',
      STREAM(goOn),
      'model_transaction_policy { decoupled: true } dynamic_batching { preserve_ordering: true }',
      { instances },
    );
    served = mode === 'one' ? await serveOne(folder.path) : await serveApart(folder.path);
  });
  afterAll(async () => {
    for (const file of [go, goOn]) writeFileSync(file, '');
    await served?.stop();
    folder.remove();
  });

  test('a slow first request delays the answers of those behind it, which have run', async () => {
    if (served === undefined) throw new Error('not served');
    const { doors, metrics } = served;
    const over: number[] = [];
    const send = async (value: number): Promise<Answer> => {
      const data = Array<number>(ELEMENTS).fill(value);
      const body = oneInput('VALUE', 'INT32', [1, ELEMENTS], data);
      const answer = await infer(doors[value % doors.length] ?? '', 'ordered', body);
      over.push(value);
      return answer;
    };
    const slow = send(0);
    await eventually('the first one runs', async () => existsSync(begun) && readFileSync(begun, 'utf8') === '0\n');
    const others = [1, 2, 3].map(send);
    const counted = () => metric(metrics, 'nv_inference_count', { model: 'ordered' });
    // The third may wait behind the first at its instance.
    await eventually('two of them have run', async () => (await counted()) >= 2);
    // An answer is sent before its count is told: by a question and its answer later it would be here.
    for (const http of doors) await fetch(`${http}/v2/health/live`);
    expect(over).toEqual([]);
    writeFileSync(go, '');
    const answers = await Promise.all([slow, ...others]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(answers.map(({ outputs }) => new Set(outputs.get('VALUE')?.data))).toEqual(
      [0, 1, 2, 3].map((value) => new Set([value])),
    );
  });

  test('the answers of a stream come once the one before it has ended, whose own flow', async () => {
    if (served === undefined) throw new Error('not served');
    const { doors, metrics } = served;
    const ask = async (value: number) => {
      const http = doors[value % doors.length] ?? '';
      return fetch(`${http}/v2/models/stream/generate_stream`, {
        method: 'POST',
        body: JSON.stringify({ VALUE: value }),
      });
    };
    const event = (value: number) => `data: {"VALUE":${value},"model_name":"stream","model_version":"1"}\n\n`;
    const reader = (await ask(0)).body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe(event(0));
    let over = false;
    const next = ask(1).then((response) => response.text());
    void next.finally(() => {
      over = true;
    });
    await eventually(
      'the second stream has ended at its instance',
      async () => (await metric(metrics, 'nv_inference_count', { model: 'stream' })) === 1,
    );
    for (const http of doors) await fetch(`${http}/v2/health/live`);
    expect(over).toBe(false);
    writeFileSync(goOn, '');
    expect((await reader?.read())?.value).toBe(event(0));
    expect(await next).toBe(event(1) + event(1));
  });
});
