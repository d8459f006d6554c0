import { afterEach, beforeEach, expect, test } from 'vitest';
import { clusterOn, flagEnvironment, type StartedProcess } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { addForwards, forwarded } from './calling-models.ts';
import { addGated, type GatedModel } from './gated-model.ts';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { modelReady } from './model-states.ts';
import { infer, oneInput } from './requests.ts';
import { serve } from './serve.ts';

// What becomes of calls of models when processes stop or die.

let folder: ModelFolder;
let gated: GatedModel;
let other: GatedModel;

beforeEach(() => {
  folder = createModelFolder();
  addForwards(folder);
  gated = addGated(folder, 'gated');
  other = addGated(folder, 'other');
});
afterEach(() => folder.remove());

const runs = (model: GatedModel, count: number) =>
  eventually(`${count} runs of ${model.name}`, async () => model.begun().length === count);

const isReady = async (http: string) => (await fetch(`${http}/v2/health/ready`).catch(() => null))?.ok === true;

test('a server that stops answers what waits for calls, and takes those that are still to come of it', async () => {
  const served = await serve([folder.path]);
  const answer = infer(served.http, 'forwards', forwarded('gated', 7, 2));
  await runs(gated, 1);
  served.process.kill('SIGTERM');
  await eventually('it drains', async () => !(await isReady(served.http)));
  gated.open();
  expect((await answer).outputs.get('VALUE')?.data).toEqual([7]);
  expect(gated.begun()).toEqual([7, 7]);
  const { code, output } = await served.ended;
  expect(code, output).toBe(0);
});

test('apart: a call outlives the worker of the called model, and the coordinator that stops', async () => {
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder.path}`]));
  const started: StartedProcess[] = [];
  const start = async (role: 'gateway' | 'coordinator' | 'worker', flags: readonly string[] = []) => {
    const process = await cluster.start(role, flags).started;
    started.push(process);
    return process;
  };
  try {
    const [gateway, coordinator, holder] = await Promise.all([
      start('gateway'),
      start('coordinator'),
      start('worker', ['--worker-models=gated']),
      start('worker', ['--worker-models=forwards,refuses,other']),
    ]);
    const http = gateway.http ?? '';
    for (const model of ['gated', 'forwards', 'other']) await modelReady(http, model);

    const called = infer(http, 'forwards', forwarded('gated', 7));
    await runs(gated, 1);
    await start('worker', ['--worker-models=gated']);
    // More than wait at the one that is busy: some run on the new one.
    const values = [1, 2, 3, 4];
    const direct = values.map((value) => infer(http, 'gated', oneInput('VALUE', 'INT32', [1], [value])));
    await runs(gated, 2);
    holder.process.kill('SIGKILL');
    gated.open();
    const answers = await Promise.all([called, ...direct]);
    expect(answers.map(({ outputs, error }) => outputs.get('VALUE')?.data ?? error)).toEqual([[7], [1], [2], [3], [4]]);
    expect(gated.begun().filter((value) => value === 7)).toHaveLength(2);

    const twice = infer(http, 'forwards', forwarded('other', 9, 2));
    await runs(other, 1);
    coordinator.process.kill('SIGTERM');
    await eventually('it drains', async () => !(await isReady(http)));
    other.open();
    expect((await twice).outputs.get('VALUE')?.data).toEqual([9]);
    const { code, output } = await coordinator.ended;
    expect(code, output).toBe(0);
  } finally {
    for (const { process } of started) process.kill('SIGKILL');
    await Promise.all(started.map(({ ended }) => ended));
    await redis.stop();
  }
}, 120_000);
