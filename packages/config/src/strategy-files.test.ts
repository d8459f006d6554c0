import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseModelConfig } from './parse-model-config.ts';
import { readModel } from './read-model.ts';
import { strategyFiles } from './strategy-files.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-strategy-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(...files: readonly string[]): void {
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), 'export const execute = () => [];');
  }
}
const parameter = (path: string) =>
  `parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "${path}" } }`;
const CONFIG = `name: "m" backend: "javascript" max_batch_size: 8
  input { name: "I" data_type: TYPE_FP32 dims: 1 } output { name: "O" data_type: TYPE_FP32 dims: 1 }`;
const find = (config: string) => strategyFiles(parseModelConfig(`${CONFIG} ${config}`, 'c'), folder, ['1', '2']);

describe('a batching strategy', () => {
  test.each([
    ['of the model', ['strategy.mjs'], '', { 1: 'strategy.mjs', 2: 'strategy.mjs' }],
    ['of a version', ['2/strategy.mjs'], '', { 2: '2/strategy.mjs' }],
    [
      'of a version, before the model’s',
      ['strategy.mjs', '1/strategy.mjs'],
      '',
      { 1: '1/strategy.mjs', 2: 'strategy.mjs' },
    ],
    [
      'of the parameter, before all',
      ['strategy.mjs', 'a/other.js'],
      parameter('./a/other.js'),
      { 1: 'a/other.js', 2: 'a/other.js' },
    ],
    [
      'of the model, whatever library there is',
      ['strategy.mjs', '1/batchstrategy.so'],
      '',
      { 1: 'strategy.mjs', 2: 'strategy.mjs' },
    ],
    ['there is none', ['other.mjs'], '', {}],
  ])('%s', async (_, files, config, found) => {
    write(...files);
    expect(await find(`dynamic_batching { } ${config}`)).toEqual({ files: found, unused: undefined });
  });

  test.each([
    ['a library', ['x.so'], parameter('/opt/x.so'), "'/opt/x.so' is no JavaScript module (.mjs or .js)"],
    ['a library beside the model', ['batchstrategy.so'], '', "'batchstrategy.so' is no JavaScript module"],
    ['a library beside a version', ['2/batchstrategy.so'], '', "'2/batchstrategy.so' is no JavaScript module"],
    ['what is not there', [], parameter('none.mjs'), "none.mjs'. Write it as a module, strategy.mjs in the folder"],
  ])('that is refused: %s', async (_, files, config, why) => {
    write(...files);
    const refused = find(`dynamic_batching { } ${config}`);
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARG' });
    await expect(refused).rejects.toThrow(why);
  });

  test.each(['../m.mjs', '/etc/m.mjs'])('outside the model’s folder is refused: %s', async (path) => {
    await expect(find(`dynamic_batching { } ${parameter(path)}`)).rejects.toThrow(
      `must name a file inside '${folder}'`,
    );
  });

  test.each([
    ['a module', ['strategy.mjs'], '', 'strategy.mjs'],
    ['a library', ['batchstrategy.so'], '', 'batchstrategy.so'],
    ['a parameter', [], parameter('x.so'), 'x.so'],
  ])('has no effect without dynamic batching, which is told: %s', async (_, files, config, named) => {
    write(...files);
    const unused = `the batching strategy '${named}' of model 'm' has no effect without dynamic_batching`;
    expect(await find(config)).toEqual({ files: {}, unused });
  });

  test('that has changed makes the model another one', async () => {
    write('strategy.mjs', '1/model.mjs');
    writeFileSync(join(folder, 'config.pbtxt'), `${CONFIG} dynamic_batching { }`);
    const read = () => readModel({ name: 'm', directory: folder }, { autoComplete: true, gpus: 0 });
    const before = await read();
    expect(before.strategies).toEqual({ 1: 'strategy.mjs' });
    writeFileSync(join(folder, 'strategy.mjs'), 'export const include = () => true;');
    expect((await read()).contentHash).not.toBe(before.contentHash);
  });
});
