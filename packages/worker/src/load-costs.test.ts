import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseModelConfig } from '@nereid/config';
import { afterAll, describe, expect, test } from 'vitest';
import { createLoadCosts } from './load-costs.ts';

const MIB = 1024 * 1024;
const directory = mkdtempSync(join(tmpdir(), 'nereid-costs-'));
mkdirSync(join(directory, '1', 'more'), { recursive: true });
writeFileSync(join(directory, '1', 'model.onnx'), Buffer.alloc(1000));
writeFileSync(join(directory, '1', 'more', 'weights'), Buffer.alloc(500));
afterAll(() => rmSync(directory, { recursive: true }));

const config = (groups: string) =>
  parseModelConfig(`name: "m" backend: "onnxruntime" instance_group ${groups}`, 'config.pbtxt');
const files = (groups = '{ name: "g" count: 1 kind: KIND_CPU }') => ({
  model: 'm',
  config: config(groups),
  versions: ['1'],
  contentHash: 'a',
});

/** Loads of a model, each with what the process grows by. */
function process(bound?: number) {
  let resident = 100 * MIB;
  const costs = createLoadCosts(() => resident, bound);
  return {
    costs,
    load(grows: number, thought = 1500, disturbed = false) {
      const start = costs.begin();
      resident += grows;
      if (disturbed) costs.disturb();
      costs.measure(files(), start, thought);
    },
    cpu: async () => (await costs.of(files(), directory)).get('1')?.cpu,
  };
}

describe('what a load takes', () => {
  test('is what its files have, for each instance on its device', async () => {
    const { costs } = process();
    const groups = '[ { name: "g" count: 2 kind: KIND_CPU }, { name: "h" count: 1 kind: KIND_GPU gpus: [ 0, 1 ] } ]';
    expect(await costs.of(files(groups), directory)).toEqual(new Map([['1', { cpu: 3000, gpu0: 1500, gpu1: 1500 }]]));
  });

  test('of other instances beside those that go on is what they take alone', async () => {
    const { costs } = process();
    const grownFrom = config('{ name: "g" count: 2 kind: KIND_CPU }');
    const grown = { ...files('{ name: "g" count: 3 kind: KIND_CPU }'), grownFrom };
    expect(await costs.of(grown, directory)).toEqual(new Map([['1', { cpu: 1500 }]]));
    expect(await costs.of({ ...files(), grownFrom }, directory)).toEqual(new Map([['1', { cpu: 0 }]]));
  });

  test('is more once two loads in a row have shown it, of which the first brings the backend', async () => {
    const { load, cpu } = process();
    load(500 * MIB);
    load(300 * MIB);
    expect(await cpu()).toBe(1500);
    load(200 * MIB);
    expect(await cpu()).toBe(200 * MIB);
    load(250 * MIB);
    expect(await cpu()).toBe(200 * MIB);
    // It does not any more.
    load(MIB);
    expect(await cpu()).toBe(1500);
  });

  test('is not taken from a time in which something else began or ended', async () => {
    const { load, cpu } = process();
    load(MIB);
    load(300 * MIB, 1500, true);
    load(300 * MIB, 1500, true);
    expect(await cpu()).toBe(1500);
  });

  test('makes no model too large for its worker that by its files is not', async () => {
    const { load, cpu } = process(150 * MIB);
    for (let n = 0; n < 3; n++) load(300 * MIB);
    expect(await cpu()).toBe(150 * MIB);
    const small = process(1000);
    for (let n = 0; n < 3; n++) small.load(300 * MIB);
    expect(await small.cpu()).toBe(1500);
  });
});
