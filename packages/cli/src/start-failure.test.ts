import { createServer } from 'node:net';
import { NereidError } from '@nereid/protocol';
import { expect, it } from 'vitest';
import { startFailure } from './start-failure.ts';

const inUse = Object.assign(new Error('listen EADDRINUSE'), { code: 'EADDRINUSE', syscall: 'listen' });
const cannotListen = new NereidError('UNAVAILABLE', 'cannot listen on :8000', { cause: inUse });
const noModel = new NereidError('INTERNAL', 'failed to load all models:\n  m: no file\n');

it.each([
  ['a listener', cannotListen, 1, 'cannot listen on :8000'],
  ['a listener inside another error', new Error('starting http', { cause: cannotListen }), 1, 'cannot listen on :8000'],
  ['a listener without words of ours', inUse, 1, 'listen EADDRINUSE'],
  ['models, in one line', noModel, 4, 'failed to load all models: m: no file'],
  [
    'models inside another error',
    new Error('starting', { cause: noModel }),
    4,
    'failed to load all models: m: no file',
  ],
  ['a Redis', new NereidError('UNAVAILABLE', 'no', { reason: 'redis_unusable', cause: inUse }), 3, 'no'],
  ['a private Redis', new NereidError('UNAVAILABLE', 'no', { reason: 'embedded_redis' }), 3, 'no'],
  ['a data directory', new NereidError('UNAVAILABLE', 'no', { reason: 'data_directory' }), 1, 'no'],
  ['an option', new NereidError('INVALID_ARG', 'no', { reason: 'bad_option' }), 2, 'no'],
  ['anything else', new Error('out of memory'), 1, 'out of memory'],
  ['what is no error', 'thrown text', 1, 'thrown text'],
])('%s', (_rule, thrown, exitCode, text) => {
  expect(startFailure(thrown)).toEqual({ text, exitCode });
});

it('a cause that leads back to itself ends', () => {
  const failure = new Error('loop');
  failure.cause = failure;
  expect(startFailure(failure).text).toBe('loop');
});

it("knows Node's own error of a port in use", async () => {
  const taken = createServer();
  const port = await new Promise<number>((resolve) => {
    taken.listen(0, '127.0.0.1', () => {
      const address = taken.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
  const second = createServer();
  const cause = await new Promise<Error>((resolve) => {
    second.once('error', resolve);
    second.listen(port, '127.0.0.1');
  });
  await new Promise((resolve) => taken.close(resolve));
  expect(startFailure(new NereidError('UNAVAILABLE', 'taken', { cause })).exitCode).toBe(1);
});
