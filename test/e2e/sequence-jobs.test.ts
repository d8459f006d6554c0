import { writeFileSync } from 'node:fs';
import { type Job, Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cluster, clusterOn, flagEnvironment, type StartedProcess } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';

/** Values of steps that run until they are let go on, and that fail. */
const HELD = 1;
const WRONG = 2;

/** Tells how many steps its sequence has had. A step that is HELD is written down and runs until there is the file `goOn`. */
const counts = (held: string, goOn: string) => `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  export async function execute(requests) {
    return Promise.all(requests.map(async ({ inputs, correlationId, state }) => {
      const [value] = inputs.get('VALUE').data;
      if (value === ${WRONG}) return new Error('not this');
      if (value === ${HELD}) {
        appendFileSync(${JSON.stringify(held)}, correlationId + '\\n');
        while (!existsSync(${JSON.stringify(goOn)})) await setTimeout(10);
      }
      const count = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(state.get('BEFORE').data[0] + 1) };
      return { outputs: { VALUE: count }, state: { AFTER: count } };
    }));
  }`;
const CONFIG = `
  sequence_batching {
    max_sequence_idle_microseconds: 60000000
    oldest { max_candidate_sequences: 8 }
    state [ {
      input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 1 ]
      initial_state: { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }
    } ]
  }`;
const LIMIT_MS = 30_000;

type Flags = '' | 'start' | 'end';

let folder: ModelFolder;
/** Where held steps are written down, and what lets them go on. */
let held: string;
let goOn: string;
let redis: PrivateRedis;
let cluster: Cluster;
let connections: Redis[];
let queue: Queue;
let events: QueueEvents;
const started: StartedProcess[] = [];

async function start(role: 'gateway' | 'coordinator' | 'worker'): Promise<StartedProcess> {
  const one = await cluster.start(role).started;
  started.push(one);
  return one;
}

beforeAll(async () => {
  folder = createModelFolder();
  held = `${folder.path}/held`;
  goOn = `${folder.path}/go-on`;
  // One for each sequence of the last test, and one for that which an earlier one leaves: held steps run side by side.
  const instances = '{ count: 4, kind: KIND_CPU }';
  folder.addJavaScript('counts', counts(held, goOn), CONFIG, { maxBatchSize: 8, instances });
  redis = await startPrivateRedis();
  cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
  const [gateway] = await Promise.all([start('gateway'), start('coordinator'), start('worker')]);
  await modelReady(gateway.http ?? '', 'counts');
  connections = [1, 2].map(() => new Redis({ ...redis.connection, maxRetriesPerRequest: null }));
  const [first, second] = connections;
  if (first === undefined || second === undefined) throw new Error('no connection');
  queue = new Queue('infer.counts', { connection: first });
  events = new QueueEvents('infer.counts', { connection: second, lastEventId: '0' });
  await events.waitUntilReady();
});
afterAll(async () => {
  await Promise.all([queue.close(), events.close()]);
  for (const connection of connections) connection.disconnect();
  for (const one of started) one.process.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  await redis.stop();
  folder.remove();
});

const data = (id: number | string, flags: Flags, more: object = {}, value = 0) => ({
  parameters: { sequence_id: id, sequence_start: flags === 'start', sequence_end: flags === 'end' },
  inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [value] }],
  respond: 'json',
  ...more,
});

/** How many steps the job says that its sequence has had, or why it failed. */
async function outcome(job: Job): Promise<number | string> {
  try {
    return (await job.waitUntilFinished(events, LIMIT_MS)).outputs[0].data[0];
  } catch (error) {
    return (error as Error).message;
  }
}

const outcomes = (jobs: readonly Job[]) => Promise.all(jobs.map(outcome));

const NEEDS_START = (id: number | string) =>
  `INVALID_ARG: inference request for sequence ${id} to model 'counts' must specify the START flag on the first request of the sequence`;

