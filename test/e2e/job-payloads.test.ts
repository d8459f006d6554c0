import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, flagEnvironment, type StartingProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';

const MODEL = 'echo';
const START_LIMIT_MS = 60_000;
const MB = 1_000_000;
const JOBS = 10;
const BYTES = 5 * MB;

let folder: ModelFolder;
beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript(
    MODEL,
    'export const execute = (requests) => requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }));',
    '',
    { dims: -1 },
  );
});
afterAll(() => folder.remove());

describe.each([['serve'], ['gateway', 'coordinator', 'worker']] as const)('jobs with large tensors, %s', (...roles) => {
  let redis: PrivateRedis;
  let processes: StartingProcess[];
  let http = '';

  beforeAll(async () => {
    redis = await startPrivateRedis();
    const flags = [`--model-repository=${folder.path}`];
    const cluster = clusterOn(redis, flagEnvironment(flags));
    processes = roles.map((role) => cluster.start(role as 'gateway'));
    const [first] = await Promise.all(processes.map(({ started }) => started));
    http = first?.http ?? '';
    await modelReady(http, MODEL);
  }, START_LIMIT_MS);
  afterAll(async () => {
    for (const { process } of processes) process.kill('SIGKILL');
    await Promise.all(processes.map(({ ended }) => ended));
    await redis.stop();
  });

  const used = async () =>
    Number(/used_memory:(\d+)/.exec(String(await redis.ask('INFO', 'memory')))?.[1] ?? Number.NaN);

  const submit = (bytes: number, more: Record<string, string> = {}) => {
    const tensor = { name: 'VALUE', datatype: 'INT32', shape: [bytes / 4], parameters: { binary_data_size: bytes } };
    const output = { name: 'VALUE', parameters: { binary_data: true } };
    const header = Buffer.from(JSON.stringify({ inputs: [tensor], outputs: [output] }));
    return fetch(`${http}/v2/models/${MODEL}/jobs`, {
      method: 'POST',
      body: Buffer.concat([header, Buffer.alloc(bytes, 7)]),
      headers: { 'Inference-Header-Content-Length': String(header.byteLength), ...more },
    });
  };

  test('take little more memory than their bytes, and give it back (BC-133)', async () => {
    const before = await used();
    const headers = { 'Nereid-Delay-Ms': '600000', 'Nereid-Result-Ttl-S': '1' };
    const answers = await Promise.all(Array.from({ length: JOBS }, () => submit(BYTES, headers)));
    expect(answers.map(({ status }) => status)).toEqual(Array(JOBS).fill(202));
    expect(await used()).toBeLessThan(before + 1.2 * JOBS * BYTES);
    const jobs = (await Promise.all(answers.map((answer) => answer.json()))) as { id: string }[];
    for (const { id } of jobs) await fetch(`${http}/v2/jobs/${id}`, { method: 'DELETE' });
    await expect.poll(used, { timeout: 20_000 }).toBeLessThan(before + BYTES);
    // Those that run give back what they were asked once they have ended, and their results when these expire.
    const running = await Promise.all(Array.from({ length: 3 }, () => submit(BYTES, { 'Nereid-Result-Ttl-S': '1' })));
    for (const answer of running) {
      const { id } = (await answer.json()) as { id: string };
      expect((await fetch(`${http}/v2/jobs/${id}?wait=20s`)).status).toBe(200);
    }
    await expect.poll(used, { timeout: 20_000 }).toBeLessThan(before + BYTES);
    expect((await submit(200 * MB)).status).toBe(413);
  });

  test('are refused in time by a Redis that fills, and all that are accepted end (BC-134)', async () => {
    await redis.ask('CONFIG', 'SET', 'maxmemory', '30mb');
    const accepted: string[] = [];
    let refused: Response | undefined;
    while (refused === undefined) {
      const answer = await submit(MB, { 'Nereid-Delay-Ms': '2000', 'Nereid-Result-Ttl-S': '4' });
      if (answer.status === 202) accepted.push(((await answer.json()) as { id: string }).id);
      else refused = answer;
    }
    expect(accepted.length).toBeGreaterThan(10);
    expect({ status: refused.status, after: refused.headers.get('retry-after') }).toEqual({ status: 429, after: '1' });
    expect(await refused.json()).toMatchObject({ code: 'UNAVAILABLE', error: expect.stringMatching(/memory/) });
    const results = accepted.map(async (id) => {
      const result = await fetch(`${http}/v2/jobs/${id}/result?wait=20s`);
      return [result.status, (await result.arrayBuffer()).byteLength > MB];
    });
    expect(await Promise.all(results)).toEqual(accepted.map(() => [200, true]));
    // Once results have expired there is room again, with nobody's help.
    await expect.poll(async () => (await submit(MB)).status, { timeout: 20_000, interval: 200 }).toBe(202);
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
  });
});
