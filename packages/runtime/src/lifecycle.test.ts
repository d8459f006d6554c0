import { expect, test } from 'vitest';
import { createLifecycle } from './lifecycle.ts';

const part = (log: string[], name: string, failing = false) =>
  [
    name,
    async () => {
      log.push(`start ${name}`);
      if (failing) throw new Error(`${name} cannot start`);
      return name;
    },
    async (started: string) => void log.push(`stop ${started}`),
  ] as const;

test('parts stop in reverse order, once', async () => {
  const log: string[] = [];
  const lifecycle = createLifecycle();
  for (const name of ['a', 'b', 'c']) await lifecycle.add(...part(log, name));
  await Promise.all([lifecycle.stop(), lifecycle.stop()]);
  expect(log).toEqual(['start a', 'start b', 'start c', 'stop c', 'stop b', 'stop a']);
});

test('a failed start stops what came before and throws its own error', async () => {
  const log: string[] = [];
  const lifecycle = createLifecycle();
  await lifecycle.add(...part(log, 'a'));
  await expect(lifecycle.add(...part(log, 'b', true))).rejects.toThrow('b cannot start');
  expect(log).toEqual(['start a', 'start b', 'stop a']);
});

test('one failing stop does not keep the others from stopping', async () => {
  const log: string[] = [];
  const lifecycle = createLifecycle();
  await lifecycle.add(...part(log, 'a'));
  await lifecycle.add(
    'bad',
    async () => 'bad',
    async () => {
      throw new Error('stuck');
    },
  );
  await expect(lifecycle.stop()).rejects.toThrow('stopping failed');
  expect(log).toEqual(['start a', 'stop a']);
});
