import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@nereid/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type GrpcClient, grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';

/** Version 2 gives another value for 13 alone; version 3 keeps 99 until it is cancelled, or the file is there. */
const tells = (begun: string, open: string) => `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout as delay } from 'node:timers/promises';
  let own;
  export const initialize = ({ version }) => { own = Number(version); };
  async function answer({ inputs, signal }) {
    const [value] = inputs.get('VALUE').data;
    if (own === 3) appendFileSync(${JSON.stringify(begun)}, value + '\\n');
    while (own === 3 && value === 99 && !signal.aborted && !existsSync(${JSON.stringify(open)})) await delay(5);
    const given = own === 2 && value === 13 ? 31 : value;
    return { outputs: { VALUE: { ...inputs.get('VALUE'), data: Int32Array.of(given) } } };
  }
  export const execute = (requests) => Promise.all(requests.map(answer));`;
const SUMS = `export const execute = (requests) => requests.map(({ inputs, state }) => {
  const [value] = inputs.get('VALUE').data;
  const sum = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(state.get('BEFORE').data[0] + value) };
  return { outputs: { VALUE: sum }, state: { AFTER: sum } };
});`;
const SEQUENCES = `sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: 8 }
  state [ {
    input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 1 ]
    initial_state: { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }
  } ]
}`;
const ALL = 'version_policy { all { } }';
const weighted = (...weights: number[]) => weights.map((weight, index) => ({ version: String(index + 1), weight }));

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let doors: readonly { readonly http: string; readonly metrics: string; readonly grpc: string | undefined }[];
  let client: ReturnType<typeof createClient>;
  let grpc: GrpcClient;
  const begun = () => linesIn(join(folder.path, 'begun')).map(Number);

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('tells', tells(join(folder.path, 'begun'), join(folder.path, 'open')), ALL);
    for (const version of ['2', '3'])
      cpSync(join(folder.path, 'tells', '1'), join(folder.path, 'tells', version), { recursive: true });
    folder.addJavaScript('sums', SUMS, `${SEQUENCES} ${ALL}`, { maxBatchSize: 4 });
    cpSync(join(folder.path, 'sums', '1'), join(folder.path, 'sums', '2'), { recursive: true });
    // A model that calls an alias.
    folder.addJavaScript(
      'calls',
      `let infer;
       export const initialize = ({ context }) => { infer = context.infer; };
       export const execute = (requests) => Promise.all(requests.map(async ({ inputs }) => {
         const { outputs } = await infer('stable', { inputs: { VALUE: inputs.get('VALUE') } });
         return { outputs: { VALUE: outputs.VALUE } };
       }));`,
    );
    served = await deploy(mode, [folder.path], ['--exit-timeout-secs=10']);
    doors = served.gateways;
    client = createClient({ url: served.http });
    grpc = grpcClient(doors[0]?.grpc ?? '');
  });
  afterAll(async () => {
    grpc?.close();
    // Of a gateway that was killed nobody cancels the copies.
    if (mode === 'apart') writeFileSync(join(folder.path, 'open'), '');
    const endings = await served.stop();
    folder.remove();
    for (const { code, signal, output } of endings) expect(signal === 'SIGKILL' ? 0 : code, output).toBe(0);
  });

  /** Once every gateway has heard of it. */
  const known = (name: string, is: (alias: { versions: readonly { weight: number }[] }) => boolean) =>
    Promise.all(
      doors.map(({ http }) =>
        eventually(`the gateway knows ${name}`, async () => {
          const answer = await fetch(`${http}/nereid/v1/aliases/${name}`);
          return answer.ok && is((await answer.json()) as { versions: readonly { weight: number }[] });
        }),
      ),
    );
  const put = async (name: string, alias: Parameters<typeof client.aliases.put>[1]) => {
    await client.aliases.put(name, alias);
    await known(name, ({ versions }) => versions.every(({ weight }, at) => weight === alias.versions[at]?.weight));
  };
  const ask = async (http: string, model: string, value: number, rest: object = {}) => {
    const rows = model === 'summing' || model === 'moving' ? [1, 1] : [1];
    const inputs = [{ name: 'VALUE', datatype: 'INT32', shape: rows, data: [value] }];
    const answer = await fetch(`${http}/v2/models/${model}/infer`, {
      method: 'POST',
      body: JSON.stringify({ ...rest, inputs }),
    });
    const body = (await answer.json()) as {
      readonly model_name: string;
      readonly model_version: string;
      readonly outputs?: readonly { readonly data: readonly number[] }[];
      readonly error?: string;
    };
    return { ...body, status: answer.status, value: body.outputs?.[0]?.data[0] };
  };
  const json = async (path: string) => (await fetch(`${served.http}${path}`)).json();

  test('an alias answers by its name on every surface, with the version that ran', async () => {
    await put('stable', { model: 'tells', versions: weighted(0, 1) });
    expect(await ask(served.http, 'stable', 13)).toMatchObject({ model_name: 'stable', model_version: '2', value: 31 });
    expect(await ask(served.http, 'stable/versions/1', 13)).toMatchObject({ model_name: 'stable', value: 13 });
    const missing = await ask(served.http, 'stable/versions/3', 13);
    expect(missing).toMatchObject({ status: 404, error: expect.stringContaining("'stable' version 3") });

    const { response } = await grpc.infer(valueRequest('stable', 13));
    expect([response.model_name, response.model_version, valueIn(response)]).toEqual(['stable', '2', 31]);
    const stream = grpc.stream();
    stream.send(valueRequest('stable', 13));
    const streamed = (await stream.next())?.infer_response;
    expect([streamed?.model_name, streamed?.model_version, valueIn(streamed)]).toEqual(['stable', '2', 31]);
    stream.halfClose();
    await stream.rest();
    expect(await client.generate({ model: 'stable', inputs: { VALUE: 13 } })).toMatchObject({
      model_name: 'stable',
      model_version: '2',
      VALUE: 31,
    });

    expect(await client.metadata('stable')).toMatchObject({ name: 'stable', versions: ['1', '2'] });
    expect(await json('/v2/models/stable/config')).toMatchObject({ name: 'stable', backend: 'javascript' });
    const { model_stats: stats } = (await json('/v2/models/stable/stats')) as {
      model_stats: { name: string; version: string; inference_count: number }[];
    };
    expect(stats.map(({ name, version }) => [name, version])).toEqual([
      ['stable', '1'],
      ['stable', '2'],
    ]);
    expect(await client.isReady('stable')).toBe(true);
    const job = await client.jobs.submit({ model: 'stable', inputs: { VALUE: int32(13) } });
    const done = await client.jobs.result(job.id);
    expect([done.model, done.version]).toEqual(['tells', '2']);
    expect(await ask(served.http, 'calls', 13)).toMatchObject({ value: 31 });
    const batch = await fetch(`${served.http}/v2/models/stable/batches`, {
      method: 'POST',
      body: JSON.stringify({ custom_id: 'a', body: { inputs: [{ name: 'VALUE', ...int32(13) }] } }),
    });
    const { id } = (await batch.json()) as { readonly id: string };
    await fetch(`${served.http}/v2/batches/${id}?wait=30s`);
    expect(await (await fetch(`${served.http}/v2/batches/${id}/results`)).text()).toContain('31');
  });

  test.each([
    [
      'of a model has its name',
      'sums',
      { model: 'tells', versions: weighted(1) },
      'ALREADY_EXISTS',
      "'sums' is a model's name",
    ],
    [
      'stands for no model',
      'none',
      { model: 'nobody', versions: weighted(1) },
      'NOT_FOUND',
      "there is no model 'nobody'",
    ],
    [
      'stands for an alias',
      'again',
      { model: 'stable', versions: weighted(1) },
      'NOT_FOUND',
      "there is no model 'stable'",
    ],
    [
      'has a version that is not there',
      'none',
      { model: 'sums', versions: weighted(1, 1, 1) },
      'NOT_FOUND',
      'has no version 3: it has 1, 2',
    ],
    [
      'gives no version a weight',
      'none',
      { model: 'tells', versions: weighted(0, 0) },
      'INVALID_ARG',
      'versions must give one version at least a weight above 0',
    ],
    [
      'has a weight below 0',
      'none',
      { model: 'tells', versions: weighted(-1) },
      'INVALID_ARG',
      'versions[0].weight must be a number from 0 to 1000000',
    ],
  ])('an alias that %s is refused', async (_why, name, alias, code, text) => {
    await expect(client.aliases.put(name, alias)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(text),
    });
    expect((await client.aliases.list()).map((each) => each.name)).not.toContain(name);
  });

  test('weights part the requests by their ids, alike at each gateway; promote and roll back are one call each', async () => {
    await put('parted', { model: 'tells', versions: weighted(1, 1) });
    const ids = Array.from({ length: 24 }, (_, index) => `request-${index}`);
    const versionsAt = (http: string) =>
      Promise.all(ids.map(async (id) => (await ask(http, 'parted', 1, { id })).model_version));
    const first = await versionsAt(served.http);
    expect(new Set(first)).toEqual(new Set(['1', '2']));
    for (const { http } of doors) expect(await versionsAt(http)).toEqual(first);

    await client.aliases.promote('parted', '2');
    await known('parted', ({ versions }) => versions[0]?.weight === 0);
    for (const { http } of doors) expect(new Set(await versionsAt(http))).toEqual(new Set(['2']));
    await client.aliases.promote('parted', '2');
    await client.aliases.rollBack('parted');
    await known('parted', ({ versions }) => versions[0]?.weight === 1);
    expect(await versionsAt(served.http)).toEqual(first);
    await expect(client.aliases.rollBack('parted')).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await client.aliases.remove('parted');
    await eventually('it is gone', async () => (await ask(served.http, 'parted', 1)).status === 404);
  });

  test('a copy that differs is found, one that has no answer touches nobody', async () => {
    await put('checked', { model: 'tells', versions: weighted(1, 0, 0), shadow: { version: '2' } });
    expect(await ask(served.http, 'checked', 7)).toMatchObject({ model_version: '1', value: 7 });
    expect(await ask(served.http, 'checked', 13, { id: 'odd' })).toMatchObject({ model_version: '1', value: 13 });
    await eventually('both are compared', async () => {
      const { equal, different } = (await client.aliases.get('checked')).shadow_results;
      return equal === 1 && different === 1;
    });
    expect((await client.aliases.get('checked')).differences).toMatchObject([
      {
        request_id: 'odd',
        version: '1',
        shadow_version: '2',
        kind: 'value',
        output: 'VALUE',
        answer: 13,
        shadow_answer: 31,
      },
    ]);
    const metrics = doors[0]?.metrics ?? '';
    expect(await metric(metrics, 'nereid_shadow_total', { alias: 'checked', result: 'different' })).toBe(1);

    // Its copies wait at version 3 for ever: they have begun, and what comes behind them is answered.
    await put('stuck', { model: 'tells', versions: weighted(1, 0, 0), shadow: { version: '3' } });
    expect(await ask(served.http, 'stuck', 99)).toMatchObject({ status: 200, model_version: '1' });
    await eventually('the copy has begun', async () => begun().includes(99));
    expect(await ask(served.http, 'stuck', 99)).toMatchObject({ status: 200, model_version: '1' });
    expect((await client.aliases.get('stuck')).shadow_results).toMatchObject({ equal: 0, different: 0, failed: 0 });
  });

  test('a sequence stays with its version while weights change, and is copied whole', async () => {
    await put('summing', { model: 'sums', versions: weighted(1, 0), shadow: { version: '2' } });
    const last = doors.at(-1)?.http ?? '';
    const step = (http: string, value: number, parameters: object) => ask(http, 'summing', value, { parameters });
    const id = { sequence_id: 5 };
    expect(await step(served.http, 1, { ...id, sequence_start: true })).toMatchObject({ model_version: '1', value: 1 });
    expect(await step(served.http, 2, id)).toMatchObject({ model_version: '1', value: 3 });
    await client.aliases.promote('summing', '2');
    await known('summing', ({ versions }) => versions[0]?.weight === 0);
    expect(await step(served.http, 3, id)).toMatchObject({ model_version: '1', value: 6 });
    expect(await step(last, 4, id)).toMatchObject({ model_version: '1', value: 10 });
    // A new one of the same id, though the other has not ended.
    expect(await step(served.http, 20, { ...id, sequence_start: true })).toMatchObject({
      model_version: '2',
      value: 20,
    });
    expect(await step(last, 1, { ...id, sequence_end: true })).toMatchObject({ model_version: '2', value: 21 });
    expect((await step(served.http, 1, { sequence_id: 6 })).error).toContain('must specify the START flag');
  });

  test.runIf(mode === 'apart')('a sequence goes on with its version when its gateway dies', async () => {
    await put('moving', { model: 'sums', versions: weighted(1, 0) });
    const [dying, other] = served.gateways;
    const step = (http: string, value: number, parameters: object) => ask(http, 'moving', value, { parameters });
    const id = { sequence_id: 9 };
    expect(await step(dying?.http ?? '', 1, { ...id, sequence_start: true })).toMatchObject({ model_version: '1' });
    await client.aliases.promote('moving', '2');
    await known('moving', ({ versions }) => versions[0]?.weight === 0);
    dying?.process.kill('SIGKILL');
    await dying?.ended;
    expect(await step(other?.http ?? '', 2, id)).toMatchObject({ model_version: '1', value: 3 });
    expect(await step(other?.http ?? '', 3, { ...id, sequence_end: true })).toMatchObject({
      model_version: '1',
      value: 6,
    });
  });
});

function int32(value: number) {
  return { datatype: 'INT32', shape: [1], data: [value] } as const;
}
