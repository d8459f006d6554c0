/** Uploads in Redis, for all processes of a cluster; what nobody says it keeps runs out. */
import { NereidError } from '@nereid/protocol';
import { answeredWithin, type Clock } from '@nereid/runtime';
import { isRefusal, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { type Uploads, uploadName, uploadsFull } from './uploads.ts';

/** How long a call waits for the connection. */
const CONNECT_MS_MAX = 2_000;
/** From its put to the first word that something refers to it: a load reads it at once. */
const PUT_TTL_MS = 600_000;
/** Coordinators renew it every few seconds; it outlives a time without any. */
const KEPT_TTL_MS = 86_400_000;
/** Somebody may have put it anew and not said yet what for. */
const RELEASED_TTL_MS = 60_000;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** KEYS: names by when they run out, their bytes, the upload. ARGV: its name, what it holds, its time to live, the bound. */
const PUT = `${NOW}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
local held = 0
for _, bytes in ipairs(redis.call('HVALS', KEYS[2])) do held = held + tonumber(bytes) end
local known = redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1
if not known and held + #ARGV[2] > tonumber(ARGV[4]) then return 0 end
local untilMs = math.max(now + tonumber(ARGV[3]), tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0))
redis.call('SET', KEYS[3], ARGV[2])
redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', untilMs))
redis.call('ZADD', KEYS[1], string.format('%.0f', untilMs), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], #ARGV[2])
return 1
`;

/** KEYS: names by when they run out, then uploads. ARGV: their time to live from now on, then their names. */
const TOUCH = `${NOW}
local untilMs = string.format('%.0f', now + tonumber(ARGV[1]))
for i = 2, #KEYS do
  if redis.call('PEXPIREAT', KEYS[i], untilMs) == 1 then redis.call('ZADD', KEYS[1], untilMs, ARGV[i]) end
end
return 1
`;

interface WithScripts {
  nereidPutUpload(...keysAndArgs: readonly (string | Buffer)[]): Promise<number>;
  nereidTouchUploads(...keysAndArgs: readonly (string | number)[]): Promise<unknown>;
}

export interface RedisUploadsOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
  readonly limits: { readonly uploads_bytes_max: number };
}

/** On a connection of its own, which is dialled at the first use: large values hold up what is behind them. */
export function createRedisUploads({ connector, prefix, clock, limits }: RedisUploadsOptions): Uploads {
  const keys = redisKeys(prefix);
  const index = keys.uploads('all');
  const keyOf = (name: string) => keys.upload('all', name);
  const connection = connector.connect('uploads');
  const { client } = connection;
  client.defineCommand('nereidPutUpload', { numberOfKeys: 3, lua: PUT });
  client.defineCommand('nereidTouchUploads', { lua: TOUCH });
  const scripted = client as typeof client & WithScripts;

  const connected = async () => {
    if (!connection.isReady) await answeredWithin(connection.ready(), CONNECT_MS_MAX, clock);
  };

  const touch = async (names: readonly string[], ttlMs: number) => {
    if (names.length === 0) return;
    await connected();
    await scripted.nereidTouchUploads(names.length + 1, index, ...names.map(keyOf), ttlMs, ...names);
  };

  return {
    async put(bytes) {
      const name = uploadName(bytes);
      const value = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const bound = String(limits.uploads_bytes_max);
      let taken: number;
      try {
        await connected();
        taken = await scripted.nereidPutUpload(
          ...[index, keys.uploadBytes('all'), keyOf(name), name, value, String(PUT_TTL_MS), bound],
        );
      } catch (cause) {
        const why = isRefusal(cause) ? `Redis refuses them: ${cause.message}` : 'Redis does not answer; try again';
        throw new NereidError('UNAVAILABLE', `the uploaded files are not kept: ${why}`, { cause });
      }
      if (taken === 0) throw uploadsFull(bytes.byteLength, limits.uploads_bytes_max);
      return name;
    },
    async done() {
      // They run out.
    },
    keep: (names) => touch(names, KEPT_TTL_MS),
    release: (names) => touch(names, RELEASED_TTL_MS),
    async get(name) {
      await connected();
      return (await client.getBuffer(keyOf(name))) ?? undefined;
    },
  };
}
