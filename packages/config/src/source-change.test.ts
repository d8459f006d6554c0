import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { completeModelConfig } from './complete-model-config.ts';
import { type ExpandedInstance, expandInstances } from './expand-instances.ts';
import { FIXTURES } from './fixture-models.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { type ModelSource, readModel } from './read-model.ts';
import { instanceChanges, sourceChange } from './source-change.ts';

describe('what kind of change it is', () => {
  let directory = '';
  beforeEach(() => {
    directory = join(mkdtempSync(join(tmpdir(), 'nereid-change-')), 'classifier');
    cpSync(join(FIXTURES, 'classifier'), directory, { recursive: true });
    write('config.pbtxt', CONFIG);
  });
  afterEach(() => rmSync(join(directory, '..'), { recursive: true, force: true }));

  const CONFIG = `
    backend: "onnxruntime"
    output { name: "LABELLED" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" }
  `;
  const write = (file: string, text: string) => writeFileSync(join(directory, file), text);
  const read = (): Promise<ModelSource> =>
    readModel({ name: 'classifier', directory }, { autoComplete: true, gpus: 0 });
  const copyVersion = () => cpSync(join(directory, '1'), join(directory, '2'), { recursive: true });

  test.each<[string, 'same' | 'instances' | 'other', () => void]>([
    ['nothing', 'same', () => {}],
    ['a file that is not used', 'same', () => write('README.md', 'x')],
    ['a comment', 'instances', () => write('config.pbtxt', `# said\n${CONFIG}`)],
    ['the count', 'instances', () => write('config.pbtxt', `${CONFIG} instance_group { count: 3 kind: KIND_CPU }`)],
    ['a policy of the same versions', 'instances', () => write('config.pbtxt', `${CONFIG} version_policy { all { } }`)],
    [
      'another setting',
      'other',
      () => write('config.pbtxt', `${CONFIG} parameters { key: "a" value { string_value: "b" } }`),
    ],
    [
      'the count and another setting',
      'other',
      () => write('config.pbtxt', `${CONFIG} instance_group { count: 3 } response_cache { enable: true }`),
    ],
    ['the labels', 'other', () => write('labels.txt', 'a\nb\nc\nd\n')],
    ['a file of the version', 'other', () => write('1/weights', 'x')],
    ['a new version', 'other', copyVersion],
    [
      'a policy of more versions',
      'other',
      () => {
        copyVersion();
        write('config.pbtxt', `${CONFIG} version_policy { all { } }`);
      },
    ],
  ])('%s: %s', async (_name, kind, change) => {
    const before = await read();
    change();
    expect(sourceChange(before, await read())).toBe(kind);
  });

  test('of a source that another build has recorded it is other', async () => {
    const { filesHash: _, ...before } = await read();
    write('config.pbtxt', `# said\n${CONFIG}`);
    expect(sourceChange(before, await read())).toBe('other');
  });

  test('an ensemble has no instances', async () => {
    const ensemble = parseModelConfig('name: "e" platform: "ensemble" ensemble_scheduling { }', 'c');
    const source = { ...(await read()), config: ensemble };
    expect(sourceChange(source, { ...source, contentHash: 'other' })).toBe('other');
  });
});

