import { expect, test } from 'vitest';
import type { ModelFound, ModelLookup } from '../model-lookup.ts';
import { modelFiles } from './model-files.ts';

/** Models by name: version, files, and the models and versions of their steps. */
type World = Readonly<
  Record<string, readonly [version: string, files: string, steps?: readonly (readonly [string, string])[]]>
>;

function filesIn(world: World, name: string): string {
  const find = (model: string): ModelLookup => {
    const [version, contentHash, steps] = world[model] ?? [];
    if (version === undefined) return { ok: false, error: { code: 'INVALID_ARG', message: 'gone' } };
    const ensemble = steps?.map(([step, asked]) => ({ model: step, version: asked, inputs: [], outputs: [] }));
    const signature = ensemble === undefined ? {} : { ensemble: { steps: ensemble, maxInflight: 0 } };
    return { ok: true, record: { name: model, contentHash }, signature, version } as unknown as ModelFound;
  };
  return modelFiles(find(name) as ModelFound, { find });
}

const WORLD: World = {
  plain: ['1', 'p'],
  inner: ['1', 'i', [['plain', '']]],
  outer: [
    '3',
    'o',
    [
      ['inner', ''],
      ['plain', '1'],
    ],
  ],
};

test('a model alone is named by its own files', () => {
  expect(filesIn(WORLD, 'plain')).toBe('p');
});

test.each<[string, World]>([
  ['its own files', { ...WORLD, outer: ['3', 'x', WORLD.outer?.[2] ?? []] }],
  ['files of a step', { ...WORLD, plain: ['1', 'x'] }],
  ['the version of a step', { ...WORLD, plain: ['2', 'p'] }],
  ['files of an ensemble within', { ...WORLD, inner: ['1', 'x', [['plain', '']]] }],
  ['a step that is gone', { inner: WORLD.inner ?? ['', ''], outer: WORLD.outer ?? ['', ''] }],
])('an ensemble is another one with: %s', (_what, world) => {
  expect(filesIn(world, 'outer')).not.toBe(filesIn(WORLD, 'outer'));
  expect(filesIn({ ...WORLD }, 'outer')).toBe(filesIn(WORLD, 'outer'));
});

test('a graph with a circle in it ends', () => {
  expect(filesIn({ a: ['1', 'a', [['a', '']]] }, 'a')).toContain('a');
});
