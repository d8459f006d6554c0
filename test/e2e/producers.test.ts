import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as bullmq6 from 'bullmq';
import * as bullmq5 from 'bullmq5';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT, VENV } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { queueOf } from '../../examples/producers/queue-of.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer } from './requests.ts';
import { addStepped, begins, type SteppedModel } from './stepped-model.ts';

// What producers that know nothing but a `bullmq` package rely on, with both of its versions (docs/producers.md).

/** The calls that are used here are the same in both. */
const VERSIONS = [
  ['bullmq 5', bullmq5 as unknown as typeof bullmq6],
  ['bullmq 6', bullmq6],
] as const;
const PYTHON = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');
const LIMIT_MS = 30_000;
const KEPT = { removeOnComplete: { age: 600 }, removeOnFail: { age: 600 } };
/** More than an owner takes ahead out of its queue. */
const BLOCKERS = 40;
/** A value that fails so often before it is answered. */
const FAILS_TWICE = 2;

/** Fails each value as often as it says, by its name: the input has the value and how often. */
const FAILING = `
  const failed = new Map();
  export function execute(requests) {
    return requests.map(({ inputs, id }) => {
      const [times] = inputs.get('VALUE').data;
      const before = failed.get(id) ?? 0;
      failed.set(id, before + 1);
      return before < times ? new Error('failed ' + (before + 1)) : { outputs: { VALUE: inputs.get('VALUE') } };
    });
  }`;

