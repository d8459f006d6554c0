import { NereidError } from '@nereid/protocol';
import { jobQueuePrefix } from './jobs-names.ts';
import { infoFields, type RedisClient, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';

/** BLMPOP and several keys in one are from here on. */
const REDIS_VERSION_MIN = [7, 0] as const;
const VALKEY_VERSION_MIN = [7, 2] as const;

export interface RedisCheckOptions {
  /** Warn of an evicting maxmemory-policy instead of refusing it. */
  readonly allowEvicting: boolean;
  /** Of the keys whose permissions are tried; 'nereid' by default. */
  readonly prefix: string;
}

export interface RedisCheck {
  /** E.g. `Redis 7.0.15`; `Redis` alone where INFO is hidden. */
  readonly version: string;
  readonly warnings: readonly string[];
}

/**
 * Looks once whether this Redis can be used. Throws UNAVAILABLE with one line that names the fix where it cannot be
 * reached, refuses the user, misses a permission, is a replica, is too old, or evicts keys.
 */
export async function checkRedis(connector: RedisConnector, options: RedisCheckOptions): Promise<RedisCheck> {
  const connection = connector.connect('check', { once: true });
  try {
    await reach(connection, connector.url);
    const info = await readInfo(connection.client);
    const check = checkRedisInfo(info, connector.url, { ...options, cluster: connector.cluster });
    await tryPermissions(connection.client, connector.url, options.prefix);
    return check;
  } finally {
    connection.close();
  }
}

async function reach(connection: RedisConnection, url: string): Promise<void> {
  try {
    await connection.ready();
  } catch (cause) {
    const { lastError } = connection;
    const said = lastError?.message ?? 'no answer';
    // A Cluster's client says why only beside its error.
    const deeper = lastError !== undefined && 'lastNodeError' in lastError ? lastError.lastNodeError : undefined;
    throw unreachable(url, deeper instanceof Error ? deeper.message : said, cause);
  }
}

/** The one line for a Redis that gave this error when it was dialled. */
export function unreachable(url: string, said: string, cause?: unknown): NereidError {
  const fail = (text: string) => new NereidError('UNAVAILABLE', text, { cause });
  if (/^(NOAUTH|WRONGPASS|ERR AUTH)/.test(said)) {
    return fail(
      `Redis at ${url} refuses the login (${said}): give user and password in --redis-url, as redis://user:password@host:port`,
    );
  }
  if (said.includes('cluster support disabled')) {
    return fail(`Redis at ${url} is no Cluster: give one host in --redis-url`);
  }
  return fail(`Redis at ${url} cannot be reached (${said}): start it, or correct --redis-url`);
}

async function readInfo(client: RedisClient): Promise<string | undefined> {
  try {
    return await client.info();
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('NOPERM')) return undefined;
    throw error;
  }
}

/** Judges the text of INFO; undefined where the user may not ask it. */
export function checkRedisInfo(
  text: string | undefined,
  url: string,
  options: { readonly allowEvicting: boolean; readonly cluster: boolean },
): RedisCheck {
  if (text === undefined) {
    return {
      version: 'Redis',
      warnings: [`Redis at ${url} hides INFO: its version and maxmemory-policy are not checked (allow +info)`],
    };
  }
  const fail = (why: string) => new NereidError('UNAVAILABLE', `Redis at ${url} ${why}`);
  const fields = infoFields(text);
  const valkey = fields.get('valkey_version');
  const version = valkey ?? fields.get('redis_version') ?? '0.0.0';
  const name = `${valkey === undefined ? 'Redis' : 'Valkey'} ${version}`;
  const oldest = valkey === undefined ? REDIS_VERSION_MIN : VALKEY_VERSION_MIN;
  if (olderThan(version, oldest)) {
    throw fail(`is ${name}, which is too old: use Redis 7.0 or Valkey 7.2, or later`);
  }
  if (fields.get('role') === 'slave') throw fail('is a replica: give the primary in --redis-url');
  if (fields.get('cluster_enabled') === '1' && !options.cluster) {
    throw fail('is a node of a Cluster: list its nodes in --redis-url, separated by commas');
  }
  const warnings: string[] = [];
  const policy = fields.get('maxmemory_policy');
  if (policy === undefined) {
    warnings.push(`Redis at ${url} does not tell its maxmemory-policy: make sure that it is noeviction`);
  } else if (policy !== 'noeviction') {
    const evicts = `may evict keys (maxmemory-policy ${policy}), and jobs and leases with them`;
    if (!options.allowEvicting) {
      throw fail(`${evicts}: set maxmemory-policy noeviction, or allow it by --allow-evicting-redis`);
    }
    warnings.push(`Redis at ${url} ${evicts}`);
  }
  return { version: name, warnings };
}

