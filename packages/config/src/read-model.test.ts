import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FIXTURES } from './fixture-models.ts';
import { ModelInstanceGroup_Kind } from './gen/model_config_pb.ts';
import { modelVersions } from './model-folder.ts';
import { LOAD_FAILED, type ReadModelOptions, readModel } from './read-model.ts';
import { unsupportedReason } from './unsupported-reason.ts';

const OPTIONS: ReadModelOptions = { autoComplete: true, gpus: 0 };

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-model-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A copy of a fixture; `files` are written over it, and null removes one. */
function model(fixture: string | null, files: Record<string, string | null> = {}, name = fixture ?? 'm') {
  const directory = join(root, name);
  if (fixture === null) mkdirSync(directory, { recursive: true });
  else cpSync(join(FIXTURES, fixture), directory, { recursive: true });
  for (const [path, content] of Object.entries(files)) {
    if (content === null) {
      rmSync(join(directory, path));
      continue;
    }
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), content);
  }
  return { name, directory };
}

async function failure(source: { name: string; directory: string }, options = OPTIONS) {
  try {
    await readModel(source, options);
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError' });
    if (error instanceof Error) return error;
  }
  throw new Error('it was read');
}

describe('models that are right', () => {
  test.each([
    ['add_sub', ['1']],
    ['classifier', ['1']],
    ['optional_inputs', ['1']],
    ['reshaped', ['1']],
    ['simple', ['1']],
    ['versions_specific', ['1', '3']],
  ])('%s', async (name, versions) => {
    for (const autoComplete of [true, false]) {
      const source = await readModel(model(name), { ...OPTIONS, autoComplete });
      expect(source).toMatchObject({ name, versions, contentHash: expect.stringMatching(/^[0-9a-f]{64}$/) });
      expect(source.config.instanceGroup).toMatchObject([
        { name: `${name}_0`, count: 1, kind: ModelInstanceGroup_Kind.CPU },
      ]);
      expect(unsupportedReason(source.config)).toBeUndefined();
    }
  });

  test('labels by output', async () => {
    expect((await readModel(model('classifier'), OPTIONS)).labels).toEqual({
      LABELLED: ['apple', 'pear', 'plum', 'cherry'],
    });
  });

  test('labels with Windows line ends, an empty line and none at the end', async () => {
    const source = model('classifier', { 'labels.txt': 'cat\r\n\r\ndog' });
    expect((await readModel(source, OPTIONS)).labels.LABELLED).toEqual(['cat', '', 'dog']);
  });

  test('without config.pbtxt everything is completed from the graph', async () => {
    const { config } = await readModel(model('simple', { 'config.pbtxt': null }, 'other'), OPTIONS);
    expect(config).toMatchObject({ name: 'other', backend: 'onnxruntime', maxBatchSize: 4 });
    expect(config.schedulingChoice).toMatchObject({ case: 'dynamicBatching', value: { preferredBatchSize: [4] } });
    expect(config.input.map((input) => [input.name, input.dims])).toEqual([
      ['INPUT0', [16n]],
      ['INPUT1', [16n]],
    ]);
    expect(config.instanceGroup).toMatchObject([{ name: 'other', count: 2 }]);
  });

  test('scalars without config.pbtxt', async () => {
    const { config } = await readModel(model('reshaped', { 'config.pbtxt': null }), OPTIONS);
    expect(config.input[1]).toMatchObject({ dims: [1n], reshape: { shape: [] } });
  });

  test('another default for the batch size', async () => {
    const source = model('simple', { 'config.pbtxt': 'backend: "onnxruntime"' });
    expect((await readModel(source, { ...OPTIONS, defaultMaxBatchSize: 16 })).config.maxBatchSize).toBe(16);
  });

  test('an ONNX model in a folder', async () => {
    const source = model('add_sub');
    const file = join(source.directory, '1', 'model.onnx');
    renameSync(file, join(source.directory, 'file'));
    mkdirSync(file);
    renameSync(join(source.directory, 'file'), join(file, 'model.onnx'));
    expect((await readModel(source, OPTIONS)).versions).toEqual(['1']);
  });

  test('a JavaScript model', async () => {
    const text = 'output { name: "O" data_type: TYPE_INT32 dims: 1 }';
    const source = model(null, { 'config.pbtxt': text, '1/model.mjs': 'export {};' });
    const { config } = await readModel(source, OPTIONS);
    expect(config).toMatchObject({ name: 'm', backend: 'javascript', defaultModelFilename: 'model.mjs' });
  });

  test('folders that are no versions do not count', async () => {
    const source = model('add_sub', {
      '03/model.onnx': '',
      'assets/model.py': '',
      '0/model.onnx': '',
      '4913/model.onnx': '',
      'configs/x': '',
    });
    expect(await modelVersions(source.directory)).toEqual(['1']);
    expect((await readModel(source, OPTIONS)).versions).toEqual(['1']);
  });

  test('a named config goes first, and config.pbtxt where it is not there', async () => {
    const source = model('simple', { 'configs/big.pbtxt': 'max_batch_size: 64' });
    const size = async (modelConfigName: string) =>
      (await readModel(source, { ...OPTIONS, modelConfigName })).config.maxBatchSize;
    expect(await size('big')).toBe(64);
    expect(await size('small')).toBe(8);
    expect(await size('')).toBe(8);
  });

  test('models that are not served yet are read', async () => {
    const text = 'backend: "python" output { name: "O" data_type: TYPE_INT32 dims: 1 }';
    const { config } = await readModel(model(null, { 'config.pbtxt': text, '1/model.py': '' }), OPTIONS);
    expect(unsupportedReason(config)).toMatch(/python/);
  });
});

