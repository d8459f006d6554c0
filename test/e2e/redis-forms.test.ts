import { Queue, QueueEvents } from 'bullmq';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterOn, flagEnvironment, type StartingProcess } from '../deployment.mjs';
import { bullmqConnection } from '../faults/bullmq-connection.mjs';
import { type FormedRedis, REDIS_FORMS } from '../faults/redis-forms.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { infer, oneInput, readAnswer } from './requests.ts';

// `node test/faults/run.mjs --redis cluster` and `--redis sentinel` have the faults.

const MODEL = 'echo';
const JOB_WAIT_MS = 20_000;
const START_LIMIT_MS = 60_000;

let folder: ModelFolder;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript(
    MODEL,
    'export const execute = (requests) => requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }));',
  );
});
afterAll(() => {
  folder.remove();
});

describe.each(['cluster', 'sentinel'] as const)('roles apart on a Redis of the form %s', (form) => {
  let redis: FormedRedis;
  let processes: StartingProcess[];
  let http = '';

  beforeAll(async () => {
    redis = await REDIS_FORMS[form].start();
    const flags = [`--model-repository=${folder.path}`, `--job-prefix=${redis.jobPrefix}`];
    const cluster = clusterOn(redis, flagEnvironment(flags));
    processes = (['gateway', 'coordinator', 'worker'] as const).map((role) => cluster.start(role));
    const [gateway] = await Promise.all(processes.map(({ started }) => started));
    http = gateway?.http ?? '';
    await modelReady(http, MODEL);
  }, START_LIMIT_MS);
  afterAll(async () => {
    for (const { process } of processes) process.kill('SIGKILL');
    await Promise.all(processes.map(({ ended }) => ended));
    await redis.stop();
  });

  test('a request is answered', async () => {
    const answer = await infer(http, MODEL, oneInput('VALUE', 'INT32', [1], [7]));
    expect(answer.outputs.get('VALUE')?.data).toEqual([7]);
  });

  test('a job over HTTP has its result', async () => {
    const body = oneInput('VALUE', 'INT32', [1], [8]);
    const submitted = await fetch(`${http}/v2/models/${MODEL}/jobs`, { method: 'POST', body });
    expect(submitted.status).toBe(202);
    const { result_url: url } = (await submitted.json()) as { readonly result_url: string };
    const result = await fetch(`${http}${url}?wait=20s`);
    expect(readAnswer(result.status, await result.text()).outputs.get('VALUE')?.data).toEqual([8]);
  });

  test('a BullMQ producer has its return value', async () => {
    const { name, prefix } = (await (await fetch(`${http}/v2/models/${MODEL}/jobs/queue`)).json()) as {
      readonly name: string;
      readonly prefix: string;
    };
    const connections = [bullmqConnection(redis.connection), bullmqConnection(redis.connection)] as const;
    const queue = new Queue(name, { connection: connections[0], prefix });
    const events = new QueueEvents(name, { connection: connections[1], prefix, lastEventId: '0' });
    try {
      await events.waitUntilReady();
      const job = await queue.add('anything', JSON.parse(oneInput('VALUE', 'INT32', [1], [9])));
      expect(await job.waitUntilFinished(events, JOB_WAIT_MS)).toMatchObject({
        outputs: [{ name: 'VALUE', data: [9] }],
      });
    } finally {
      await Promise.all([queue.close(), events.close()]);
      for (const each of connections) each.disconnect();
    }
  });
});
