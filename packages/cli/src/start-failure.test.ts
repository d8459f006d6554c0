import { createServer } from 'node:net';
import { NereidError } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { startFailure } from './start-failure.ts';

const LISTENERS = { http: { address: '0.0.0.0', port: 8000 }, metrics: { address: '127.0.0.1', port: 8002 } };

function listenError(code: string, port: number): Error {
  return Object.assign(new Error(`listen ${code}`), { code, syscall: 'listen', port });
}

describe('one line with the fix, and the exit code', () => {
  it.each([
    [
      listenError('EADDRINUSE', 8000),
      1,
      '0.0.0.0:8000 is in use: stop what listens there, or choose another port with --http-port',
    ],
    [
      new Error('starting metrics failed', { cause: listenError('EADDRINUSE', 8002) }),
      1,
      '127.0.0.1:8002 is in use: stop what listens there, or choose another port with --metrics-port',
    ],
    [
      listenError('EACCES', 8000),
      1,
      'no permission to listen at 0.0.0.0:8000: choose a port above 1023 with --http-port',
    ],
    [listenError('EADDRNOTAVAIL', 8002), 1, '127.0.0.1:8002 is no address of this machine: correct --metrics-address'],
    [
      new NereidError('INTERNAL', 'failed to load all models:\n  m: no file'),
      4,
      'failed to load all models: m: no file',
    ],
    [new Error('out of memory'), 1, 'out of memory'],
    ['thrown text', 1, 'thrown text'],
  ])('%s', (thrown, exitCode, text) => {
    expect(startFailure(thrown, LISTENERS)).toEqual({ text, exitCode });
  });
});

it('a cause that leads back to itself ends', () => {
  const failure: Error & { cause?: unknown } = new Error('loop');
  failure.cause = failure;
  expect(startFailure(failure, LISTENERS).text).toBe('loop');
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
  const failure = await new Promise<Error>((resolve) => {
    second.once('error', resolve);
    second.listen(port, '127.0.0.1');
  });
  await new Promise((resolve) => taken.close(resolve));
  const listeners = { http: { address: '127.0.0.1', port }, metrics: undefined };
  expect(startFailure(failure, listeners)).toEqual({
    text: `127.0.0.1:${port} is in use: stop what listens there, or choose another port with --http-port`,
    exitCode: 1,
  });
});