function olderThan(version: string, [major, minor]: readonly [number, number]): boolean {
  const [gotMajor = 0, gotMinor = 0] = version.split('.').map(Number);
  return gotMajor < major || (gotMajor === major && gotMinor < minor);
}

/** Looks whether this user may use the keys of jobs. Throws UNAVAILABLE with one line that names the rule where not. */
export async function checkJobKeys(connector: RedisConnector, jobPrefix: string): Promise<void> {
  const prefix = jobQueuePrefix(jobPrefix, 'check');
  const connection = connector.connect('check', { once: true });
  try {
    await reach(connection, connector.url);
    await connection.client.call('exists', `${prefix}:check`);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOPERM')) throw error;
    const shown = jobPrefix.replaceAll('%m', '*');
    throw new NereidError(
      'UNAVAILABLE',
      `Redis at ${connector.url} does not let this user read ${shown}:* (${error.message}): extend its rule by ~${shown}:* &${shown}:*, or give another --job-prefix`,
      { cause: error },
    );
  } finally {
    connection.close();
  }
}

/** Commands of the mailboxes, the directory and the shared resources, each on a key or channel of ours; docs/redis.md lists them as a rule. */
const PROBED_COMMANDS: readonly (readonly [command: string, before: readonly string[], after: readonly string[]])[] = [
  ['del', [], []],
  ['exists', [], []],
  ['get', [], []],
  ['getdel', [], []],
  ['set', [], ['1', 'PX', '1']],
  ['pexpire', [], ['1']],
  ['del', [], []],
  ['hset', [], ['a', '1']],
  ['hget', [], ['a']],
  ['hlen', [], []],
  ['hmget', [], ['a']],
  ['hgetall', [], []],
  ['hdel', [], ['a']],
  ['zadd', [], ['1', 'a']],
  ['zscore', [], ['a']],
  ['zrange', [], ['0', '1']],
  ['zrangebyscore', [], ['0', '1']],
  ['zrem', [], ['a']],
  ['rpush', [], ['1']],
  ['lindex', [], ['0']],
  ['blmpop', ['1', '1'], ['LEFT', 'COUNT', '1']],
  ['publish', [], ['1']],
  ['eval', ['return 1', '1'], []],
  ['evalsha', ['e0e1f9fabfc9d4800c877a703b823ac0578ff8db', '1'], []],
  ['del', [], []],
];

/** Tries each command; only a missing permission counts. Throws UNAVAILABLE naming the command and the rule. */
async function tryPermissions(client: RedisClient, url: string, prefix: string): Promise<void> {
  // A process id that no process has: those are letters and digits behind `gw-`, `co-` or `wk-`.
  const key = redisKeys(prefix).mailbox('check');
  for (const [command, before, after] of PROBED_COMMANDS) {
    try {
      await client.call(command, ...before, key, ...after);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOPERM')) continue;
      throw new NereidError(
        'UNAVAILABLE',
        `Redis at ${url} does not let this user run ${command.toUpperCase()} on ${prefix}:* (${error.message}): ` +
          `extend its rule by: ACL SETUSER … ~${prefix}:* &${prefix}:* +@all -@dangerous +info`,
        { cause: error },
      );
    }
  }
}
