import { expect, test } from 'vitest';
import { modelName, modelPath } from './model-path.ts';

test.each<[string, string]>([
  ['simple', 'simple'],
  ['my%20model', 'my model'],
  ['a~b', 'a~b'],
  ['a%7Eb', 'a~b'],
  ['a%2Fb', 'a/b'],
  ['a%2fb', 'a/b'],
  ['a%3A%3Ab', 'a::b'],
  ['a::b', 'a::b'],
  ['mod%C3%A8le', 'modèle'],
  ['100%25', '100%'],
  ['a+b', 'a+b'],
  ['simp%6Ce', 'simp%6Ce'],
  ['%41%5A%30%39%7a', '%41%5A%30%39%7a'],
  ['%40%5B%60%7B', '@[`{'],
  ['simp%256Ce', 'simp%6Ce'],
  ['%FF', '%FF'],
  ['s%', 's%'],
  ['%zz', '%zz'],
])('%s in a path is the model %s', (path, name) => {
  expect(modelName(path)).toBe(name);
});

test.each(['simple', 'my model', 'a~b', 'a/b', 'x/models::simple', 'modèle', '100%', 'simp%6Ce', '{m}', '%20'])(
  '%s comes back from its path',
  (name) => {
    expect(modelPath(name)).toMatch(/^[^/{}]+$/);
    expect(modelName(modelPath(name))).toBe(name);
  },
);
