import {
  type ControlMode,
  decodeOverride,
  encodeRepositoryList,
  LIMITS,
  type ModelRecord,
  overrideUploads,
  REPOSITORY_VALUE,
  type RepositoryFolder,
} from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { createLocalDirectory, createLocalUploads } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import type { CodeUploadRules } from './code-upload.ts';
import { modelRecord, SIMPLE } from './gateway-fixture.ts';
import type { LoadParameter } from './load-override.ts';
import { createRepository } from './repository.ts';
import { adminKey } from './restricted.ts';

const folder = (name: string, conflict: string | null = null): RepositoryFolder => ({ name, conflict });
const record = (name: string, versions: ModelRecord['versions']): ModelRecord => ({
  ...modelRecord(SIMPLE, versions),
  name,
});

const NO_CODE: CodeUploadRules = { allowed: false, key: undefined };

async function told(
  controlMode: ControlMode,
  folders: readonly RepositoryFolder[] = [],
  codeRules = NO_CODE,
  refresh?: () => Promise<void>,
) {
  const directory = createLocalDirectory<ModelRecord>();
  const uploads = createLocalUploads(LIMITS);
  const tell = (now: readonly RepositoryFolder[]) =>
    directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode, folders: now }));
  await tell(folders);
  const publish = (name: string, versions: ModelRecord['versions']) => directory.publish(name, record(name, versions));
  const asked: (readonly unknown[])[] = [];
  const answers: { error: ErrorInfo | undefined } = { error: undefined };
  /** What uploads held when a load came to the coordinator. */
  const found: string[] = [];
  const changes = {
    async load(model: string, override: string) {
      asked.push(['load', model, override]);
      for (const name of overrideUploads(decodeOverride(override) ?? {})) {
        found.push(Buffer.from((await uploads.get(name)) ?? []).toString());
      }
      return answers.error;
    },
    async unload(model: string, dependents: boolean) {
      asked.push(['unload', model, dependents]);
      return answers.error;
    },
  };
  const repository = createRepository({ directory, refresh, changes, uploads, codeRules });
  return { directory, tell, publish, repository, asked, answers, uploads, found };
}

