import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@nereid/client';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { commandFile } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';

const ECHO = `export const execute = (requests) =>
  requests.map((request) => ({ outputs: { VALUE: request.inputs.get("VALUE") } }));`;
const HEARD_LIMIT_MS = 15_000;
const ISO_LINE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ nereid\] "log settings of the cluster"/m;

async function ask(url: string, body?: unknown) {
  const given = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(url, given);
  const text = await response.text();
  return { status: response.status, json: text === '' ? undefined : JSON.parse(text) };
}

/** At the last gateway, where that is another, what was set at the first one is seen a moment later. */
async function lastShows(served: Deployment, path: string, expected: object) {
  const last = served.gateways.at(-1)?.http;
  let seen: unknown;
  await eventually(`${path} shows ${JSON.stringify(expected)}`, async () => {
    seen = (await ask(`${last}${path}`)).json;
    return Object.entries(expected).every(
      ([name, value]) => JSON.stringify((seen as Record<string, unknown>)[name]) === JSON.stringify(value),
    );
  });
}

/** A model that loads, one that does not, and one whose configuration is no configuration. */
function threeModels(): ModelFolder {
  const folder = createModelFolder();
  folder.addJavaScript('echo', ECHO);
  folder.addJavaScript('broken', 'this is no module');
  mkdirSync(join(folder.path, 'no_config', '1'), { recursive: true });
  writeFileSync(join(folder.path, 'no_config', 'config.pbtxt'), 'max_batch_size: many');
  return folder;
}

async function indexAt(http: string, body: object = {}) {
  return (await ask(`${http}/v2/repository/index`, body)).json;
}

/** Waits until every gateway has heard this of the models: with roles apart a worker may join after the start. */
async function allHear(served: Deployment, expected: readonly object[]) {
  for (const { http } of served.gateways) {
    await vi.waitFor(async () => expect(await indexAt(http)).toEqual(expected), { timeout: HEARD_LIMIT_MS });
  }
}

