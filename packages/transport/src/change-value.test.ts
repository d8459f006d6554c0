import { describe, expect, it } from 'vitest';
import { changeValue, type SharedValues } from './change-value.ts';
import { createLocalDirectory } from './local-directory.ts';

const append = (word: string) => (text: string | undefined) => (text === undefined ? word : `${text} ${word}`);

describe('a change', () => {
  it('of two at once loses none', async () => {
    const directory = createLocalDirectory<unknown>();
    // Set a moment after it was read, as over Redis.
    const values: SharedValues = {
      ...directory,
      async setValue(...args) {
        await Promise.resolve();
        return directory.setValue(...args);
      },
    };
    await Promise.all(['one', 'two', 'three'].map((word) => changeValue(values, 'a', append(word))));
    expect(directory.value('a')?.text.split(' ').sort()).toEqual(['one', 'three', 'two']);
    expect(directory.value('a')?.version).toBe(3);
  });

  it('to what is there already is none', async () => {
    const directory = createLocalDirectory<unknown>();
    await changeValue(directory, 'a', () => 'x');
    await changeValue(directory, 'a', () => 'x');
    expect(directory.value('a')?.version).toBe(1);
  });

  it('that others always come before is given up', async () => {
    let version = 0;
    const values: SharedValues = {
      value: () => ({ text: `${version}`, version: version++ }),
      setValue: async () => undefined,
      watch: () => () => {},
    };
    await expect(changeValue(values, 'a', append('x'))).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(version).toBe(8);
  });
});