describe('steps of sequences as jobs', () => {
  test('of a producer that gives nothing but them go in the order in which they were added', async () => {
    const added = await queue.addBulk(
      [0, 1, 2, 3, 4].flatMap((step) =>
        [1, 'a'].map((id) => ({ name: 'step', data: data(id, step === 0 ? 'start' : step === 4 ? 'end' : '') })),
      ),
    );
    expect(await outcomes(added)).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    // Both are over.
    expect(await outcome(await queue.add('late', data(1, '')))).toBe(NEEDS_START(1));
  });

  test('may come over HTTP as well', async () => {
    const http = started.find(({ role }) => role === 'gateway')?.http ?? '';
    const ids: string[] = [];
    for (const flags of ['start', '', 'end'] as const) {
      const submitted = await fetch(`${http}/v2/models/counts/jobs`, {
        method: 'POST',
        body: JSON.stringify(data(2, flags)),
      });
      expect(submitted.status).toBe(202);
      ids.push(((await submitted.json()) as { id: string }).id);
    }
    const results = ids.map(async (id) => {
      const result = (await (await fetch(`${http}/v2/jobs/${id}/result?wait=30s`)).json()) as {
        outputs: { data: number[] }[];
      };
      return result.outputs[0]?.data[0];
    });
    expect(await Promise.all(results)).toEqual([1, 2, 3]);
  });

  test('R35: with numbers go by these, in whatever order they come', async () => {
    const added: Job[] = [];
    for (const step of [3, 2, 1, 0]) {
      const flags = step === 0 ? 'start' : step === 3 ? 'end' : '';
      added.push(await queue.add('step', data(3, flags, { sequence_index: step }), { jobId: `of-3-${step}` }));
    }
    expect(await outcomes(added)).toEqual([4, 3, 2, 1]);
    expect((await Promise.all(added.map(({ id = '' }) => queue.getJob(id)))).map((job) => job?.attemptsMade)).toEqual([
      1, 1, 1, 1,
    ]);
  });

  test('R35: a number that never comes fails those behind it at their deadline', async () => {
    const first = await queue.add('step', data(4, 'start', { sequence_index: 0 }));
    const third = await queue.add('step', data(4, '', { sequence_index: 2, deadline_ms: 1_200 }), { attempts: 3 });
    expect(await outcome(first)).toBe(1);
    expect(await outcome(third)).toMatch(/^(?:INVALID_ARG: .*waits for|UNAVAILABLE: Request timeout)/);
  });

  test("a model's error is the answer of its step, which is not tried again", async () => {
    const added = await queue.addBulk([
      { name: 'step', data: data(5, 'start'), opts: { attempts: 3 } },
      { name: 'step', data: data(5, '', {}, WRONG), opts: { attempts: 3 } },
      { name: 'step', data: data(5, 'end'), opts: { attempts: 3 } },
    ]);
    expect(await outcomes(added)).toEqual([1, 'INTERNAL: not this', 2]);
  });

  test('each takes effect once where its owner dies while it runs, or its sequence is told to be lost', async () => {
    const begun = await Promise.all(
      ['counted', 'numbered', 'named'].map((id) =>
        queue.add('step', data(id, 'start', id === 'numbered' ? { sequence_index: 0 } : {}), {
          ...(id === 'counted' ? {} : { jobId: `${id}-0` }),
        }),
      ),
    );
    expect(await outcomes(begun)).toEqual([1, 1, 1]);
    const running = await Promise.all(
      ['counted', 'numbered', 'named'].map((id) =>
        queue.add('step', data(id, '', id === 'numbered' ? { sequence_index: 1 } : {}, HELD), {
          ...(id === 'counted' ? {} : { jobId: `${id}-1` }),
        }),
      ),
    );
    await expect.poll(() => linesIn(held).length, { timeout: LIMIT_MS }).toBe(3);
    const owner = started.find(({ role }) => role === 'coordinator');
    owner?.process.kill('SIGKILL');
    await owner?.ended;
    writeFileSync(goOn, '');
    await start('coordinator');
    const lost = NEEDS_START('named');
    expect(await outcomes(running)).toEqual([2, 2, lost]);
    const last = await Promise.all(
      ['counted', 'numbered', 'named'].map((id) =>
        queue.add('step', data(id, 'end', id === 'numbered' ? { sequence_index: 2 } : {})),
      ),
    );
    expect(await outcomes(last)).toEqual([3, 3, lost]);
    expect(linesIn(held).toSorted()).toEqual(['counted', 'named', 'numbered']);
  });
});
