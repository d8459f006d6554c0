import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelSignature, parseModelConfig } from '@nereid/config';
import { encodeBytesElements } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkGrowable, loadInitialStates } from './initial-states.ts';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nereid-initial-'));
  mkdirSync(join(directory, 'initial_state'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const signature = (state: string, rest = 'max_batch_size: 4') =>
  modelSignature(parseModelConfig(`name: "m" ${rest} sequence_batching { state { ${state} } }`, 'c'));
const names = 'input_name: "S" output_name: "T"';
const fromFile = (type: string, dims: string) =>
  `${names} data_type: TYPE_${type} dims: ${dims} initial_state { name: "i" data_type: TYPE_${type} dims: 2 data_file: "f" }`;
const put = (bytes: Uint8Array) => writeFileSync(join(directory, 'initial_state', 'f'), bytes);
const load = async (...given: Parameters<typeof signature>) => {
  const states = await loadInitialStates(signature(...given), directory);
  return states.map(({ shape, data }) => [shape, [...data]]);
};

describe('a state begins', () => {
  test('as zeros, variable dimensions as 1', async () => {
    expect(await load(`${names} data_type: TYPE_INT16 dims: [ -1, 2 ]`)).toEqual([
      [
        [1, 1, 2],
        [0, 0, 0, 0],
      ],
    ]);
  });
  test('without a dimension for rows where the model does not batch', async () => {
    expect(await load(`${names} data_type: TYPE_UINT8 dims: 3`, '')).toEqual([[[3], [0, 0, 0]]]);
  });
  test('as empty texts', async () => {
    expect(await load(`${names} data_type: TYPE_STRING dims: 2`)).toEqual([
      [
        [1, 2],
        [0, 0, 0, 0, 0, 0, 0, 0],
      ],
    ]);
  });
  test('as a file, in the shape that goes with it', async () => {
    put(Uint8Array.of(1, 2, 3, 4));
    expect(await load(fromFile('INT16', '-1'))).toEqual([
      [
        [1, 2],
        [1, 2, 3, 4],
      ],
    ]);
    const texts = encodeBytesElements(['a', '']);
    put(texts);
    expect(await load(fromFile('STRING', '2'))).toEqual([[[1, 2], [...texts]]]);
  });

  test('not as a file that is not what its dims say, or not there', async () => {
    await expect(load(fromFile('INT16', '2'))).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(/^the initial state of 'S' cannot be used: ENOENT/),
    });
    put(Uint8Array.of(1, 2, 3));
    await expect(load(fromFile('INT16', '2'))).rejects.toThrow(/it takes 4 bytes and '.*' has 3$/);
    await expect(load(fromFile('STRING', '2'))).rejects.toMatchObject({ code: 'INVALID_ARG' });
    put(encodeBytesElements(['a']));
    await expect(load(fromFile('STRING', '2'))).rejects.toThrow(/it takes 2 elements and '.*' has 1$/);
  });
});

test('a state may grow in memory of a GPU only', () => {
  const growing = signature(`${names} data_type: TYPE_FP32 dims: -1 use_growable_memory: true`);
  expect(() => checkGrowable(growing, { kind: 'gpu', id: 0 })).not.toThrow();
  expect(() => checkGrowable(growing, { kind: 'cpu', id: 0 })).toThrow(/KIND_GPU model instances right now.* 'S'\.$/);
  expect(() =>
    checkGrowable(signature(`${names} data_type: TYPE_FP32 dims: -1`), { kind: 'cpu', id: 0 }),
  ).not.toThrow();
});
