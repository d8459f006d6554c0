import { describe, expect, it } from 'vitest';
import { type CacheFlags, readCacheConfig } from './options-cache.ts';
import { parseOptions } from './options-parse.ts';

const FLAGS: CacheFlags = { cacheConfig: [], responseCacheByteSize: 0, redisUrl: 'redis://shared' };

const read = (flags: Partial<CacheFlags>, env: Record<string, string> = {}) => {
  const result = readCacheConfig({ ...FLAGS, ...flags }, env);
  return result.ok ? result.value : result.error;
};
const redis = (...settings: string[]) => ({ cacheConfig: settings.map((setting) => `redis,${setting}`) });

describe('the response cache that flags ask for', () => {
  it.each<[string, Partial<CacheFlags>, object | undefined]>([
    ['none without a flag', {}, undefined],
    ['a local one', { cacheConfig: ['local,size=1048576'] }, { kind: 'local', bytes_max: 1_048_576, ttl_s: 0 }],
    [
      'with an end of what it keeps',
      { cacheConfig: ['local,size=9', 'local,ttl_s=60', 'local,size=8'] },
      { kind: 'local', bytes_max: 8, ttl_s: 60 },
    ],
    ['none of no size', { cacheConfig: ['local,size=0'] }, undefined],
    ['by the deprecated flag', { responseCacheByteSize: 7 }, { kind: 'local', bytes_max: 7, ttl_s: 0 }],
    ["the cluster's Redis", { cacheConfig: ['redis'] }, { kind: 'redis', ttl_s: 3_600, answer_ms: 100 }],
    ['for so long', redis('ttl_s=5', 'socket_timeout=20'), { kind: 'redis', ttl_s: 5, answer_ms: 20 }],
    ['no wait for ever', redis('socket_timeout=0'), { kind: 'redis', ttl_s: 3_600, answer_ms: 100 }],
  ])('%s', (_rule, flags, expected) => {
    expect(read(flags)).toEqual(expected);
  });

  it.each<[readonly string[], string]>([
    [['host=h'], 'redis://h:6379/0'],
    [['host=h', 'port=1', 'db=2'], 'redis://h:1/2'],
    [['host=::1'], 'redis://[::1]:6379/0'],
    [['host=h', 'user=me', 'password=p@ss/word'], 'redis://me:p%40ss%2Fword@h:6379/0'],
    [['host=h', 'password=a=b,c'], 'redis://:a%3Db%2Cc@h:6379/0'],
  ])('a Redis of its own by %j', (settings, url) => {
    expect(read({ ...redis(...settings), redisUrl: '' })).toMatchObject({ redis: { url } });
  });

  it('takes user and password from the environment, where none is given, and for no other Redis', () => {
    const env = { TRITONCACHE_REDIS_USERNAME: 'me', TRITONCACHE_REDIS_PASSWORD: 'secret' };
    expect(read(redis('host=h'), env)).toMatchObject({ redis: { url: 'redis://me:secret@h:6379/0' } });
    const given = read(redis('host=h', 'user=you', 'password=known'), env);
    expect(given).toMatchObject({ redis: { url: 'redis://you:known@h:6379/0' } });
    expect(read({ cacheConfig: ['redis'] }, env)).not.toHaveProperty('redis');
  });

  it('speaks TLS where it is given files or a name', () => {
    expect(read(redis('host=h', 'cacert=/ca.pem', 'cert=/c.pem', 'key=/k.pem', 'sni=cache'))).toMatchObject({
      redis: { url: 'rediss://h:6379/0', tls: { ca: '/ca.pem', cert: '/c.pem', key: '/k.pem', servername: 'cache' } },
    });
  });

  it.each<[Partial<CacheFlags>, string]>([
    [{ cacheConfig: ['locl,size=1'] }, "--cache-config: there is no cache 'locl': did you mean local?"],
    [{ cacheConfig: ['memcached,host=h'] }, "--cache-config: there is no cache 'memcached': give local or redis"],
    [{ cacheConfig: ['size=1'] }, '--cache-config: no cache is named: give local or redis'],
    [{ cacheConfig: ['local'] }, '--cache-config: local has no size: give local,size=<bytes>'],
    [{ cacheConfig: ['local,ttl_s=5'] }, '--cache-config: local has no size: give local,size=<bytes>'],
    [{ cacheConfig: ['local,sise=1'] }, "--cache-config: local has no key 'sise': did you mean local,size?"],
    [{ cacheConfig: ['local,bytes=1'] }, "--cache-config: local has no key 'bytes': give size, ttl_s"],
    [{ cacheConfig: ['local,toString=1'] }, "--cache-config: local has no key 'toString': give size, ttl_s"],
    [{ cacheConfig: ['local,size='] }, '--cache-config: local,size has no value: give local,size=<value>'],
    [{ cacheConfig: ['local,size'] }, '--cache-config: local,size has no value: give local,size=<value>'],
    [
      { cacheConfig: ['local,size=1MB'] },
      "--cache-config: local,size: '1MB' is not allowed: give a whole number from 0 to 9007199254740991",
    ],
    [
      redis('host=h', 'port=70000'),
      "--cache-config: redis,port: '70000' is not allowed: give a whole number from 1 to 65535",
    ],
    [
      { cacheConfig: ['local,size=5,ttl_s=9'] },
      '--cache-config: a flag has room for one key: give --cache-config=local,size=5, and each other key by a flag of its own',
    ],
    [
      redis('host=h,password=secret'),
      '--cache-config: a flag has room for one key: give --cache-config=redis,host=h, and each other key by a flag of its own',
    ],
    [redis('host=h', 'ttl=5'), "--cache-config: redis has no key 'ttl': did you mean redis,ttl_s?"],
    [
      redis('host=redis://h'),
      "--cache-config: redis,host: 'redis://h' is not allowed: give the name or address of a host",
    ],
    [
      redis('host=h', 'cacert_dir=/d'),
      "--cache-config: redis,cacert_dir: '/d' is not allowed: give the file of certificates as cacert: a folder of them cannot be used",
    ],
    [
      redis('password=x'),
      '--cache-config: redis,password needs redis,host=<host>; without a host the Redis of --redis-url is used',
    ],
    [
      { ...redis('ttl_s=5'), redisUrl: '' },
      '--cache-config: redis names no Redis: give redis,host=<host>, or --redis-url',
    ],
    [
      { cacheConfig: ['local,size=1', 'redis,host=h'] },
      '--cache-config: local and redis are both named: give one cache',
    ],
    [
      { cacheConfig: ['local,size=1'], responseCacheByteSize: 1 },
      'Incompatible flags --cache-config and --response-cache-byte-size both provided. Please provide one or the other.',
    ],
  ])('%j is refused', (flags, error) => {
    expect(read(flags)).toBe(error);
  });

  it('is read by every role, from the environment too', () => {
    const env = { NEREID_CACHE_CONFIG: 'local,size=1;local,ttl_s=2', NEREID_REDIS_URL: 'redis://h' };
    for (const role of ['gateway', 'coordinator', 'worker'] as const) {
      const argv = role === 'gateway' ? [] : ['--model-repository=/models'];
      expect(parseOptions({ argv, env, readFile: () => '', role })).toMatchObject({
        ok: true,
        options: { cacheConfig: ['local,size=1', 'local,ttl_s=2'] },
        warnings: [],
      });
    }
    const wrong = parseOptions({
      argv: ['--model-repository=/m', '--cache-config=redis'],
      env: {},
      readFile: () => '',
    });
    expect(wrong).toMatchObject({ ok: false, error: expect.stringContaining('redis names no Redis') });
  });
});
