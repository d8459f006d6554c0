import { NereidError } from '@nereid/protocol';
import { afterEach, describe, expect, test } from 'vitest';
import { checkRedis, checkRedisInfo } from './redis-checks.ts';
import { connectRedis } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';

let redis: RedisServerFixture | undefined;
afterEach(async () => {
  await redis?.stop();
  redis = undefined;
});

/** The check's warnings, or the one line that it throws. */
const check = async (url: string, allowEvicting = false) => {
  const connector = connectRedis(url, { name: 'test:check' });
  try {
    return await checkRedis(connector, { allowEvicting, prefix: 'nereid' });
  } catch (error) {
    if (!(error instanceof NereidError)) throw error;
    expect(error.code).toBe('UNAVAILABLE');
    expect(error.message).not.toContain('\n');
    return error.message;
  } finally {
    connector.close();
  }
};

const withUser = (url: string, user: string) => url.replace('unix://', `unix://${user}@`);

describe('checkRedis', () => {
  test('a fresh server is fine, and nothing is left in it', async () => {
    redis = await startRedisServer();
    expect(await check(redis.url)).toEqual({
      version: expect.stringMatching(/^(Redis|Valkey) \d+\.\d+/),
      warnings: [],
    });
    const connector = connectRedis(redis.url, { name: 'test:look' });
    const connection = connector.connect('look');
    await connection.ready();
    expect(await connection.client.dbsize()).toBe(0);
    await expect.poll(() => connection.client.call('CLIENT', 'LIST')).not.toContain('test:check');
    connector.close();
  });

  test('an evicting policy is refused, or warned of where allowed', async () => {
    redis = await startRedisServer(['--maxmemory-policy', 'allkeys-lru']);
    expect(await check(redis.url)).toContain('maxmemory-policy allkeys-lru');
    expect(await check(redis.url)).toContain('--allow-evicting-redis');
    expect(await check(redis.url, true)).toMatchObject({ warnings: [expect.stringContaining('allkeys-lru')] });
  });

  test('a wrong or missing password', async () => {
    redis = await startRedisServer(['--requirepass', 'right']);
    for (const url of [redis.url, withUser(redis.url, ':wrong')]) {
      const line = await check(url);
      expect(line).toContain('refuses the login');
      expect(line).not.toContain('wrong@');
    }
    expect(await check(withUser(redis.url, ':right'))).toMatchObject({ warnings: [] });
  });

  test.each([
    ['blmpop', '~nereid:* &nereid:* +@all -blmpop', 'BLMPOP'],
    ['scripts', '~nereid:* &nereid:* +@all -@scripting', 'EVAL'],
    ['the keys', '~other:* &nereid:* +@all', 'DEL'],
    ['the channels', '~nereid:* &other:* +@all', 'PUBLISH'],
  ])('no permission for %s', async (_, rule, command) => {
    redis = await startRedisServer(['--user', 'limited', 'on', '>pw', ...rule.split(' ')]);
    const line = await check(withUser(redis.url, 'limited:pw'));
    expect(line).toContain(`does not let this user run ${command} on nereid:*`);
    expect(line).toContain('ACL SETUSER');
  });

  test('the rule that it recommends suffices', async () => {
    const rule = '~nereid:* &nereid:* +@all -@dangerous +info';
    redis = await startRedisServer(['--user', 'limited', 'on', '>pw', ...rule.split(' ')]);
    expect(await check(withUser(redis.url, 'limited:pw'))).toMatchObject({ warnings: [] });
  });

  test('a hidden INFO is warned of', async () => {
    redis = await startRedisServer(['--user', 'limited', 'on', '>pw', '~*', '&*', '+@all', '-info']);
    const found = await check(withUser(redis.url, 'limited:pw'));
    expect(found).toMatchObject({ version: 'Redis', warnings: [expect.stringContaining('hides INFO')] });
  });

  test.each([
    ['a closed port', 'redis://127.0.0.1:1', 'ECONNREFUSED'],
    ['no socket', 'unix:///nowhere/redis.sock', 'ENOENT'],
    ['a Cluster that is not there', 'redis://127.0.0.1:1,127.0.0.1:2', 'cannot be reached'],
    ['sentinels that are not there', 'redis-sentinel://127.0.0.1:1/main', 'cannot be reached'],
  ])('%s', async (_, url, why) => {
    const line = await check(url);
    expect(line).toContain(why);
    expect(line).toContain('--redis-url');
  });
});

describe('what INFO says', () => {
  const judge = (fields: Record<string, string>, cluster = false) => {
    const text = Object.entries({ maxmemory_policy: 'noeviction', ...fields }).map(
      ([name, value]) => `${name}:${value}`,
    );
    try {
      return checkRedisInfo(`# Server\r\n${text.join('\r\n')}\r\n`, 'redis://h', { allowEvicting: false, cluster });
    } catch (error) {
      return error instanceof NereidError ? error.message : error;
    }
  };

  test.each([
    ['6.2.14', 'Redis 6.2.14, which is too old'],
    ['2.8.0', 'Redis 2.8.0, which is too old'],
    ['7.0.0', { version: 'Redis 7.0.0', warnings: [] }],
    ['10.0.1', { version: 'Redis 10.0.1', warnings: [] }],
  ])('Redis %s', (redis_version, expected) => {
    const found = judge({ redis_version });
    if (typeof expected === 'string') expect(found).toContain(expected);
    else expect(found).toEqual(expected);
  });

  test.each([
    ['7.1.0', 'Valkey 7.1.0, which is too old'],
    ['7.2.4', { version: 'Valkey 7.2.4', warnings: [] }],
    ['9.1.2', { version: 'Valkey 9.1.2', warnings: [] }],
  ])('Valkey %s', (valkey_version, expected) => {
    const found = judge({ redis_version: '7.2.4', valkey_version });
    if (typeof expected === 'string') expect(found).toContain(expected);
    else expect(found).toEqual(expected);
  });

  test('a replica, and a node of a Cluster named alone, are refused', () => {
    expect(judge({ redis_version: '7.0.0', role: 'slave' })).toContain('is a replica');
    expect(judge({ redis_version: '7.0.0', cluster_enabled: '1' })).toContain('separated by commas');
    expect(judge({ redis_version: '7.0.0', cluster_enabled: '1' }, true)).toEqual({
      version: 'Redis 7.0.0',
      warnings: [],
    });
  });
});
