import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeBytesElements } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkInitialStates, initialStateFiles } from './initial-state-files.ts';
import { LIMITS } from './limits.ts';
import { parseModelConfig } from './parse-model-config.ts';

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nereid-states-'));
  mkdirSync(join(directory, 'initial_state'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const config = (type: string, dims: number[], file: string) =>
  parseModelConfig(
    `name: "m" max_batch_size: 4 sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_${type}
    dims: [ ${dims} ] initial_state { name: "i" data_type: TYPE_${type} dims: [ ${dims} ] data_file: "${file}" } } }`,
    'c',
  );
const put = (bytes: Uint8Array) => writeFileSync(join(directory, 'initial_state', 'f'), bytes);

describe('a file of an initial state', () => {
  test.each([
    ['INT32', [2, 3], new Uint8Array(24)],
    ['STRING', [2], encodeBytesElements(['', 'longer'])],
  ])('of %s holds what its dims %j say', async (type, dims, bytes) => {
    put(bytes);
    await expect(checkInitialStates(config(type, dims, 'f'), directory)).resolves.toBeUndefined();
    expect(initialStateFiles(config(type, dims, 'f'))).toEqual([join('initial_state', 'f')]);
  });

  test.each([
    ['too short', 'INT32', new Uint8Array(20), 'expects 24 bytes, but the data provided from f only has 20 bytes.'],
    ['too long', 'INT32', new Uint8Array(28), 'expects 24 bytes, but the data provided from f has 28 bytes.'],
    [
      'of other elements',
      'STRING',
      encodeBytesElements(['a']),
      'expects 6 elements, but the data provided from f has 1.',
    ],
  ])('that is %s is refused', async (_what, type, bytes, text) => {
    put(bytes);
    await expect(checkInitialStates(config(type, [2, 3], 'f'), directory)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: `initial_state setting ${text}`,
      field: 'sequence_batching.state[0].initial_state[0].data_file',
    });
  });

  test('that is missing, or outside its folder, is refused', async () => {
    const missing = join(directory, 'initial_state', 'none');
    await expect(checkInitialStates(config('INT32', [1], 'none'), directory)).rejects.toMatchObject({
      message: `failed to open text file for read ${missing}: No such file or directory`,
    });
    await expect(checkInitialStates(config('INT32', [1], '../f'), directory)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(/^data_file '..\/f' must name a file inside/),
    });
  });
});

describe('states that are too large to be kept are refused', () => {
  const TOO_LARGE = {
    code: 'INVALID_ARG',
    field: 'sequence_batching.state',
    message: expect.stringMatching(/^the initial states of/),
  };

  // An empty text takes four bytes, for its length.
  test.each(['FP32', 'STRING'])('of %s', async (type) => {
    const dims = LIMITS.initial_state_bytes_max / 4 + 1;
    const large = parseModelConfig(
      `sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_${type} dims: ${dims} } }`,
      'c',
    );
    await expect(checkInitialStates(large, directory)).rejects.toMatchObject(TOO_LARGE);
  });

  test('of a file with texts, which is not read', async () => {
    put(new Uint8Array());
    truncateSync(join(directory, 'initial_state', 'f'), LIMITS.initial_state_bytes_max + 1);
    await expect(checkInitialStates(config('STRING', [1], 'f'), directory)).rejects.toMatchObject(TOO_LARGE);
  });
});
