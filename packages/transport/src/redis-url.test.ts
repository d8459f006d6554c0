import { NereidError } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { parseRedisUrl } from './redis-url.ts';

const host = (name: string, port: number) => ({ host: name, port });

describe('redis URL', () => {
  test.each([
    ['redis://h', { form: { type: 'host', host: host('h', 6379) }, tls: false, db: 0, shown: 'redis://h' }],
    ['redis://h:7/3', { form: { type: 'host', host: host('h', 7) }, tls: false, db: 3, shown: 'redis://h:7/3' }],
    ['redis://[::1]:7', { form: { type: 'host', host: host('::1', 7) }, tls: false, db: 0, shown: 'redis://[::1]:7' }],
    ['rediss://h:7', { form: { type: 'host', host: host('h', 7) }, tls: true, db: 0, shown: 'rediss://h:7' }],
    [
      'redis://u%40x:p%3Aq@r@h:7',
      {
        form: { type: 'host', host: host('h', 7) },
        tls: false,
        db: 0,
        username: 'u@x',
        password: 'p:q@r',
        shown: 'redis://h:7',
      },
    ],
    [
      'redis://:p@h',
      { form: { type: 'host', host: host('h', 6379) }, tls: false, db: 0, password: 'p', shown: 'redis://h' },
    ],
    [
      'unix:///a%20b/r.sock?db=2',
      { form: { type: 'socket', path: '/a b/r.sock' }, tls: false, db: 2, shown: 'unix:///a%20b/r.sock?db=2' },
    ],
    [
      'unix://u:p@/r.sock',
      {
        form: { type: 'socket', path: '/r.sock' },
        tls: false,
        db: 0,
        username: 'u',
        password: 'p',
        shown: 'unix:///r.sock',
      },
    ],
    [
      'redis-sentinel://a:1,b/main?db=1',
      {
        form: { type: 'sentinel', sentinels: [host('a', 1), host('b', 26379)], master: 'main' },
        tls: false,
        db: 1,
        shown: 'redis-sentinel://a:1,b/main?db=1',
      },
    ],
    [
      'redis://u:p@a:1,b:2',
      {
        form: { type: 'cluster', nodes: [host('a', 1), host('b', 2)] },
        tls: false,
        db: 0,
        username: 'u',
        password: 'p',
        shown: 'redis://a:1,b:2',
      },
    ],
    [
      'rediss://a,b',
      { form: { type: 'cluster', nodes: [host('a', 6379), host('b', 6379)] }, tls: true, db: 0, shown: 'rediss://a,b' },
    ],
  ])('%s', (url, address) => {
    expect(parseRedisUrl(url)).toEqual(address);
  });

  test.each([
    ['localhost:6379', 'cannot be read'],
    ['http://h', "unknown scheme 'http'"],
    ['redis://', "'' where host:port should be"],
    ['redis://h:0', 'port 0'],
    ['redis://h:70000', 'port 70000'],
    ['redis://h/x', "database 'x'"],
    ['redis://a,,b', "'' where"],
    ['redis://a,b/1', 'only database 0'],
    ['unix://r.sock', 'absolute path'],
    ['redis-sentinel://a:1', "master's name"],
    ['redis://u:%zz@h', 'write %25'],
  ])('%s is refused: %s', (url, why) => {
    let refused: unknown;
    try {
      parseRedisUrl(url);
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(NereidError);
    expect(String(refused)).toContain(why);
    expect(String(refused)).toContain('redis-sentinel://');
  });

  test('no refusal shows the password', () => {
    for (const url of ['redis://u:secret@h:0', 'redis://u:secret@h/x', 'u:secret@h', 'x://u:secret@h']) {
      expect(() => parseRedisUrl(url)).toThrow(/^(?!.*secret)/s);
    }
  });
});
