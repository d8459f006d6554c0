import { expect, test } from 'vitest';
import { redisKeys, redisKeysMarkdown } from './redis-keys.ts';

const keys = redisKeys('nereid');

/** What a Cluster hashes: the text within the first pair of braces. */
const slotText = (key: string) => /\{([^}]+)\}/.exec(key)?.[1];

test("a mailbox's keys share one slot, which is its own", () => {
  expect(keys.mailbox('gw-1')).toBe('nereid:mb:{gw-1}');
  expect(keys.mailboxOpen('gw-1')).toBe('nereid:mb:{gw-1}:open');
  expect(slotText(keys.mailboxOpen('gw-1'))).toBe(slotText(keys.mailbox('gw-1')));
  expect(slotText(keys.mailbox('gw-2'))).not.toBe(slotText(keys.mailbox('gw-1')));
});

test('a name with braces cannot leave its tag', () => {
  expect(keys.mailbox('a}b{ü*')).toBe('nereid:mb:{a%7Db%7B%C3%BC%2A}');
});

test.each(['', 'a{b}', 'a b'])("the prefix '%s' is refused", (prefix) => {
  expect(() => redisKeys(prefix)).toThrow('redis prefix');
});

test('the table has a row for every key', () => {
  const shown = redisKeysMarkdown()
    .replaceAll(/\{[a-z]+\}/g, '{x}')
    .replaceAll('<session>', 'y');
  for (const key of Object.values(keys)) {
    const shownBy = [key('x', ''), key('x', 'y')];
    expect(shownBy.some((name) => shown.includes(`| \`${name}\` |`))).toBe(true);
  }
  expect(shown.split('\n')).toHaveLength(Object.keys(keys).length + 3);
});
