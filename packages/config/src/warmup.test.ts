import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseModelConfig } from './parse-model-config.ts';
import { LOAD_FAILED, readModel } from './read-model.ts';
import { checkWarmup, warmupFiles, warmupSamples } from './warmup.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-warmup-'));
  mkdirSync(join(folder, 'warmup', 'sub'), { recursive: true });
  mkdirSync(join(folder, '1'));
  const write = (name: string, bytes: number | string) =>
    writeFileSync(join(folder, 'warmup', name), typeof bytes === 'string' ? bytes : Buffer.alloc(bytes));
  write('16', 16);
  write('12', 12);
  write('20', 20);
  write('sub/16', 16);
  write('texts', '\x03\0\0\0abc\0\0\0\0');
  writeFileSync(join(folder, '1', 'model.mjs'), 'export const execute = () => [];');
  writeFileSync(join(folder, 'outside'), Buffer.alloc(16));
});
afterAll(() => rmSync(folder, { recursive: true }));

const INPUT = 'input { name: "IN" data_type: TYPE_FP32 dims: 4 }';
const TEXTS = 'input { name: "IN" data_type: TYPE_STRING dims: 2 }';
const OPTIONAL = `${INPUT} input { name: "MORE" data_type: TYPE_FP32 dims: 4 optional: true }`;

const text = (inputs: string, warmup: string, max = 8) =>
  `name: "m" backend: "javascript" max_batch_size: ${max} ${inputs}
   output { name: "OUT" data_type: TYPE_FP32 dims: 4 } ${warmup}`;
const config = (...parts: Parameters<typeof text>) => parseModelConfig(text(...parts), 'config.pbtxt');
const input = (name: string, type: string, dims: string, source: string) =>
  `inputs { key: "${name}" value { data_type: TYPE_${type} dims: [${dims}] ${source} } }`;
const sample = (inputs: string, more = 'batch_size: 1') => `model_warmup { name: "s" ${more} ${inputs} }`;
const ZERO = input('IN', 'FP32', '4', 'zero_data: true');
const file = (name: string, type = 'FP32', dims = '4') => input('IN', type, dims, `input_data_file: "${name}"`);

describe('samples', () => {
  test('are what instances run', () => {
    const warmup = `${sample(ZERO, 'batch_size: 3 count: 2')} model_warmup { batch_size: 1 ${input('IN', 'STRING', '2, 0', 'random_data: true')} }`;
    expect(warmupSamples(config(INPUT, warmup))).toEqual([
      {
        name: 's',
        batchSize: 3,
        count: 2,
        inputs: [{ name: 'IN', datatype: 'FP32', shape: [1, 4], bytes: { kind: 'zero' } }],
      },
      {
        name: '',
        batchSize: 1,
        count: 1,
        inputs: [{ name: 'IN', datatype: 'BYTES', shape: [1, 2, 0], bytes: { kind: 'random' } }],
      },
    ]);
  });

  test('of batch size 0 are none', () => {
    expect(warmupSamples(config(INPUT, sample('', 'batch_size: 0 count: 3')))).toEqual([]);
  });

  test('have no batch dimension where the model has none', () => {
    expect(warmupSamples(config(INPUT, sample(file('16')), 0))[0]?.inputs).toEqual([
      { name: 'IN', datatype: 'FP32', shape: [4], bytes: { kind: 'file', file: '16' } },
    ]);
  });

  test('name their files', () => {
    expect(warmupFiles(config(INPUT, sample(file('sub/16')) + sample(file('sub/16')) + sample(ZERO)))).toEqual([
      'warmup/sub/16',
    ]);
  });
});

describe('a sample that is right', () => {
  test.each([
    ['zeros', INPUT, sample(ZERO)],
    ['random data', INPUT, sample(input('IN', 'FP32', '4', 'random_data: true'))],
    ['a batch as large as the model takes', INPUT, sample(ZERO, 'batch_size: 8')],
    ['a file', INPUT, sample(file('16'))],
    ['a file in a folder below', INPUT, sample(file('sub/16'))],
    ['texts of a file', TEXTS, sample(file('texts', 'STRING', '2'))],
    ['no optional input', OPTIONAL, sample(ZERO)],
    ['inputs that a skipped one lacks', INPUT, sample('', 'batch_size: 0')],
  ])('%s', async (_, inputs, warmup) => {
    await checkWarmup(config(inputs, warmup), folder);
  });
});

