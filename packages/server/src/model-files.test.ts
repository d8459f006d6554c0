import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLifecycle, systemClock } from '@nereid/runtime';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { addModelFiles } from './model-files.ts';
import type { ServerOptions } from './server-options.ts';

const SIMPLE = join(import.meta.dirname, '../../../test/conformance/repo/onnx/simple/1/model.onnx');

const lifecycle = createLifecycle();
const shared = { clock: systemClock() };
let repository = '';
beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-files-'));
});
afterAll(() => lifecycle.stop());
afterEach(async () => {
  await rm(repository, { recursive: true, force: true });
});

function files(options: Partial<ServerOptions>, runCode = true) {
  const all = { modelRepositories: [repository], ...options };
  return addModelFiles({ lifecycle, shared }, all, { gpus: 0, shared: true, runCode });
}

test.each([
  ['the default', {}, 4],
  ['of all backends', { '': { 'default-max-batch-size': '8' } }, 8],
  [
    'of the backend, before that of all',
    { '': { 'default-max-batch-size': '8' }, onnxruntime: { 'default-max-batch-size': '16' } },
    16,
  ],
  ['of another backend', { python: { 'default-max-batch-size': '16' } }, 4],
])('default-max-batch-size: %s', async (_name, backendConfig, expected) => {
  await mkdir(join(repository, 'simple', '1'), { recursive: true });
  await cp(SIMPLE, join(repository, 'simple', '1', 'model.onnx'));
  const { config } = await (await files({ backendConfig })).read('simple');
  expect(config).toMatchObject({
    maxBatchSize: expected,
    schedulingChoice: { case: 'dynamicBatching', value: { preferredBatchSize: [expected] } },
  });
});

test('a default-max-batch-size that is none', async () => {
  await expect(files({ backendConfig: { '': { 'default-max-batch-size': 'x' } } })).rejects.toThrow(
    /default-max-batch-size must be a whole number above 0, not 'x'/,
  );
});

test('models complete their configurations where they may run code, and nowhere else', async () => {
  await mkdir(join(repository, 'self', '1'), { recursive: true });
  const completed = "{ ...config, output: [{ name: 'O', data_type: 'TYPE_INT32', dims: [1] }] }";
  await writeFile(
    join(repository, 'self', '1', 'model.mjs'),
    `export const autoComplete = (config) => (${completed});`,
  );
  const [run, left] = [await (await files({})).read('self'), await (await files({}, false)).read('self')];
  expect([run.config.output.length, left.config.output.length]).toEqual([1, 0]);
  expect(left.contentHash).toBe(run.contentHash);
  await expect((await files({ autoCompleteConfig: false })).read('self')).rejects.toThrow(/config\.pbtxt/);
});
