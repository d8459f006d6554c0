import { expect, test } from 'vitest';
import { decodeRepositoryList, encodeRepositoryList, type RepositoryList } from './repository-list.ts';

test('a list is read as it was written', () => {
  const list: RepositoryList = {
    controlMode: 'explicit',
    folders: [
      { name: 'a', conflict: null },
      { name: '__proto__', conflict: 'model appears in two or more repositories' },
    ],
  };
  expect(decodeRepositoryList(encodeRepositoryList(list))).toEqual(list);
});

test('with namespacing each has its repository and its folder', () => {
  const list: RepositoryList = {
    controlMode: 'poll',
    folders: [
      { name: 'b::m', conflict: null, from: { repository: '/srv/b', folder: 'm' } },
      { name: 'a::m', conflict: null, from: { repository: '/srv/a', folder: 'm' } },
      { name: 'odd', conflict: 'why', from: { repository: '/srv/b', folder: 'odd' } },
    ],
  };
  expect(decodeRepositoryList(encodeRepositoryList(list))).toEqual(list);
});

test.each(['', '{', '{}', '[]', '{"mode":"polling","models":[]}', '{"mode":"none","models":[1]}'])(
  '%j is none',
  (text) => {
    expect(decodeRepositoryList(text)).toBeUndefined();
  },
);
