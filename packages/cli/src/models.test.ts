import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseModelConfigJson } from '@nereid/config';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listIndex, loadModel, unloadModel } from './models.ts';
import type { CallHost } from './server-call.ts';

const URL = 'http://h:1';

interface Sent {
  readonly call: string;
  readonly body: { readonly parameters: Readonly<Record<string, string>> } | undefined;
}

/** A process whose call gets this answer. */
function host(text: string, status = 200, env: CallHost['env'] = {}) {
  const seen = { out: '', err: '', sent: [] as Sent[] };
  const fake: CallHost = {
    env,
    fetch: async (url, { method, body, headers }) => {
      const call = [method, url.href, ...Object.entries(headers ?? {}).flat()].join(' ');
      seen.sent.push({ call, body: body === undefined ? undefined : JSON.parse(String(body)) });
      return new Response(text, { status });
    },
    stdout: (written) => {
      seen.out += written;
    },
    stderr: (written) => {
      seen.err += written;
    },
  };
  return { fake, seen };
}

let folder: string;
const file = (name: string) => join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-models-'));
  writeFileSync(file('config.pbtxt'), 'backend: "onnxruntime"\nmax_batch_size: 4\n');
  writeFileSync(file('wrong.pbtxt'), 'backend: "onnxruntime"\nmax_batch: 4\n');
  writeFileSync(file('config.json'), '{"max_batch_size": 9}');
  writeFileSync(file('model=1.onnx'), Uint8Array.of(0, 255, 1));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('nereid models ls', () => {
  const INDEX = [
    { name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no model.onnx' },
    { name: 'never_loaded' },
    { name: 'simple', version: '1', state: 'READY' },
  ];

  it('prints a table of the index', async () => {
    const { fake, seen } = host(JSON.stringify(INDEX));
    expect(await listIndex({ url: URL, json: false }, fake)).toBe(0);
    expect(seen).toEqual({
      err: '',
      out: `${[
        '+--------------+---------+-------------+---------------+',
        '| Model        | Version | State       | Reason        |',
        '+--------------+---------+-------------+---------------+',
        '| broken       | 1       | UNAVAILABLE | no model.onnx |',
        '| never_loaded | -       | -           |               |',
        '| simple       | 1       | READY       |               |',
        '+--------------+---------+-------------+---------------+',
      ].join('\n')}\n`,
      sent: [{ call: `POST ${URL}/v2/repository/index`, body: undefined }],
    });
  });

  it('prints JSON', async () => {
    const { fake, seen } = host(JSON.stringify(INDEX));
    expect(await listIndex({ url: URL, json: true }, fake)).toBe(0);
    expect(JSON.parse(seen.out)).toEqual(INDEX);
  });

  it.each([
    [503, '{"error":"no coordinator has told yet"}', 'no coordinator has told yet'],
    [200, '{}', `${URL} answered 200: is it a Nereid server's HTTP port?`],
  ])('fails in one line for an answer of %i %s', async (status, text, error) => {
    const { fake, seen } = host(text, status);
    expect(await listIndex({ url: URL, json: false }, fake)).toBe(1);
    expect([seen.out, seen.err]).toEqual(['', `nereid models ls: ${error}\n`]);
  });
});

describe('nereid models load', () => {
  it('asks for the model by its name, with the admin key', async () => {
    const { fake, seen } = host('', 200, { NEREID_ADMIN_KEY: 'secret' });
    expect(await loadModel({ url: URL, model: 'x/y::a b' }, fake)).toBe(0);
    expect(seen).toEqual({
      out: 'loaded x/y::a b\n',
      err: '',
      sent: [
        {
          call: `POST ${URL}/v2/repository/models/x%2Fy%3A%3Aa%20b/load Nereid-Admin-Key secret`,
          body: { parameters: {} },
        },
      ],
    });
  });

  it('sends a config.pbtxt as JSON, and files by their paths', async () => {
    const { fake, seen } = host('');
    const options = {
      url: URL,
      model: 'm',
      config: file('config.pbtxt'),
      file: [`1/model.onnx=${file('model=1.onnx')}`],
    };
    expect(await loadModel(options, fake)).toBe(0);
    const { config = '', ...files } = seen.sent[0]?.body?.parameters ?? {};
    expect(parseModelConfigJson(config, 'config')).toMatchObject({ backend: 'onnxruntime', maxBatchSize: 4 });
    expect(files).toEqual({ 'file:1/model.onnx': Buffer.of(0, 255, 1).toString('base64') });
  });

  it('sends JSON as it is', async () => {
    const { fake, seen } = host('');
    expect(await loadModel({ url: URL, model: 'm', config: file('config.json') }, fake)).toBe(0);
    expect(seen.sent[0]?.body).toEqual({ parameters: { config: '{"max_batch_size": 9}' } });
  });

  it.each<[{ readonly config?: string; readonly file?: readonly string[] }, string]>([
    [{ config: 'wrong.pbtxt' }, 'wrong.pbtxt:2:1: unknown field "max_batch" in ModelConfig'],
    [{ config: 'missing.pbtxt' }, '--config: cannot read '],
    [{ file: ['1/model.onnx=missing'] }, '--file: cannot read '],
    [{ file: ['1/model.onnx'] }, '--file=1/model.onnx must be <path>=<file>'],
    [{ file: ['=model'] }, '--file==model must be <path>=<file>'],
  ])('with %j asks nobody and exits 2', async ({ config, file: given }, text) => {
    const { fake, seen } = host('');
    const files = given?.map((one) => one.replace('=missing', `=${file('missing')}`));
    const options = {
      url: URL,
      model: 'm',
      ...(config === undefined ? {} : { config: file(config) }),
      ...(files === undefined ? {} : { file: files }),
    };
    expect(await loadModel(options, fake)).toBe(2);
    expect([seen.sent, seen.out]).toEqual([[], '']);
    expect(seen.err).toMatch(/^nereid models load: [^\n]*\n$/);
    expect(seen.err).toContain(text);
  });

  it('tells why not in the words of the server', async () => {
    const { fake, seen } = host('{"error":"failed to load \'m\', no version is available"}', 500);
    expect(await loadModel({ url: URL, model: 'm' }, fake)).toBe(1);
    expect([seen.out, seen.err]).toEqual(['', "nereid models load: failed to load 'm', no version is available\n"]);
  });

  it('that is not answered in time says so', async () => {
    const { fake, seen } = host('');
    const late = async () => {
      throw new DOMException('The operation was aborted due to timeout', 'TimeoutError');
    };
    expect(await loadModel({ url: URL, model: 'm' }, { ...fake, fetch: late })).toBe(1);
    expect(seen.err).toBe(`nereid models load: ${URL} has not answered within 290 s\n`);
  });
});

it.each([true, false])('nereid models unload, with its dependents: %s', async (unloadDependents) => {
  const { fake, seen } = host('');
  expect(await unloadModel({ url: URL, model: 'm', unloadDependents }, fake)).toBe(0);
  expect(seen).toEqual({
    out: 'unloaded m\n',
    err: '',
    sent: [
      {
        call: `POST ${URL}/v2/repository/models/m/unload`,
        body: { parameters: { unload_dependents: unloadDependents } },
      },
    ],
  });
});
