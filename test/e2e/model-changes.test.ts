import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { clusterOn, type Deployment, deploy, flagEnvironment, MODES, type StartingProcess } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

/** Answers with its input times the number of its version's file. */
const times = (factor: number) => `
export const execute = (requests) => requests.map(({ inputs }) => {
  const { shape, data } = inputs.get('VALUE');
  return { outputs: { VALUE: { datatype: 'INT32', shape, data: data.map((value) => value * ${factor}) } } };
});`;
const SLOW = `
export const execute = async (requests) => {
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
};`;
const SLOW_START = `${times(1)}
export const initialize = () => new Promise((resolve) => setTimeout(resolve, 2_000));`;
const TENSORS = {
  input: [{ name: 'VALUE', data_type: 'TYPE_INT32', dims: [1] }],
  output: [{ name: 'VALUE', data_type: 'TYPE_INT32', dims: [1] }],
};
const config = (name: string, more: object = {}) =>
  JSON.stringify({
    name,
    backend: 'javascript',
    ...TENSORS,
    instance_group: [{ kind: 'KIND_CPU', count: 1 }],
    ...more,
  });
const base64 = (text: string) => Buffer.from(text).toString('base64');
const KEY = 'a key of the tests';

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  /** Takes what no folder says at the start. */
  let anyModel: StartingProcess | undefined;

  const ask = async (path: string, body?: object, headers: Record<string, string> = { 'nereid-admin-key': KEY }) => {
    const answer = await fetch(`${served.http}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, text, json: text === '' ? undefined : JSON.parse(text) };
  };
  const load = (model: string, parameters: object = {}, headers?: Record<string, string>) =>
    ask(`/v2/repository/models/${model}/load`, { parameters }, headers);
  const unload = (model: string) => ask(`/v2/repository/models/${model}/unload`, {});
  const index = async (): Promise<{ name: string; state?: string; reason?: string }[]> =>
    (await ask('/v2/repository/index', {})).json;
  const answerOf = async (model: string, value = 7) => {
    const answer = await infer(served.http, model, oneInput('VALUE', 'INT32', [1], [value]));
    return answer.error ?? [...answer.outputs.values()][0]?.data?.[0];
  };
  const configOf = async (model: string) => (await ask(`/v2/models/${model}/config`)).json;

  beforeAll(async () => {
    folder = createModelFolder();
    for (const name of ['plain', 'grows', 'kept']) folder.addJavaScript(name, times(1));
    folder.addJavaScript('slow', SLOW);
    folder.addJavaScript('starts_late', SLOW_START);
    folder.addJavaScript('x', times(2));
    mkdirSync(join(folder.path, 'pipeline', '1'), { recursive: true });
    writeFileSync(
      join(folder.path, 'pipeline', 'config.pbtxt'),
      `platform: "ensemble"
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ 1 ] } ]
output [ { name: "DOUBLED", data_type: TYPE_INT32, dims: [ 1 ] } ]
ensemble_scheduling { step { model_name: "x" model_version: -1 input_map { key: "VALUE" value: "VALUE" } output_map { key: "VALUE" value: "DOUBLED" } } }`,
    );
    served = await deploy(
      mode,
      [folder.path],
      ['--model-control-mode=explicit', '--load-model=plain', `--admin-key=${KEY}`],
    );
    if (served.redis === undefined) return;
    anyModel = clusterOn(served.redis, flagEnvironment(clusterFlags())).start('worker');
    await anyModel.started;
  });
  const clusterFlags = () => [
    '--model-control-mode=explicit',
    '--load-model=plain',
    `--model-repository=${folder.path}`,
  ];
  afterAll(async () => {
    await anyModel?.stop();
    await served?.stop();
    folder?.remove();
  });

  test('BC-092: names that nobody knows, and names that lead elsewhere', async () => {
    for (let count = 0; count < 2; count++) expect((await unload('nope')).status).toBe(200);
    expect(await load('nope')).toMatchObject({ status: 500, json: { error: expect.stringContaining("'nope'") } });
    for (const name of ['..%2F..%2Fetc', '%2E%2E', 'a%5Cb']) {
      const answer = await load(name);
      expect([400, 404, 500]).toContain(answer.status);
      expect(answer.text).not.toContain('root:');
    }
    expect((await index()).map(({ name }) => name)).not.toContain('nope');
  });

  test('BC-085: a load takes a new version, and lets the one before go', async () => {
    expect((await load('grows')).status).toBe(200);
    expect(await answerOf('grows')).toBe(7);
    mkdirSync(join(folder.path, 'grows', '2'));
    writeFileSync(join(folder.path, 'grows', '2', 'model.mjs'), times(2));
    expect((await load('grows')).status).toBe(200);
    expect(await answerOf('grows')).toBe(14);
    await vi.waitFor(async () =>
      expect((await index()).filter(({ name }) => name === 'grows')).toEqual([
        { name: 'grows', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
        { name: 'grows', version: '2', state: 'READY' },
      ]),
    );
  });

  test('BC-086: no request fails while three new versions are loaded, 300 ms apart', async () => {
    folder.addJavaScript('renewed', times(1));
    expect((await load('renewed')).status).toBe(200);
    const answers: unknown[] = [];
    let isOver = false;
    const asking = (async () => {
      while (!isOver) answers.push(await answerOf('renewed'));
    })();
    for (const version of [2, 3, 4]) {
      mkdirSync(join(folder.path, 'renewed', `${version}`));
      writeFileSync(join(folder.path, 'renewed', `${version}`, 'model.mjs'), times(version));
      expect((await load('renewed')).status).toBe(200);
      expect(await answerOf('renewed')).toBe(7 * version);
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    isOver = true;
    await asking;
    // Each answer is of the version that serves, or of the one that took its place meanwhile.
    expect(answers).toEqual([...answers].sort((a, b) => Number(a) - Number(b)));
    expect(new Set(answers)).toEqual(new Set([7, 14, 21, 28]));
  });

  test('BC-089: an unload lets what runs end, and takes nothing new', async () => {
    expect((await load('slow')).status).toBe(200);
    const running = answerOf('slow');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await unload('slow')).status).toBe(200);
    expect(await answerOf('slow')).toBe("Request for unknown model: 'slow' has no available versions");
    expect(await running).toBe(7);
  });

  test('BC-091: an ensemble is back with its model, without a load of its own', async () => {
    expect(await load('pipeline')).toEqual({ status: 200, text: '', json: undefined });
    expect(await answerOf('pipeline')).toBe(14);
    expect((await unload('x')).status).toBe(200);
    await vi.waitFor(async () =>
      expect(await answerOf('pipeline')).toBe("Request for unknown model: 'pipeline' has no available versions"),
    );
    expect((await load('x')).status).toBe(200);
    await vi.waitFor(async () => expect(await answerOf('pipeline')).toBe(14));
  });

  test('BC-104: not ready while a model loads; live, and others answer', async () => {
    const loading = load('starts_late');
    await vi.waitFor(async () =>
      expect((await index()).find(({ name }) => name === 'starts_late')?.state).toBe('LOADING'),
    );
    expect((await ask('/v2/health/ready')).status).toBe(400);
    expect((await ask('/v2/health/live')).status).toBe(200);
    expect(await answerOf('plain')).toBe(7);
    expect((await loading).status).toBe(200);
    expect((await ask('/v2/health/ready')).status).toBe(200);
  });

  test('M04: a config of a load is shown, stays at a plain load, and goes with a newer file or an unload', async () => {
    const override = { config: config('kept', { max_batch_size: 0, parameters: { colour: { string_value: 'red' } } }) };
    const colour = async () => (await configOf('kept')).parameters.colour?.string_value;
    expect((await load('kept', override)).status).toBe(200);
    expect([await colour(), await answerOf('kept')]).toEqual(['red', 7]);
    expect((await load('kept')).status).toBe(200);
    expect(await colour()).toBe('red');
    writeFileSync(join(folder.path, 'kept', '1', 'model.mjs'), times(3));
    expect((await load('kept')).status).toBe(200);
    expect([await colour(), await answerOf('kept')]).toEqual([undefined, 21]);
    expect((await load('kept', override)).status).toBe(200);
    expect((await unload('kept')).status).toBe(200);
    expect((await load('kept')).status).toBe(200);
    expect(await colour()).toBeUndefined();
  });

  test('a config that is wrong leaves what runs as it is, and says where', async () => {
    const before = await configOf('plain');
    const wrong = await load('plain', { config: '{"max_batchsize": 4}' });
    expect(wrong).toMatchObject({ status: 400, json: { error: expect.stringContaining('max_batchsize') } });
    const fails = await load('plain', { config: config('plain', { default_model_filename: 'nothing.mjs' }) });
    expect(fails).toMatchObject({ status: 400, json: { error: expect.stringContaining('nothing.mjs') } });
    expect([await configOf('plain'), await answerOf('plain')]).toEqual([before, 7]);
    expect((await ask('/v2/health/ready')).status).toBe(200);
  });

  test('M05: a model of files that were sent is served and never listed; the next plain load reads the repository', async () => {
    const files = { config: config('sent'), 'file:1/model.mjs': base64(times(5)) };
    expect((await load('sent', files)).status).toBe(200);
    expect(await answerOf('sent')).toBe(35);
    expect((await index()).map(({ name }) => name)).not.toContain('sent');
    // In place of a model that the repository has.
    expect((await load('plain', { config: config('plain'), 'file:1/model.mjs': base64(times(4)) })).status).toBe(200);
    expect(await answerOf('plain')).toBe(28);
    expect((await load('plain')).status).toBe(200);
    expect(await answerOf('plain')).toBe(7);
    // Nothing of it is in the repository: what runs goes on.
    expect((await load('sent')).status).toBe(500);
    expect(await answerOf('sent')).toBe(35);
  });

  test('code is taken with the key alone', async () => {
    const files = { config: config('code'), 'file:1/model.mjs': base64(times(1)) };
    for (const headers of [{}, { 'nereid-admin-key': 'another' }]) {
      expect(await load('code', files, headers)).toMatchObject({
        status: 403,
        json: { error: expect.stringContaining('is code') },
      });
    }
    const outside = { config: config('code'), 'file:../code/1/model.mjs': base64('') };
    expect((await load('code', outside)).status).toBe(400);
    expect(await answerOf('code')).toBe("Request for unknown model: 'code' is not found");
  });

  test.skipIf(mode === 'one')('what was sent and what was unloaded outlive coordinator and workers', async () => {
    const { redis } = served;
    if (redis === undefined) throw new Error('mode apart has a Redis');
    expect((await unload('plain')).status).toBe(200);
    const cluster = clusterOn(redis, flagEnvironment(clusterFlags()));
    const others = [cluster.start('coordinator'), cluster.start('worker')];
    const twice = flagEnvironment([...clusterFlags(), `--model-repository=${folder.path}/../`]);
    const wrong = clusterOn(redis, twice).start('worker');
    try {
      await Promise.all(others.map(({ started }) => started));
      const first = [...served.coordinators, ...served.workers, ...(anyModel === undefined ? [] : [anyModel])];
      for (const { process } of first) process.kill('SIGKILL');
      await vi.waitFor(async () => expect(await answerOf('sent')).toBe(35), { timeout: 20_000, interval: 100 });
      expect(await answerOf('plain')).toBe("Request for unknown model: 'plain' has no available versions");
      const ending = await wrong.ended;
      expect([ending.code, ending.output]).toEqual([
        4,
        expect.stringMatching(/--model-repository is '.*, .*' here and '.*' in the cluster/),
      ]);
    } finally {
      for (const { process } of [...others, wrong]) process.kill('SIGKILL');
      await Promise.all([...others, wrong].map(({ ended }) => ended));
    }
  });
});
