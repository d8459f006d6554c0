import type { NereidError } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { checkJobsDurability, type Durability, safeAdd } from './jobs-durability.ts';
import { connectRedis } from './redis-connection.ts';
import { startRedisServer } from './redis-server-fixture.ts';

const GOOD: Durability = {
  appendonly: true,
  appendfsync: 'always',
  syncsOnRewrite: true,
  version: 'Redis 7.0.15',
  waitaof: false,
};
const EVERYSEC = { ...GOOD, appendfsync: 'everysec' };
const HIDDEN = { ...GOOD, appendfsync: undefined, syncsOnRewrite: undefined };

test.each<[rule: string, found: Durability, cluster: boolean, expected: 'at once' | 'waits' | RegExp]>([
  ['synced before each answer', GOOD, false, 'at once'],
  ['that on each node of a Cluster', GOOD, true, 'at once'],
  ['synced once a second, and WAITAOF', { ...EVERYSEC, waitaof: true }, false, 'waits'],
  [
    'synced once a second, and none',
    EVERYSEC,
    false,
    /^\(Redis 7\.0\.15\) has appendfsync everysec: set appendfsync always, or use Redis 7\.2/,
  ],
  ['WAITAOF in a Cluster', { ...EVERYSEC, waitaof: true }, true, /has appendfsync everysec: set appendfsync always$/],
  [
    'left to the kernel',
    { ...EVERYSEC, appendfsync: 'no', waitaof: true },
    false,
    /has appendfsync no: set appendfsync always$/,
  ],
  ['no file', { ...GOOD, appendonly: false }, false, /keeps no append-only file: set appendonly yes/],
  ['not while it rewrites', { ...GOOD, syncsOnRewrite: false }, false, /set no-appendfsync-on-rewrite no$/],
  ['not while it rewrites, but WAITAOF', { ...GOOD, syncsOnRewrite: false, waitaof: true }, false, 'waits'],
  ['hidden settings', HIDDEN, false, /hides its appendfsync: allow \+config\|get, or use Redis 7\.2/],
  ['hidden settings, and WAITAOF', { ...HIDDEN, waitaof: true }, false, 'waits'],
  ['all hidden, and WAITAOF', { ...HIDDEN, appendonly: undefined, waitaof: true }, false, 'waits'],
  ['hidden settings of a Cluster', { ...HIDDEN, waitaof: true }, true, /allow \+config\|get$/],
])('%s', (_rule, found, cluster, expected) => {
  const verdict = safeAdd(found, cluster);
  if (expected instanceof RegExp) expect(verdict).toEqual({ ok: false, why: expect.stringMatching(expected) });
  else expect(verdict).toEqual({ ok: true, waits: expected === 'waits' });
});

const check = async (flags: readonly string[], fsync: 'everysec' | 'always', user = '') => {
  const redis = await startRedisServer(flags);
  const connector = connectRedis(redis.url.replace('unix://', `unix://${user}`), { name: 'test' });
  try {
    return await checkJobsDurability(connector, fsync);
  } catch (error) {
    return (error as NereidError).message;
  } finally {
    connector.close();
    await redis.stop();
  }
};
const AOF = ['--appendonly', 'yes'];
const LIMITED = ['--user', 'limited', 'on', '>pw', ...'~nereid:* ~bull:* &* +@all -@dangerous +info'.split(' ')];

test('of a real Redis its settings count', async () => {
  expect(await check([...AOF, '--appendfsync', 'always'], 'always')).toEqual({ waits: false, warnings: [] });
  expect(await check([], 'always')).toMatch(/^--jobs-fsync=always: Redis at unix:\S+ keeps no append-only file/);
  expect(await check(AOF, 'everysec')).toEqual({ waits: false, warnings: [] });
  expect(await check([], 'everysec')).toMatchObject({
    waits: false,
    warnings: [expect.stringContaining('appendonly')],
  });
});

test('of one whose user may not read them, whether it can be waited for', async () => {
  const found = await check([...AOF, '--appendfsync', 'always', ...LIMITED], 'always', 'limited:pw@');
  // Redis 7.0 has no WAITAOF.
  if (typeof found === 'string') expect(found).toContain('allow +config|get');
  else expect(found).toEqual({ waits: true, warnings: [] });
});