describe('which instances change', () => {
  const expanded = (text: string): readonly ExpandedInstance[] => {
    const files = [{ name: 'model.mjs', directory: false }];
    const config = parseModelConfig(`backend: "javascript" ${text}`, 'c');
    return expandInstances(completeModelConfig(config, { name: 'm', files, gpus: 2 }));
  };
  const told = (instances: readonly ExpandedInstance[]) => instances.map(({ index, name }) => `${index} ${name}`);
  const limiter = (count: number) => `rate_limiter { resources { name: "R" count: ${count} } }`;

  test.each<[string, string, string, { kept: string[]; added: string[]; removed: string[] }]>([
    [
      'more of them',
      'instance_group { count: 1 kind: KIND_CPU }',
      'instance_group { count: 3 kind: KIND_CPU }',
      { kept: ['0 m_0_0'], added: ['9 m_0_1', '10 m_0_2'], removed: [] },
    ],
    [
      'fewer: the last ones go',
      'instance_group { count: 3 kind: KIND_CPU }',
      'instance_group { count: 1 kind: KIND_CPU }',
      { kept: ['0 m_0_0'], added: [], removed: ['1 m_0_1', '2 m_0_2'] },
    ],
    [
      'the name of the group says nothing',
      'instance_group { name: "a" count: 2 kind: KIND_CPU }',
      'instance_group { name: "b" count: 2 kind: KIND_CPU }',
      { kept: ['0 a_0', '1 a_1'], added: [], removed: [] },
    ],
    [
      'the same name goes before the first that is alike',
      'instance_group [ { name: "a" count: 1 kind: KIND_CPU }, { name: "b" count: 1 kind: KIND_CPU } ]',
      'instance_group { name: "b" count: 1 kind: KIND_CPU }',
      { kept: ['1 b_0'], added: [], removed: ['0 a_0'] },
    ],
    [
      'groups in another order',
      'instance_group [ { count: 1 kind: KIND_CPU host_policy: "x" }, { count: 1 kind: KIND_CPU host_policy: "y" } ]',
      'instance_group [ { count: 1 kind: KIND_CPU host_policy: "y" }, { count: 1 kind: KIND_CPU host_policy: "x" } ]',
      { kept: ['1 m_1_0', '0 m_0_0'], added: [], removed: [] },
    ],
    [
      'a name that a held one has',
      'instance_group [ { count: 1 kind: KIND_CPU host_policy: "x" }, { count: 1 kind: KIND_CPU host_policy: "y" } ]',
      'instance_group [ { count: 1 kind: KIND_CPU host_policy: "y" }, { count: 1 kind: KIND_CPU host_policy: "z" } ]',
      { kept: ['1 m_1_0'], added: ['9 m_1_1'], removed: ['0 m_0_0'] },
    ],
    [
      'another kind',
      'instance_group { name: "g" count: 1 kind: KIND_CPU }',
      'instance_group { name: "g" count: 1 kind: KIND_GPU gpus: [ 1 ] }',
      { kept: [], added: ['9 g_0_gpu1'], removed: ['0 g_0'] },
    ],
    [
      'another GPU beside the one that it has',
      'instance_group { name: "g" count: 1 kind: KIND_GPU gpus: [ 1 ] }',
      'instance_group { name: "g" count: 1 kind: KIND_GPU gpus: [ 0, 1 ] }',
      { kept: ['0 g_0_gpu1'], added: ['9 g_0_gpu0'], removed: [] },
    ],
    [
      'a passive one',
      'instance_group { name: "g" count: 1 kind: KIND_CPU }',
      'instance_group { name: "g" count: 1 kind: KIND_CPU passive: true }',
      { kept: [], added: ['9 g_1'], removed: ['0 g_0'] },
    ],
    [
      'other resources',
      `instance_group { name: "g" count: 1 kind: KIND_CPU ${limiter(1)} }`,
      `instance_group { name: "g" count: 2 kind: KIND_CPU ${limiter(2)} }`,
      { kept: [], added: ['9 g_1', '10 g_2'], removed: ['0 g_0'] },
    ],
    [
      'the same resources',
      `instance_group { name: "g" count: 1 kind: KIND_CPU ${limiter(1)} }`,
      `instance_group { name: "g" count: 2 kind: KIND_CPU ${limiter(1)} }`,
      { kept: ['0 g_0'], added: ['9 g_1'], removed: [] },
    ],
  ])('%s', (_name, held, wanted, expected) => {
    const { kept, added, removed } = instanceChanges(expanded(held), expanded(wanted), 9);
    expect({ kept: told(kept), added: told(added), removed: told(removed) }).toEqual(expected);
    const names = [...kept, ...added, ...removed].map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });
});