describe('a sample that is refused', () => {
  test.each([
    [
      'an unknown input',
      INPUT,
      sample(ZERO + input('X', 'FP32', '4', 'zero_data: true')),
      'expected 1 inputs but got 2',
    ],
    ['another name', INPUT, sample(input('X', 'FP32', '4', 'zero_data: true')), "unexpected inference input 'X'"],
    ['a missing input', INPUT, sample(''), "but missing required input(s) ['IN']"],
    [
      'another datatype',
      INPUT,
      sample(input('IN', 'INT32', '4', 'zero_data: true')),
      "data-type is 'INT32', but model",
    ],
    [
      'no datatype',
      INPUT,
      sample('inputs { key: "IN" value { dims: 4 zero_data: true } }'),
      "must specify 'data_type'",
    ],
    ['other dims', INPUT, sample(input('IN', 'FP32', '5', 'zero_data: true')), 'Expected [-1,4], got [1,5]'],
    ['another rank', INPUT, sample(input('IN', 'FP32', '2, 2', 'zero_data: true')), 'Expected [-1,4], got [1,2,2]'],
    ['a variable dim', INPUT, sample(input('IN', 'FP32', '-1', 'zero_data: true')), 'all variable-size dimensions are'],
    ['no data', INPUT, sample(input('IN', 'FP32', '4', '')), "expects input 'IN' to have input_data_type set"],
    ['a batch too large', INPUT, sample(ZERO, 'batch_size: 9'), "batch_size must be <= 8 for 'm', got 9"],
    [
      'too many bytes',
      INPUT,
      sample(input('IN', 'FP32', '300000000', 'zero_data: true')),
      'more than 1073741824 bytes',
    ],
    [
      'dims that overflow',
      TEXTS,
      sample(input('IN', 'STRING', '9000000000000000, 9000000000000000', 'zero_data: true')),
      'more than 1073741824 bytes',
    ],
    ['no file', INPUT, sample(file('none')), 'warmup/none: No such file or directory'],
    ['a folder for a file', INPUT, sample(file('sub')), "warmup/sub' is not a regular file"],
    ['a file outside', INPUT, sample(file('../outside')), "input_data_file '../outside' must name a file inside"],
    ['an absolute name', INPUT, sample(file('/16')), "input_data_file '/16' must name a file inside"],
    [
      'a file too small',
      INPUT,
      sample(file('12')),
      'warmup setting expects 16 bytes, but the data provided from 12 only has 12 bytes',
    ],
    ['a file too large', INPUT, sample(file('20')), 'expects 16 bytes, but the data provided from 20 has 20 bytes'],
    ['too few texts', TEXTS.replace('2', '3'), sample(file('texts', 'STRING', '3')), 'expected 3 string elements'],
    [
      'too many texts',
      TEXTS.replace('2', '1'),
      sample(file('texts', 'STRING', '1')),
      'unexpected number of string elements 2',
    ],
  ])('for %s', async (_, inputs, warmup, why) => {
    const given = config(inputs, warmup);
    await expect(checkWarmup(given, folder)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(/^warmup sample 's' of model 'm' cannot be run: /),
    });
    await expect(checkWarmup(given, folder)).rejects.toThrow(why);
  });

  test('for a batch of a model that does not batch', async () => {
    await expect(checkWarmup(config(INPUT, sample(ZERO, 'batch_size: 2'), 0), folder)).rejects.toThrow(
      "batch_size must be <= 1 for 'm', got 2",
    );
  });
});

describe('a model that is read', () => {
  const read = async (warmup: string) => {
    writeFileSync(join(folder, 'config.pbtxt'), text(INPUT, warmup));
    return readModel({ name: 'm', directory: folder }, { autoComplete: true, gpus: 0 });
  };

  test('fails to load for a wrong sample', async () => {
    await expect(read(sample(file('12')))).rejects.toMatchObject({ code: 'INVALID_ARG', reason: LOAD_FAILED });
  });

  test('is another one once a warm-up file has changed', async () => {
    const before = (await read(sample(file('16')))).contentHash;
    writeFileSync(join(folder, 'warmup', '16'), Buffer.alloc(16, 1));
    expect((await read(sample(file('16')))).contentHash).not.toBe(before);
  });
});
