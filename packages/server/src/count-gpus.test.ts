import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countGpus } from './count-gpus.ts';

let driver: string;

beforeAll(() => {
  driver = mkdtempSync(join(tmpdir(), 'nereid-gpus-'));
  for (const bus of ['0000:01:00.0', '0000:02:00.0', '0000:03:00.0']) mkdirSync(join(driver, bus));
});
afterAll(() => rmSync(driver, { recursive: true, force: true }));

test.each<[string, string | undefined, number]>([
  ['all that the driver has', undefined, 3],
  ['those that are named', '2,0', 2],
  ['those before the first that there is not', '0,7,1', 1],
  ['none for an empty list', '', 0],
  ['none for -1', '-1', 0],
  ['by their ids', 'GPU-8932f937, GPU-46309a2b', 2],
  ['a part of one', 'MIG-7a1b', 1],
  ['none where one is named twice', '1,1', 0],
])('GPUs that a process sees: %s', async (_name, visible, expected) => {
  expect(await countGpus(visible, driver)).toBe(expected);
});

test('none without a driver, whatever is named', async () => {
  expect(await countGpus('0,1', join(driver, 'missing'))).toBe(0);
});
