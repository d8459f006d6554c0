import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { autoCompleteJavascript, mayAutoComplete } from './auto-complete-javascript.ts';
import { completeModelConfig } from './complete-model-config.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { inspectModel, readModel } from './read-model.ts';

const OUTPUT = `{ name: 'OUT', data_type: 'TYPE_INT32', dims: [-1] }`;

let root = '';
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-complete-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

let written = 0;
function module(text: string): string {
  const path = join(root, `${written++}.mjs`);
  writeFileSync(path, text);
  return path;
}

function config(text = '') {
  const files = [{ name: 'model.mjs', directory: false }];
  return completeModelConfig(parseModelConfig(text, 'c'), { name: 'm', files, gpus: 0 });
}

const body = (text: string) => module(`export const autoComplete = async (config) => { ${text} };`);

describe('completed', () => {
  test('by what is returned', async () => {
    const path = body(`return { ...config, max_batch_size: 8, output: [${OUTPUT}], dynamic_batching: {} };`);
    expect(await autoCompleteJavascript(config(), path)).toMatchObject({
      maxBatchSize: 8,
      output: [{ name: 'OUT', dims: [-1n] }],
      schedulingChoice: { case: 'dynamicBatching' },
    });
  });

  test('in place', async () => {
    expect(await autoCompleteJavascript(config(), body(`config.output.push(${OUTPUT});`))).toMatchObject({
      output: [{ name: 'OUT' }],
    });
  });

  test('without a loss of large integers, also those that are left alone', async () => {
    const given = config(
      'version_policy { specific { versions: 9007199254740993 } } dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }',
    );
    const completed = await autoCompleteJavascript(given, body('config.input.push({ name: "I", dims: [2n ** 60n] });'));
    expect(completed).toMatchObject({
      versionPolicy: given.versionPolicy,
      schedulingChoice: { value: { maxQueueDelayMicroseconds: 18446744073709551615n } },
      input: [{ dims: [2n ** 60n] }],
    });
  });

  test('not where there is no such export', async () => {
    const given = config();
    expect(await autoCompleteJavascript(given, module('export {}; // autoComplete'))).toBe(given);
  });
});

describe('refused', () => {
  test.each([
    ['a module that cannot be imported', 'import "./nowhere.mjs";', /it cannot be imported: .*nowhere/],
    ['an export that is no function', 'export const autoComplete = 1;', /its export autoComplete is no function/],
    ['an exception', 'export function autoComplete() { throw new Error("bad day"); }', /autoComplete failed: bad day/],
    ['a rejection that is no error', 'export const autoComplete = () => Promise.reject(7);', /autoComplete failed: 7/],
    [
      'an end of the process',
      'export const autoComplete = () => process.exit(3);',
      /its thread ended without an answer/,
    ],
    ['nothing to wait for', 'export const autoComplete = () => new Promise(() => {});', /ended without an answer/],
    ['a loop', 'export function autoComplete() { for (;;); }', /it took more than 300 ms/],
    ['a circle', 'export const autoComplete = (c) => { c.c = c; };', /what autoComplete returned is no configuration/],
    [
      'a typing error',
      'export const autoComplete = (c) => ({ ...c, outputs: [] });',
      /unknown field "outputs" in ModelConfig; did you mean "output"\?/,
    ],
    ['no object', 'export const autoComplete = () => "yes";', /expected an object, got a text/],
    [
      'another name',
      'export const autoComplete = (c) => ({ ...c, name: "n" });',
      /autoComplete must not change 'name'/,
    ],
    ['another backend', 'export const autoComplete = (c) => ({ ...c, backend: "x" });', /must not change 'backend'/],
    [
      'other versions',
      'export const autoComplete = (c) => ({ ...c, version_policy: { all: {} } });',
      /must not change 'version_policy'/,
    ],
  ])('%s', async (_name, text, expected) => {
    // Only the loop has to wait for it.
    const timeoutMs = text.includes('for (;;)') ? 300 : undefined;
    await expect(autoCompleteJavascript(config(), module(text), timeoutMs)).rejects.toThrow(
      expect.objectContaining({ name: 'NereidError', code: 'INVALID_ARG', message: expect.stringMatching(expected) }),
    );
  });
});

test.each([
  ['export function autoComplete() {}', true],
  ['export { a as autoComplete } from "./a.mjs"', true],
  ['export * from "./a.mjs"', true],
  ['export const execute = () => [];', false],
])('a thread is started for %s: %s', async (text, expected) => {
  expect(await mayAutoComplete(module(text))).toBe(expected);
});

describe('a model', () => {
  function model(name: string, text: string, pbtxt = '') {
    const directory = join(root, name);
    mkdirSync(join(directory, '1'), { recursive: true });
    writeFileSync(join(directory, '1', 'model.mjs'), `export const autoComplete = (config) => { ${text} };`);
    writeFileSync(join(directory, 'config.pbtxt'), pbtxt);
    writeFileSync(join(directory, 'labels.txt'), 'one\n');
    return { name, directory };
  }
  const options = { autoComplete: true, gpus: 0 };

  test('is completed, normalised and checked, and its hash is that of who does not run it', async () => {
    const place = model(
      'right',
      `config.max_batch_size = 4; config.dynamic_batching = {}; config.output.push({ ...${OUTPUT}, label_filename: 'labels.txt' });`,
    );
    const source = await readModel(place, { ...options, runCode: true });
    expect(source.config).toMatchObject({
      schedulingChoice: { case: 'dynamicBatching', value: { preferredBatchSize: [4] } },
    });
    expect(source.labels).toEqual({ OUT: ['one'] });
    expect((await readModel(place, options)).contentHash).toBe(source.contentHash);
  });

  test('fails its load by what is wrong with the result', async () => {
    const place = model('wrong', `config.output.push({ name: 'OUT', data_type: 'TYPE_INT32', dims: [0] });`);
    await expect(readModel(place, { ...options, runCode: true })).rejects.toThrow(
      /model output 'OUT' dimension must be/,
    );
  });

  test('is not run where configs are not to be completed', async () => {
    const place = model(
      'strict',
      'throw new Error("run");',
      'backend: "javascript" output { name: "O" data_type: TYPE_INT32 dims: 1 }',
    );
    expect((await readModel(place, { ...options, autoComplete: false, runCode: true })).config.output.length).toBe(1);
  });

  test('that is not run is told to be unchecked', async () => {
    const { findings } = await inspectModel(model('open', 'throw new Error("run");'), options);
    expect(findings).toMatchObject([
      { level: 'warning', message: expect.stringMatching(/^not checked: inputs, outputs/) },
    ]);
  });
});