describe('the index', () => {
  it('lists folders by name, with what is known of their versions', async () => {
    const folders = [folder('a'), folder('b'), folder('c', 'twice'), folder('d'), folder('e')];
    const { repository, publish } = await told('none', folders);
    await publish('b', [
      { version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
      { version: '3', state: 'READY', reason: '' },
    ]);
    await publish('d', [{ version: '1', state: 'UNAVAILABLE', reason: 'Internal: no' }]);
    await publish('e', []);
    await publish('gone', [{ version: '1', state: 'READY', reason: '' }]);
    expect(await repository.index(false)).toEqual({
      ok: true,
      value: [
        { name: 'a' },
        { name: 'b', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
        { name: 'b', version: '3', state: 'READY' },
        { name: 'c', state: 'UNAVAILABLE', reason: 'twice' },
        { name: 'd', version: '1', state: 'UNAVAILABLE', reason: 'Internal: no' },
        { name: 'e' },
      ],
    });
    expect(await repository.index(true)).toEqual({
      ok: true,
      value: [
        { name: 'b', version: '3', state: 'READY' },
        // Triton lists it all the same.
        { name: 'c', state: 'UNAVAILABLE', reason: 'twice' },
      ],
    });
  });

  it('follows what is told', async () => {
    const { repository, tell } = await told('none', [folder('a')]);
    await repository.index(false);
    await tell([folder('a'), folder('new')]);
    expect(await repository.index(false)).toEqual({ ok: true, value: [{ name: 'a' }, { name: 'new' }] });
  });

  it('has the repositories looked at first, where their reader is in this process', async () => {
    const later = { tell: async () => {} };
    const { repository, tell } = await told('none', [], NO_CODE, () => later.tell());
    later.tell = async () => void (await tell([folder('fresh')]));
    expect(await repository.index(false)).toEqual({ ok: true, value: [{ name: 'fresh' }] });
  });

  it('is unavailable while it is not told', async () => {
    const { repository, directory } = await told('none');
    await directory.setValue(REPOSITORY_VALUE, 'of another build');
    expect(await repository.index(false)).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    expect(await repository.load('m', [], LOCAL)).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
  });
});

const LOCAL = { isLocal: true, key: undefined };
const AWAY = { isLocal: false, key: undefined };
const bytes = (text: string) => Buffer.from(text);
const CONFIG: LoadParameter = { name: 'config', value: '{"backend":"onnxruntime"}' };
const GRAPH: LoadParameter = { name: 'file:1/model.onnx', value: bytes('graph') };
const SCRIPT: LoadParameter = { name: 'file:1/model.mjs', value: bytes('code') };

describe('load and unload', () => {
  const NOT_ALLOWED = {
    code: 'UNAVAILABLE',
    message: 'explicit model load / unload is not allowed if polling is enabled',
  };

  it.each(['none', 'poll'] as const)('are not allowed in mode %s', async (mode) => {
    const { repository, asked } = await told(mode);
    expect(await repository.load('m', [], LOCAL)).toEqual({ ok: false, error: NOT_ALLOWED });
    expect(await repository.unload('m', true)).toEqual({ ok: false, error: NOT_ALLOWED });
    expect(asked).toEqual([]);
  });

  it('go to the coordinators, and what these say comes back', async () => {
    const { repository, asked, answers } = await told('explicit');
    expect(await repository.load('m', [], AWAY)).toEqual({ ok: true, value: undefined });
    expect(await repository.unload('m', true)).toEqual({ ok: true, value: undefined });
    answers.error = { code: 'INTERNAL', message: 'no' };
    expect(await repository.load('m', [], AWAY)).toEqual({ ok: false, error: answers.error });
    expect(asked).toEqual([
      ['load', 'm', ''],
      ['unload', 'm', true],
      ['load', 'm', ''],
    ]);
  });

  it('what a load brings is there while it goes on, and let go of behind it', async () => {
    const { repository, asked, uploads, found } = await told('explicit');
    expect(await repository.load('m', [CONFIG, GRAPH], AWAY)).toMatchObject({ ok: true });
    const text = String(asked[0]?.[2]);
    const ref = decodeOverride(text);
    expect(found).toEqual([CONFIG.value, 'graph']);
    expect(ref?.files).toEqual({ '1/model.onnx': expect.stringMatching(/^[0-9a-f]{64}$/) });
    for (const name of overrideUploads(ref ?? {})) expect(await uploads.get(name)).toBeUndefined();
  });

  it.each(['none', 'explicit'] as const)('an unknown parameter comes first in mode %s', async (mode) => {
    const { repository } = await told(mode);
    expect(await repository.load('m', [{ name: 'zz', value: '' }], AWAY)).toEqual({
      ok: false,
      error: { code: 'INVALID_ARG', message: "unrecognized load parameter 'zz'.", field: 'parameters.zz' },
    });
  });

  it.each([
    ['..', [], "failed to load '..': a model's name is that of a folder"],
    ['a/b', [], "failed to load 'a/b': "],
    ['', [], "failed to load '': "],
    ['m', [GRAPH], "failed to load 'm', failed to poll from model repository: with files the parameter 'config'"],
    ['m', [{ name: 'config', value: 'hello' }], "failed to load 'm'"],
    ['m', [{ name: 'config', value: '{"max_batchsize":1}' }], "failed to load 'm'"],
    [
      'm',
      [CONFIG, { name: 'file:../n/model.onnx', value: bytes('') }],
      "'file:../n/model.onnx' must name a file inside",
    ],
    ['m', [CONFIG, { name: 'file:/etc/x', value: bytes('') }], "'file:/etc/x' must name a file inside"],
    ['m', [CONFIG, { name: 'file:1\\x', value: bytes('') }], 'must name a file inside'],
    ['m', [CONFIG, { name: 'file:', value: bytes('') }], 'must name a file inside'],
  ] as const)('of %o with %j is refused', async (model, parameters, message) => {
    const { repository, asked } = await told('explicit');
    expect(await repository.load(model, parameters, LOCAL)).toMatchObject({
      ok: false,
      error: { code: 'INVALID_ARG', message: expect.stringContaining(message) },
    });
    expect(asked).toEqual([]);
  });
});

describe('code', () => {
  const key = adminKey('secret');
  const withKey = { isLocal: false, key: 'secret' };
  const wrongKey = { isLocal: true, key: 'other' };

  it.each([
    ['from elsewhere', { allowed: false, key: undefined }, AWAY, false],
    ['from this machine', { allowed: false, key: undefined }, LOCAL, true],
    ['from elsewhere where all may', { allowed: true, key: undefined }, AWAY, true],
    ['with the key', { allowed: false, key }, withKey, true],
    ['with a wrong key from this machine', { allowed: false, key }, wrongKey, false],
    ['without the key from this machine', { allowed: false, key }, LOCAL, false],
  ])('%s', async (_name, rules, caller, taken) => {
    const { repository } = await told('explicit', [], rules);
    const answer = await repository.load('m', [{ name: 'config', value: '{"backend":"javascript"}' }, SCRIPT], caller);
    expect(answer.ok).toBe(taken);
    if (!answer.ok) expect(answer.error).toMatchObject({ code: 'INVALID_ARG', reason: 'code_upload' });
  });

  it.each([
    ['{"backend":"onnxruntime"}', ['1/model.onnx', 'labels.txt'], true],
    ['{"platform":"onnxruntime_onnx"}', ['1/model.onnx'], true],
    ['{"platform":"ensemble"}', ['1/none'], true],
    ['{}', ['1/model.onnx'], true],
    ['{}', [], true],
    ['{"backend":"javascript"}', [], true],
    ['{"backend":"onnxruntime"}', ['1/model.onnx', '1/custom.so'], false],
    ['{"backend":"onnxruntime"}', ['1/model.onnx', '1/custom.so.1.2'], false],
    ['{"backend":"onnxruntime"}', ['1/model.onnx', 'strategy.mjs'], false],
    ['{"backend":"onnxruntime","model_operations":{"op_library_filename":["x"]}}', [], false],
    ['{"backend":"onnxruntime","parameters":{"TRITON_BATCH_STRATEGY_PATH":{"string_value":"x"}}}', [], false],
    ['{"backend":"javascript","default_model_filename":"weights"}', ['1/weights'], false],
    ['{"backend":"python"}', ['1/model.onnx'], false],
    ['{"backend":"unheard-of"}', ['1/model.onnx'], false],
    ['{"default_model_filename":"weights"}', ['1/weights', '1/model.onnx'], false],
    ['{}', ['1/weights'], false],
    ['{}', ['1/model.py'], false],
    ['{}', ['1/model.onnx', '2/model.PY'], false],
  ])('%s with %j is code: %s', async (config, paths, taken) => {
    const { repository } = await told('explicit');
    const files = paths.map((path) => ({ name: `file:${path}`, value: bytes('x') }));
    expect((await repository.load('m.x', [{ name: 'config', value: config }, ...files], AWAY)).ok).toBe(taken);
  });
});