const statusOf = async (url: string) => (await ask(url)).status;

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;

  async function start(flags: readonly string[]) {
    folder = threeModels();
    served = await deploy(mode, [folder.path], ['--exit-on-error=false', ...flags]);
  }
  async function stop() {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  }

  describe('every model at start, whether it loads or not', () => {
    beforeAll(() => start(['--strict-readiness=false', '--log-verbose=1', '--trace-config=triton,file=/dev/null']));
    afterAll(stop);

    test('the index has all of them at every gateway, with why', async () => {
      await allHear(served, [
        { name: 'broken', version: '1', state: 'UNAVAILABLE', reason: expect.stringContaining('Internal: ') },
        { name: 'echo', version: '1', state: 'READY' },
        { name: 'no_config' },
      ]);
      for (const { http } of served.gateways) {
        expect(await indexAt(http, { ready: true })).toEqual([{ name: 'echo', version: '1', state: 'READY' }]);
      }
    });

    test('the server is ready, the models each by itself', async () => {
      const { http } = served;
      expect(await statusOf(`${http}/v2/health/ready`)).toBe(200);
      expect(await statusOf(`${http}/v2/models/echo/ready`)).toBe(200);
      expect(await statusOf(`${http}/v2/models/broken/ready`)).toBe(400);
      expect(await statusOf(`${http}/v2/models/no_config/ready`)).toBe(400);
    });

    test('the index has a folder that was added since', async () => {
      folder.addJavaScript('added', ECHO);
      for (const { http } of served.gateways) {
        await eventually('the new folder', async () =>
          (await indexAt(http)).some((entry: object) => JSON.stringify(entry) === '{"name":"added"}'),
        );
      }
    });

    test('load and unload are refused as by Triton', async () => {
      for (const { http } of served.gateways) {
        for (const action of ['load', 'unload']) {
          expect(await ask(`${http}/v2/repository/models/echo/${action}`, {})).toEqual({
            status: 503,
            json: { error: 'explicit model load / unload is not allowed if polling is enabled' },
          });
        }
      }
    });

    test('log settings that are set at one gateway hold in every process', async () => {
      const path = '/v2/logging';
      expect((await ask(`${served.http}${path}`)).json).toMatchObject({ log_verbose_level: 1, log_format: 'default' });
      const set = await ask(`${served.http}${path}`, { log_format: 'ISO8601', log_warning: false });
      const expected = { log_format: 'ISO8601', log_warning: false, log_verbose_level: 1 };
      expect(set).toMatchObject({ status: 200, json: expected });
      await lastShows(served, path, expected);
      await Promise.all(served.processes.map((one) => one.waitFor(ISO_LINE)));
    });

    test('trace settings that are set at one gateway hold at every other, and the count is the cluster’s', async () => {
      const [all, model] = ['/v2/trace/setting', '/v2/models/echo/trace/setting'];
      const set = { trace_level: ['TIMESTAMPS'], trace_rate: '1', trace_count: '3' };
      expect(await ask(`${served.http}${model}`, set)).toMatchObject({ status: 200, json: set });
      await lastShows(served, model, set);
      await lastShows(served, all, { trace_level: ['OFF'], trace_count: '-1', trace_file: '/dev/null' });
      for (const { http } of served.gateways) {
        expect((await infer(http, 'echo', oneInput('VALUE', 'INT32', [1], [7]))).status).toBe(200);
      }
      const left = { trace_count: `${3 - served.gateways.length}` };
      for (const { http } of served.gateways) {
        await eventually('the count', async () => (await ask(`${http}${model}`)).json.trace_count === left.trace_count);
      }
      const cleared = { trace_level: null, trace_rate: null, trace_count: null };
      expect(await ask(`${served.http}${model}`, cleared)).toMatchObject({ json: { trace_level: ['OFF'] } });
      await lastShows(served, model, { trace_level: ['OFF'], trace_rate: '1000', trace_count: '-1' });
    });
  });

  describe('only the models that --load-model names', () => {
    beforeAll(() => start(['--model-control-mode=explicit', '--load-model=echo', '--load-model=no_config']));
    afterAll(stop);

    test('the one that loads is served; what could not be read does not count against readiness', async () => {
      const { http } = served;
      expect(await statusOf(`${http}/v2/health/ready`)).toBe(200);
      expect((await infer(http, 'echo', oneInput('VALUE', 'INT32', [1], [7]))).outputs.get('VALUE')?.data).toEqual([7]);
      const other = await infer(http, 'broken', oneInput('VALUE', 'INT32', [1], [7]));
      expect([other.status, other.error]).toEqual([404, "Request for unknown model: 'broken' is not found"]);
    });

    test('the index lists the others by name', async () => {
      await allHear(served, [
        { name: 'broken' },
        { name: 'echo', version: '1', state: 'READY' },
        { name: 'no_config' },
      ]);
    });

    test('any gateway loads and unloads, and what follows there finds it done', async () => {
      for (const { http } of served.gateways) {
        const change = (what: string, body: object = {}) => ask(`${http}/v2/repository/models/${what}`, body);
        expect((await change('missing/load')).status).toBe(500);
        expect((await change('echo/load', { parameters: { zz: 'a' } })).status).toBe(400);
        expect((await change('echo/unload')).status).toBe(200);
        expect(await statusOf(`${http}/v2/models/echo/ready`)).toBe(400);
        expect((await infer(http, 'echo', oneInput('VALUE', 'INT32', [1], [7]))).status).toBe(404);
        expect((await change('echo/load')).status).toBe(200);
        expect((await infer(http, 'echo', oneInput('VALUE', 'INT32', [1], [7]))).status).toBe(200);
      }
    });

    test('the command and the client load and unload, and tell the states', async () => {
      const { http } = served;
      const client = createClient({ url: http });
      const run = (...argv: string[]) =>
        runCommand(process.execPath, [commandFile(), 'models', ...argv, `--url=${http}`]);
      const states = async () => (await client.models()).map(({ name, state }) => [name, state]);
      const config = join(folder.path, 'echo', 'config.pbtxt');
      await client.unloadModel('echo');
      // Its instances may not have ended yet.
      expect(await states()).not.toContainEqual(['echo', 'READY']);
      expect(await run('load', 'echo', `--config=${config}`)).toEqual({ code: 0, output: 'loaded echo\n' });
      expect(await states()).toContainEqual(['echo', 'READY']);
      expect((await run('ls')).output).toMatch(/^\| echo +\| 1 +\| READY +\|/m);
      expect(await run('unload', 'echo')).toEqual({ code: 0, output: 'unloaded echo\n' });
      await expect(client.loadModel('missing')).rejects.toMatchObject({ status: 500 });
      await client.loadModel('echo');
      expect(await states()).toContainEqual(['echo', 'READY']);
    });
  });
});

test('without --load-model nothing is loaded, and * loads all', async () => {
  const folder = createModelFolder();
  folder.addJavaScript('one', ECHO);
  folder.addJavaScript('two', ECHO);
  try {
    for (const [flags, loaded] of [
      [[], []],
      [['--load-model=*'], ['one', 'two']],
    ] as const) {
      const served = await deploy('one', [folder.path], ['--model-control-mode=explicit', ...flags]);
      const ready = await indexAt(served.http, { ready: true });
      expect(ready.map(({ name }: { name: string }) => name)).toEqual(loaded);
      for (const { code } of await served.stop()) expect(code).toBe(0);
    }
  } finally {
    folder.remove();
  }
});
