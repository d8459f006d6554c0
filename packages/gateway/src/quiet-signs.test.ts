import { virtualClock } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { withQuiet } from './quiet-signs.ts';

const turns = () => new Promise((resolve) => setImmediate(resolve));

test('a sign of life comes each time that nothing came for so long', async () => {
  const clock = virtualClock();
  let release = (_: string) => {};
  let left = false;
  async function* events() {
    try {
      yield 'a';
      yield await new Promise<string>((resolve) => {
        release = resolve;
      });
      yield 'c';
    } finally {
      left = true;
    }
  }
  const told = withQuiet(events(), clock, 15_000);
  expect((await told.next()).value).toBe('a');
  for (let sign = 0; sign < 2; sign++) {
    const next = told.next();
    await turns();
    clock.advanceUs(15_000_000);
    expect((await next).value).toEqual({ type: 'quiet' });
  }
  release('b');
  expect((await told.next()).value).toBe('b');
  await told.return();
  expect(left).toBe(true);
});

test('what the events throw is thrown', async () => {
  async function* events(): AsyncGenerator<string, void, undefined> {
    yield 'a';
    throw new Error('gone');
  }
  const told = withQuiet(events(), virtualClock(), 1);
  await told.next();
  await expect(told.next()).rejects.toThrow('gone');
});
