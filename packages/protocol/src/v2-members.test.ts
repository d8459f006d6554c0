import { describe, expect, it } from 'vitest';
import { JSON_ARRAY, JSON_OBJECT } from './json-reader.ts';
import { JSON_MEMBERS_MAX } from './protocol-limits.ts';
import { isJsonArray, readMembers } from './v2-members.ts';

const read = (text: string) => readMembers(Buffer.from(text), 100);

it('reads scalars, and the scalars of arrays and objects', () => {
  const members = read(
    ' {"a": true, "b": "x", "c": 7, "d": null, "e": ["y", [1]], "f": {"g": "z", "h": {}}, "i": 1.5} ',
  );
  expect(members).toEqual(
    new Map<string, unknown>([
      ['a', true],
      ['b', 'x'],
      ['c', 7],
      ['d', null],
      ['e', ['y', JSON_ARRAY]],
      [
        'f',
        new Map<string, unknown>([
          ['g', 'z'],
          ['h', JSON_OBJECT],
        ]),
      ],
      ['i', { double: 1.5 }],
    ]),
  );
  expect([...members].filter(([, value]) => isJsonArray(value)).map(([name]) => name)).toEqual(['e']);
  expect(read('{}')).toEqual(new Map());
});

describe('a body that is refused', () => {
  it.each([
    ['empty', '', 'failed to parse the request JSON buffer: The document is empty. at 0'],
    ['no JSON', 'hello', 'failed to parse the request JSON buffer: Invalid value. at 0'],
    ['cut off', '{', 'failed to parse the request JSON buffer: Missing a name for object member. at 1'],
    [
      'followed by more',
      '{"a": 1} 2',
      'failed to parse the request JSON buffer: The document root must not be followed by other values. at 9',
    ],
    ['an array', '[1]', 'the request body must be a JSON object'],
    ['a text', '"a"', 'the request body must be a JSON object'],
    [
      'an array that is cut off',
      '[1',
      'failed to parse the request JSON buffer: Missing a comma or ] after an array element. at 2',
    ],
    [
      'a name twice',
      '{"a": 1, "a": 2}',
      "failed to parse the request JSON buffer: Object member 'a' is given twice. at 13",
    ],
    [
      'a name twice within',
      '{"a": {"b": 1, "b": 2}}',
      "failed to parse the request JSON buffer: Object member 'b' is given twice. at 19",
    ],
    [
      'too many elements',
      `{"a": [${'1,'.repeat(JSON_MEMBERS_MAX)}1]}`,
      `failed to parse the request JSON buffer: More than ${JSON_MEMBERS_MAX}`,
    ],
    ['too deep', `{"a": ${'['.repeat(200)}`, 'failed to parse the request JSON buffer: JSON nesting depth exceeds'],
  ])('%s', (_what, text, message) => {
    expect(() => read(text)).toThrow(message);
    expect(() => read(text)).toThrow(expect.objectContaining({ code: 'INVALID_ARG' }));
  });

  it('for too many members', () => {
    const names = Array.from({ length: JSON_MEMBERS_MAX + 1 }, (_, index) => `"${index}":1`);
    expect(() => read(`{${names.join()}}`)).toThrow(`More than ${JSON_MEMBERS_MAX} members in one object.`);
  });
});