const input = (value: number, more: object = {}) => ({
  inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], data: [value] }],
  ...more,
});

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let deployment: Deployment;
  let stepped: Record<string, SteppedModel>;

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addEcho('echo', 'INT32', [-1]);
    folder.addJavaScript('failing', FAILING);
    stepped = Object.fromEntries(VERSIONS.map(([name], index) => [name, addStepped(folder, `stepped_${index}`)]));
    deployment = await deploy(mode, [folder.path, join(ROOT, 'model_repository')]);
  });
  afterAll(async () => {
    for (const { code, output } of await deployment.stop()) expect(code, output).toBe(0);
    folder.remove();
  });

  // Each is a process of its own: once is enough.
  describe.runIf(mode === MODES[0])('the examples', () => {
    const printed = async (program: string, name: string) => {
      const { code, output } = await runCommand(program, [join(ROOT, 'examples', 'producers', name), deployment.http]);
      expect(code, output).toBe(0);
      return output.trimEnd().split('\n');
    };
    const count = (from: (index: number) => number) => Array.from({ length: 16 }, (_, index) => from(index)).join(' ');
    const missing = (model: string, inputs: string, size: number) =>
      `failed: INVALID_ARG: [request id: <id_unknown>] expected ${size} inputs but got 0 inputs for model '${model}'. ` +
      `Got input(s) [], but missing required input(s) [${inputs}]. Please provide all required input(s).`;

    test.each([
      [
        'results.mjs',
        [
          'waitUntilFinished: write to [email]',
          ...[1, 2, 3].map((number) => `QueueEvents: call 555-010${number}`),
          'HTTP: see http://example.org',
          missing('redact', "'TEXT'", 1),
        ],
      ],
      [
        'binary.mjs',
        [
          `OUTPUT0: ${count((index) => 2 * index)}`,
          `OUTPUT1: ${count(() => 0)}`,
          `OUTPUT0 as a blob: ${count((index) => 2 * index)}`,
        ],
      ],
      ['flow.mjs', ['redacted in 3 letters: 2']],
    ])('%s', async (name, lines) => {
      expect(await printed(process.execPath, name)).toEqual(lines);
    });

    test.skipIf(!existsSync(PYTHON) || spawnSync(PYTHON, ['-c', 'import bullmq']).status !== 0)(
      'results.py (with the package bullmq for Python 3.10 or later, which npm test installs)',
      async () => {
        expect(await printed(PYTHON, 'results.py')).toEqual([
          `QueueEvents: ${count((index) => index + 1)}`,
          `b64: ${count((index) => index + 1)}`,
          `HTTP: ${count(() => 2)}`,
          missing('simple', "'INPUT0','INPUT1'", 2),
        ]);
      },
    );
  });

  describe.each(VERSIONS)('%s', (version, { FlowProducer, Queue, QueueEvents, Worker }) => {
    const closings: (() => Promise<void>)[] = [];
    afterAll(async () => {
      await Promise.all(closings.map((close) => close()));
    });

    const opened = new Map<string, ReturnType<typeof connect>>();
    const open = (model: string) => {
      const known = opened.get(model) ?? connect(model);
      opened.set(model, known);
      return known;
    };
    const connect = async (model: string) => {
      const { name, prefix, connection } = await queueOf(deployment.http, model);
      const queue = new Queue(name, { connection, prefix });
      // Each call that waits has one.
      queue.setMaxListeners(0);
      const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
      closings.push(
        () => queue.close(),
        () => events.close(),
      );
      await events.waitUntilReady();
      return { queue, events, name, prefix, connection };
    };
    const echoed = (data: readonly number[]) => [{ name: 'OUTPUT0', datatype: 'INT32', shape: [data.length], data }];
    const echo = (data: readonly number[]) => ({
      inputs: [{ name: 'INPUT0', datatype: 'INT32', shape: [data.length], data }],
    });

    test('the result comes by waitUntilFinished, by QueueEvents and over HTTP', async () => {
      const { queue, events } = await open('echo');
      const told = new Map<string, unknown>();
      events.on('completed', ({ jobId, returnvalue }) => told.set(jobId, returnvalue));
      const job = await queue.add('any name', echo([7]), KEPT);
      const result = await job.waitUntilFinished(events, LIMIT_MS);
      expect(result).toEqual({ model_name: 'echo', model_version: '1', outputs: echoed([7]) });
      await expect.poll(() => told.get(job.id ?? '')).toEqual(result);
      const response = await fetch(`${deployment.http}/v2/jobs/echo~${job.id}/result?wait=30s`);
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual(result);
    });

    test('base64 brings bytes as they are, there and back', async () => {
      const { queue, events } = await open('echo');
      const b64 = Buffer.from(Int32Array.from({ length: 5_000 }, (_, index) => index * 429_497).buffer).toString(
        'base64',
      );
      const data = { inputs: [{ name: 'INPUT0', datatype: 'INT32', shape: [5_000], b64 }], respond: 'b64' };
      const { outputs } = await (await queue.add('x', data, KEPT)).waitUntilFinished(events, LIMIT_MS);
      expect(outputs).toEqual([{ name: 'OUTPUT0', datatype: 'INT32', shape: [5_000], b64 }]);
    });

    test('priorities: jobs without one first, then 1, 2, …, in the order of their adds', async () => {
      const model = stepped[version];
      if (model === undefined) throw new Error('no model');
      const { queue, events } = await open(model.name);
      const blockers = await queue.addBulk(
        Array.from({ length: BLOCKERS }, () => ({ name: 'blocker', data: input(0), opts: KEPT })),
      );
      await begins(model, 1);
      const later = await queue.addBulk(
        [3, 1, 2, 1, undefined].map((priority, index) => ({
          name: 'x',
          data: input(index + 1),
          opts: priority === undefined ? KEPT : { ...KEPT, priority },
        })),
      );
      model.letGo();
      await Promise.all([...blockers, ...later].map((job) => job.waitUntilFinished(events, LIMIT_MS)));
      const values = model.executions().map(([request]) => request?.[0]);
      expect(values).toEqual([...Array(BLOCKERS).fill(0), 5, 2, 4, 3, 1]);
    });

    test('a delay holds the job back', async () => {
      const { queue, events } = await open('echo');
      const delay = 300;
      const job = await queue.add('x', echo([1]), { ...KEPT, delay });
      expect(await job.getState()).toBe('delayed');
      await job.waitUntilFinished(events, LIMIT_MS);
      const { processedOn = 0, timestamp } = (await queue.getJob(job.id ?? '')) ?? job;
      expect(processedOn - timestamp).toBeGreaterThanOrEqual(delay);
    });

    test.each([
      [{ type: 'fixed', delay: 50 }, 100],
      [{ type: 'exponential', delay: 50 }, 150],
    ])('attempts with the backoff %o', async (backoff, waitsMs) => {
      const { queue, events } = await open('failing');
      const data = input(FAILS_TWICE, { id: `${version} ${backoff.type}` });
      const job = await queue.add('x', data, { ...KEPT, attempts: 3, backoff });
      expect((await job.waitUntilFinished(events, LIMIT_MS)).outputs[0].data).toEqual([FAILS_TWICE]);
      const { attemptsMade, processedOn = 0, timestamp } = (await queue.getJob(job.id ?? '')) ?? job;
      expect(attemptsMade).toBe(3);
      expect(processedOn - timestamp).toBeGreaterThanOrEqual(waitsMs);
    });

    test('attempts that are used up end with the text of the last one', async () => {
      const { queue, events } = await open('failing');
      const data = input(FAILS_TWICE, { id: `${version} used up` });
      const job = await queue.add('x', data, { ...KEPT, attempts: 2 });
      await expect(job.waitUntilFinished(events, LIMIT_MS)).rejects.toThrow(/^INTERNAL: .*failed 2$/);
      expect((await queue.getJob(job.id ?? ''))?.attemptsMade).toBe(2);
    });

    test.each([
      ['no inputs', {}],
      ['inputs that are no list', { inputs: 7 }],
      ['another input', { inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [1] }] }],
      ['another datatype', { inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1], data: [1] }] }],
      ['a shape that does not fit', { inputs: [{ name: 'INPUT0', datatype: 'INT32', shape: [2], data: [1] }] }],
      ['another output', { ...echo([1]), outputs: [{ name: 'X' }] }],
      ['a wrong flag', { ...echo([1]), parameters: { sequence_start: 'yes' } }],
    ])('%s: fails at once, unretried, with the text that HTTP gives', async (_, data) => {
      const { queue, events } = await open('echo');
      const { error } = await infer(deployment.http, 'echo', JSON.stringify(data));
      const job = await queue.add('x', data, { ...KEPT, attempts: 5, backoff: 60_000 });
      const failure = await job.waitUntilFinished(events, LIMIT_MS).then(String, ({ message }: Error) => message);
      expect(failure).toBe(`INVALID_ARG: ${error}`);
      expect((await queue.getJob(job.id ?? ''))?.attemptsMade).toBe(1);
    });

    test.each([
      ['data that are none', 'text', /^INVALID_ARG: /],
      [
        'base64 that is none',
        { inputs: [{ name: 'INPUT0', datatype: 'INT32', shape: [1], b64: '*' }] },
        /^INVALID_ARG: .*b64/,
      ],
      ['a version that is not there', { ...echo([1]), model_version: 9 }, /^NOT_FOUND: .*version 9/],
    ])('%s: fails at once, with what to mend', async (_, data, text) => {
      const { queue, events } = await open('echo');
      const job = await queue.add('x', data, { ...KEPT, attempts: 5, backoff: 60_000 });
      await expect(job.waitUntilFinished(events, LIMIT_MS)).rejects.toThrow(text);
    });

    test('a flow: the parent in a queue of its own has all answers', async () => {
      const { name, prefix, connection } = await open('echo');
      const own = `parents-${version.replace(' ', '-')}`;
      const options = { connection, prefix };
      const sums = async (job: bullmq6.Job) =>
        Object.values(await job.getChildrenValues()).reduce((sum, { outputs }) => sum + outputs[0].data[0], 0);
      const worker = new Worker(own, sums, options);
      const events = new QueueEvents(own, { ...options, lastEventId: '0' });
      const flows = new FlowProducer(options);
      closings.push(
        () => worker.close(),
        () => events.close(),
        () => flows.close(),
      );
      const child = (data: object) => ({
        name: 'x',
        queueName: name,
        data,
        opts: { ...KEPT, failParentOnFailure: true },
      });
      const parent = { name: 'sum', queueName: own, opts: KEPT };
      const right = await flows.add({ ...parent, children: [1, 2, 3].map((value) => child(echo([value]))) });
      expect(await right.job.waitUntilFinished(events, LIMIT_MS)).toBe(6);
      const wrong = await flows.add({ ...parent, children: [child(echo([1])), child({})] });
      await expect(wrong.job.waitUntilFinished(events, LIMIT_MS)).rejects.toThrow('failed');
    });

    test('a flow: a job of a model runs once those below it have ended', async () => {
      const { events, name, prefix, connection } = await open('echo');
      const flows = new FlowProducer({ connection, prefix });
      closings.push(() => flows.close());
      const ended: string[] = [];
      events.on('completed', ({ jobId }) => ended.push(jobId));
      const job = (value: number) => ({ name: 'x', queueName: name, data: echo([value]), opts: KEPT });
      const flow = await flows.add({ ...job(9), children: [{ ...job(1), opts: { ...KEPT, delay: 200 } }, job(2)] });
      expect((await flow.job.waitUntilFinished(events, LIMIT_MS)).outputs).toEqual(echoed([9]));
      const ids = [...(flow.children ?? []), flow].map(({ job: { id } }) => id);
      expect(ended.indexOf(ids[2] ?? '')).toBeGreaterThan(
        Math.max(...ids.slice(0, 2).map((id) => ended.indexOf(id ?? ''))),
      );
    });

    test('a job scheduler adds one job after the other', async () => {
      const { queue, events } = await open('echo');
      const outputs: unknown[] = [];
      events.on('completed', ({ jobId, returnvalue }) => {
        if (jobId.includes(`every ${version}`)) outputs.push((returnvalue as unknown as { outputs: unknown }).outputs);
      });
      await queue.upsertJobScheduler(
        `every ${version}`,
        { every: 100, limit: 3 },
        { name: 'x', data: echo([4]), opts: KEPT },
      );
      await expect.poll(() => outputs).toEqual([echoed([4]), echoed([4]), echoed([4])]);
      await queue.removeJobScheduler(`every ${version}`);
    });

    test('a queue that is paused keeps its jobs until it goes on', async () => {
      const { queue, events } = await open('echo');
      await queue.pause();
      const job = await queue.add('x', echo([1]), KEPT);
      // A taker that took it all the same would have by the time that the request is answered.
      expect((await infer(deployment.http, 'echo', JSON.stringify(echo([2])))).status).toBe(200);
      expect(['paused', 'waiting']).toContain(await job.getState());
      await queue.resume();
      expect((await job.waitUntilFinished(events, LIMIT_MS)).outputs).toEqual(echoed([1]));
    });

    test('a deduplicated job is there once until it has ended, and an id is taken once', async () => {
      const { queue, events } = await open('echo');
      const deduplication = { id: `once ${version}` };
      const first = await queue.add('x', echo([1]), { ...KEPT, deduplication, delay: 200 });
      const second = await queue.add('x', echo([2]), { ...KEPT, deduplication });
      expect(second.id).toBe(first.id);
      expect((await first.waitUntilFinished(events, LIMIT_MS)).outputs).toEqual(echoed([1]));
      const third = await queue.add('x', echo([3]), { ...KEPT, deduplication });
      expect((await third.waitUntilFinished(events, LIMIT_MS)).outputs).toEqual(echoed([3]));
      const jobId = `named ${version}`;
      const named = await queue.add('x', echo([4]), { ...KEPT, jobId });
      await named.waitUntilFinished(events, LIMIT_MS);
      const again = await queue.add('x', echo([5]), { ...KEPT, jobId });
      expect((await again.waitUntilFinished(events, LIMIT_MS)).outputs).toEqual(echoed([4]));
    });
  });
});
