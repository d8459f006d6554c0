/** Redis goes while a batch runs, in order and by a kill under --jobs-fsync=always: it goes on, each line has one result. */
import { Redis } from 'ioredis';
import { afterAll, afterEach, expect, test } from 'vitest';
import { clusterOn, deploy, MODES } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder } from './model-folder.ts';

const LINES = 200;
const SLOW = `export async function execute(requests) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
}`;

const models = createModelFolder();
models.addJavaScript('slow', SLOW, 'dynamic_batching {}', { maxBatchSize: 4 });
let stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  stops = [];
});
afterAll(() => models.remove());

interface World {
  readonly http: string;
  /** Ends Redis, which comes back by itself or by this. */
  endRedis(signal: NodeJS.Signals): Promise<void>;
}

async function world(mode: string): Promise<World> {
  if (mode === 'one') {
    const { http, stop } = await deploy('one', [models.path], ['--jobs-fsync=always']);
    stops.push(stop);
    const { redis_url: url } = await json(await fetch(`${http}/v2/models/slow/jobs/queue`));
    return { http, endRedis: async (signal) => void process.kill(await serverPid(url), signal) };
  }
  const redis = await startPrivateRedis(['--appendonly', 'yes', '--appendfsync', 'always']);
  stops.push(redis.stop);
  const cluster = clusterOn(redis);
  const repository = `--model-repository=${models.path}`;
  const started = [
    cluster.start('worker', [repository]),
    cluster.start('coordinator', [repository, '--jobs-fsync=always']),
    cluster.start('gateway', ['--jobs-fsync=always']),
  ];
  for (const each of started) stops.push(() => each.stop());
  const [, , gateway] = await Promise.all(started.map((each) => each.started));
  const { http = '' } = gateway ?? {};
  while (!(await fetch(`${http}/v2/models/slow/ready`)).ok);
  return { http, endRedis: (signal) => redis.restart({ signal }) };
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the server says
async function json(answer: Response): Promise<any> {
  return answer.json();
}

async function serverPid(url: string): Promise<number> {
  const client = new Redis(decodeURIComponent(url.slice('unix://'.length)));
  const info = await client.info('server');
  client.disconnect();
  return Number(/process_id:(\d+)/.exec(info)?.[1]);
}

test.each(MODES)('in mode %s', async (mode) => {
  const { http, endRedis } = await world(mode);
  const body = Array.from({ length: LINES }, (_, n) => {
    const inputs = [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [n] }];
    return `${JSON.stringify({ custom_id: `n${n}`, body: { inputs } })}\n`;
  }).join('');
  const sent = await fetch(`${http}/v2/models/slow/batches`, { method: 'POST', body });
  const { id } = await json(sent);
  expect(sent.status).toBe(202);

  /** Once it has got so far; while Redis is away nobody can tell. */
  const until = async (isFar: (batch: { state: string; completed: number }) => boolean) => {
    for (;;) {
      const answer = await fetch(`${http}/v2/batches/${id}?wait=50ms`);
      const { state, request_counts: counts } = await json(answer);
      if (answer.ok && isFar({ state, completed: counts.completed })) return { state, ...counts };
      if (!answer.ok) expect(answer.status).toBe(503);
    }
  };
  await until(({ completed }) => completed > 0);
  await endRedis('SIGTERM');
  const { completed: before } = await until(() => true);
  await until(({ completed, state }) => completed > before || state === 'completed');
  await endRedis('SIGKILL');
  expect(await until(({ state }) => state !== 'running')).toEqual({
    state: 'completed',
    total: LINES,
    completed: LINES,
    failed: 0,
  });
  const results = await (await fetch(`${http}/v2/batches/${id}/results`)).text();
  const told = results
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  expect(told.map(({ line, custom_id, response }) => [line, custom_id, response.body.outputs[0].data])).toEqual(
    Array.from({ length: LINES }, (_, n) => [n, `n${n}`, [n]]),
  );
});