describe('models that are wrong', () => {
  const CONFIG = 'backend: "onnxruntime" ';
  const IO =
    'input { name: "INPUT0" data_type: TYPE_FP32 dims: 4 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }';
  test.each<[string, string | null, Record<string, string | null>, string | undefined, RegExp]>([
    [
      'a mistake in the config',
      'add_sub',
      { 'config.pbtxt': 'nam: 1' },
      undefined,
      /add_sub\/config\.pbtxt:1:1: unknown field "nam"/,
    ],
    [
      'another name',
      'add_sub',
      { 'config.pbtxt': 'name: "x"' },
      undefined,
      /unexpected directory name 'add_sub' for model 'x'/,
    ],
    ['no backend', null, { '1/x': '' }, undefined, /Could not determine backend for model 'm'/],
    ['an empty folder', null, { x: '' }, undefined, /Could not determine backend for model 'm'/],
    [
      'no version',
      null,
      { 'config.pbtxt': CONFIG },
      LOAD_FAILED,
      /^at least one version must be available under the version policy of model 'm'; it has no version folder$/,
    ],
    [
      'a version that is not there',
      'add_sub',
      { 'config.pbtxt': `${CONFIG} version_policy { specific { versions: 7 } }` },
      LOAD_FAILED,
      /^at least one version must be available under the version policy of model 'add_sub'; it has version 1 \(.*\/add_sub\/config\.pbtxt:1:25\)$/,
    ],
    [
      'no versions asked for',
      'add_sub',
      { 'config.pbtxt': `${CONFIG} version_policy { latest { } }` },
      LOAD_FAILED,
      /^at least one version must be available/,
    ],
    [
      'no model file',
      null,
      { 'config.pbtxt': CONFIG, '1/other.onnx': '' },
      LOAD_FAILED,
      /^unable to find '.*\/m\/1\/model\.onnx' for model 'm' version 1$/,
    ],
    [
      'a model file outside its folder',
      'add_sub',
      { 'config.pbtxt': `${CONFIG} default_model_filename: "../../x"` },
      LOAD_FAILED,
      /^default_model_filename '\.\.\/\.\.\/x' must name a file inside/,
    ],
    [
      'an instance group without its GPU',
      'add_sub',
      { 'config.pbtxt': 'backend: "onnxruntime" instance_group { kind: KIND_GPU }' },
      LOAD_FAILED,
      /^instance group add_sub_0 of model add_sub has kind KIND_GPU but no GPUs are available/,
    ],
    ['a corrupt model', 'add_sub', { '1/model.onnx': 'no model' }, LOAD_FAILED, /model\.onnx' is corrupt or cut short/],
    ['an empty model', 'add_sub', { '1/model.onnx': '' }, LOAD_FAILED, /model\.onnx' is no ONNX model/],
    [
      'a graph that does not fit',
      'add_sub',
      { 'config.pbtxt': CONFIG + IO },
      LOAD_FAILED,
      /configuration expects 1 inputs, model provides 2/,
    ],
    [
      'an older version that does not fit',
      'versions_specific',
      { '1/model.onnx': 'x' },
      LOAD_FAILED,
      /versions_specific\/1\/model\.onnx'/,
    ],
    [
      'a batch size that the graph does not take',
      'add_sub',
      { 'config.pbtxt': `${CONFIG} max_batch_size: 4` },
      LOAD_FAILED,
      /^autofill failed for model 'add_sub': model does not support batching/,
    ],
    [
      'no label file',
      'classifier',
      { 'labels.txt': null },
      LOAD_FAILED,
      /^failed to open text file for read .*\/classifier\/labels\.txt: No such file or directory \(.*\/config\.pbtxt:8:74\)$/,
    ],
    [
      'a JavaScript model without outputs',
      null,
      { '1/model.mjs': '' },
      LOAD_FAILED,
      /^model 'm' must specify its 'output' in config\.pbtxt$/,
    ],
    [
      'an incomplete input',
      'add_sub',
      { 'config.pbtxt': `${CONFIG} input { name: "INPUT0" }` },
      LOAD_FAILED,
      /^model input 'INPUT0' must specify 'data_type' for add_sub \(.*\/add_sub\/config\.pbtxt:1:25\)$/,
    ],
  ])('%s', async (_name, fixture, files, reason, text) => {
    const error = await failure(model(fixture, files));
    expect(error.message).toMatch(text);
    expect(error).toMatchObject({ reason });
  });

  test('no config where none is to be completed', async () => {
    const source = model('add_sub', { 'config.pbtxt': null });
    const error = await failure(source, { ...OPTIONS, autoComplete: false });
    expect(error.message).toMatch(/^failed to open text file for read .*\/config\.pbtxt: No such file or directory$/);
  });

  test('an input that is missing is not completed where nothing is', async () => {
    const source = model('add_sub', {
      'config.pbtxt': 'backend: "onnxruntime" output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 4 }',
    });
    const error = await failure(source, { ...OPTIONS, autoComplete: false });
    expect(error.message).toMatch(/configuration expects 0 inputs, model provides 2/);
  });

  test('no folder', async () => {
    const error = await failure({ name: 'm', directory: join(root, 'nowhere') });
    expect(error.message).toMatch(/^the model directory '.*nowhere' cannot be read: ENOENT/);
  });

  test('a circle of links', async () => {
    const source = model('add_sub');
    symlinkSync(join(source.directory, '1'), join(source.directory, '1', 'again'));
    expect((await failure(source)).message).toMatch(/is more than 16 folders deep/);
  });

  // Opening one waits for a writer, who never comes.
  test.each(['config.pbtxt', 'labels.txt', '1/model.onnx', '1/other'])('a named pipe as %s', async (file) => {
    const source = model('classifier');
    rmSync(join(source.directory, file), { force: true });
    execFileSync('mkfifo', [join(source.directory, file)]);
    expect((await failure(source)).message).toContain(`${file}' is not a regular file`);
  });

  test('a named config outside the folder', async () => {
    const error = await failure(model('add_sub'), { ...OPTIONS, modelConfigName: '../../x' });
    expect(error.message).toMatch(/^--model-config-name 'configs\/\.\.\/\.\.\/x\.pbtxt' must name a file inside/);
  });
});

describe('content hash', () => {
  const hash = async (source: { name: string; directory: string }) => (await readModel(source, OPTIONS)).contentHash;

  test('is the same for a copy elsewhere, whatever its times', async () => {
    const first = await hash(model('versions_specific'));
    const source = model('versions_specific', {}, 'elsewhere/versions_specific');
    utimesSync(join(source.directory, '1', 'model.onnx'), 1, 1);
    expect(await hash({ ...source, name: 'versions_specific' })).toBe(first);
  });

  test.each<[string, Record<string, string>, boolean]>([
    ['the config', { 'config.pbtxt': 'version_policy { specific { versions: [ 1, 3 ] } }\n' }, true],
    ['a file beside a selected model', { '3/weights.bin': 'x' }, true],
    ['a nested file', { '3/deep/er': '' }, true],
    ['a version that is not selected', { '2/model.onnx': 'x' }, false],
    ['a file beside the config', { 'README.md': 'x' }, false],
    ['what an editor leaves in a version', { '3/.weights.swp': 'x', '3/weights~': 'x', '3/4913': '' }, false],
    ['a folder whose name begins with a dot', { '3/.git/HEAD': 'x' }, false],
  ])('%s counts or not', async (_name, files, counts) => {
    const before = await hash(model('versions_specific'));
    const after = await hash(model('versions_specific', files));
    expect(after !== before).toBe(counts);
  });

  test('labels count', async () => {
    const before = await hash(model('classifier'));
    expect(await hash(model('classifier', { 'labels.txt': 'a\nb\n' }))).not.toBe(before);
  });

  test('moving bytes from one file to the next changes it', async () => {
    const one = await hash(model('add_sub', { '1/a': 'xy', '1/b': '' }));
    expect(await hash(model('add_sub', { '1/a': 'x', '1/b': 'y' }))).not.toBe(one);
  });
});
