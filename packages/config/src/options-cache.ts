/**
 * Options of the response cache. Flags, caches and their settings are Triton's (command_line_parser.cc;
 * docs/user_guide/response_cache.md; redis_cache/README.md).
 */
import { z } from 'zod';
import { EVERY_ROLE, type FlagMeta, flagMetas } from './flag-meta.ts';
import { nearestName } from './flag-nearest.ts';

const cache: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Models', roles: EVERY_ROLE };

export const cacheOptions = {
  cacheConfig: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...cache,
      secret: true,
      form: '<cache>,<key>=<value>',
      description:
        'A setting of the response cache, which keeps the answers of models whose config has `response_cache { enable: true }`. `local,size=<bytes>` keeps them in this process, `redis` in the Redis of --redis-url, `redis,host=<host>` in another one. `ttl_s` is how long an answer is kept, in seconds. docs/caching.md has all keys. The same in all processes that belong together. Repeat it for several.',
    }),
  responseCacheByteSize: z
    .int()
    .min(0)
    .default(0)
    .register(flagMetas, {
      ...cache,
      form: '<bytes>',
      deprecated: '--cache-config=local,size=<bytes>',
      description: 'The size of a response cache in this process; 0 for none.',
    }),
};

/** A Redis of its own for kept answers. */
export interface CacheRedis {
  readonly url: string;
  /** Files in PEM; absent without TLS. */
  readonly tls?: {
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
    readonly ca?: string | undefined;
    /** The name that its certificate must have. */
    readonly servername?: string | undefined;
  };
}

/** Where the answers of models are kept. */
export type CacheConfig =
  | {
      readonly kind: 'local';
      readonly bytes_max: number;
      /** How long an answer is kept; 0 for no end. */
      readonly ttl_s: number;
    }
  | {
      readonly kind: 'redis';
      /** Absent: the Redis of the cluster. */
      readonly redis?: CacheRedis;
      readonly ttl_s: number;
      /** How long a look-up waits for Redis before it counts as a miss. */
      readonly answer_ms: number;
    };

export const CACHE_DEFAULTS = { redis_ttl_s: 3_600, redis_answer_ms: 100, redis_port: 6_379 } as const;
/** Ten years. */
export const CACHE_TTL_S_MAX = 315_360_000;
export const CACHE_ANSWER_MS_MAX = 60_000;
const DATABASE_MAX = 99_999;
const PORT_MAX = 65_535;

type Rule = (value: string) => string | undefined;

const whole =
  (min: number, max: number): Rule =>
  (value) =>
    /^\d+$/.test(value) && Number(value) >= min && Number(value) <= max
      ? undefined
      : `a whole number from ${min} to ${max}`;
const any: Rule = () => undefined;
const ttl = whole(1, CACHE_TTL_S_MAX);

/** The keys of each cache, with what a value may be where it is none. */
const KEYS = {
  local: { size: whole(0, Number.MAX_SAFE_INTEGER), ttl_s: ttl },
  redis: {
    host: (value) => (/^[^\s,/@?#[\]]+$/.test(value) ? undefined : 'the name or address of a host'),
    port: whole(1, PORT_MAX),
    user: any,
    password: any,
    db: whole(0, DATABASE_MAX),
    ttl_s: ttl,
    socket_timeout: whole(0, CACHE_ANSWER_MS_MAX),
    connect_timeout: whole(0, Number.MAX_SAFE_INTEGER),
    wait_timeout: whole(0, Number.MAX_SAFE_INTEGER),
    pool_size: whole(0, Number.MAX_SAFE_INTEGER),
    cert: any,
    key: any,
    cacert: any,
    cacert_dir: () => 'the file of certificates as cacert: a folder of them cannot be used',
    sni: any,
  },
} satisfies Readonly<Record<string, Readonly<Record<string, Rule>>>>;

type CacheName = keyof typeof KEYS;

/** Of the Redis that `host` names; without it they would be settings of nothing. */
const OF_HOST = ['port', 'user', 'password', 'db', 'cert', 'key', 'cacert', 'sni'] as const;
/** Triton's, of its pool of connections. */
const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  connect_timeout: 'no request waits for a connection',
  wait_timeout: 'no request waits for a connection',
  pool_size: 'one connection carries all look-ups',
};

/** The values of these flags. */
export interface CacheFlags {
  readonly cacheConfig: readonly string[];
  readonly responseCacheByteSize: number;
  readonly redisUrl: string;
}

export type ReadCacheConfig =
  | {
      readonly ok: true;
      /** Undefined: nothing is kept. */
      readonly value: CacheConfig | undefined;
      /** What of it has no effect. */
      readonly warnings: readonly string[];
    }
  | { readonly ok: false; readonly error: string };

interface Entry {
  readonly cache: CacheName;
  readonly key: string;
  readonly value: string;
}

const failed = (why: string): ReadCacheConfig => ({ ok: false, error: `--cache-config: ${why}` });

/**
 * The cache that the flags ask for; `env` for the user and password that Triton's redis cache reads from the
 * environment. The error is one line without a password in it.
 */
export function readCacheConfig(
  flags: CacheFlags,
  env: Readonly<Record<string, string | undefined>> = {},
): ReadCacheConfig {
  const { responseCacheByteSize: size } = flags;
  if (size > 0 && flags.cacheConfig.length > 0) {
    // Triton's own text (server/src/command_line_parser.cc).
    const text = 'Incompatible flags --cache-config and --response-cache-byte-size both provided. Please provide one';
    return { ok: false, error: `${text} or the other.` };
  }
  const entries: Entry[] = [];
  for (const text of size > 0 ? [`local,size=${size}`] : flags.cacheConfig) {
    const entry = readEntry(text);
    if (typeof entry === 'string') return failed(entry);
    entries.push(entry);
  }
  const [first] = entries;
  if (first === undefined) return { ok: true, value: undefined, warnings: [] };
  const other = entries.find(({ cache: name }) => name !== first.cache);
  if (other !== undefined) return failed(`${first.cache} and ${other.cache} are both named: give one cache`);
  // The last of each key holds.
  const settings = new Map(entries.map(({ key, value }) => [key, value]));
  return first.cache === 'local' ? localConfig(settings) : redisConfig(settings, flags, env);
}

type Settings = ReadonlyMap<string, string>;

function localConfig(settings: Settings): ReadCacheConfig {
  const size = settings.get('size');
  if (size === undefined) return failed('local has no size: give local,size=<bytes>');
  const bytes_max = Number(size);
  const value = { kind: 'local', bytes_max, ttl_s: Number(settings.get('ttl_s') ?? 0) } as const;
  return { ok: true, value: bytes_max === 0 ? undefined : value, warnings: [] };
}

function redisConfig(settings: Settings, flags: CacheFlags, env: Readonly<Record<string, string | undefined>>) {
  const host = settings.get('host');
  const homeless = OF_HOST.find((key) => settings.has(key));
  if (host === undefined && homeless !== undefined) {
    return failed(`redis,${homeless} needs redis,host=<host>; without a host the Redis of --redis-url is used`);
  }
  if (host === undefined && flags.redisUrl === '') {
    return failed('redis names no Redis: give redis,host=<host>, or --redis-url');
  }
  const warnings = Object.entries(WITHOUT_EFFECT).flatMap(([key, why]) =>
    settings.has(key) ? [`--cache-config=redis,${key} has no effect: ${why}`] : [],
  );
  const value: CacheConfig = {
    kind: 'redis',
    ttl_s: Number(settings.get('ttl_s') ?? CACHE_DEFAULTS.redis_ttl_s),
    // 0 is for ever in Triton; here no request waits so long.
    answer_ms: Number(settings.get('socket_timeout') ?? 0) || CACHE_DEFAULTS.redis_answer_ms,
    ...(host === undefined ? {} : { redis: ownRedis(host, settings, env) }),
  };
  return { ok: true, value, warnings } as const;
}

function ownRedis(host: string, settings: Settings, env: Readonly<Record<string, string | undefined>>): CacheRedis {
  const text = (key: string, variable: string) => encodeURIComponent(settings.get(key) ?? env[variable] ?? '');
  const user = text('user', 'TRITONCACHE_REDIS_USERNAME');
  const password = text('password', 'TRITONCACHE_REDIS_PASSWORD');
  const login = user === '' && password === '' ? '' : `${user}:${password}@`;
  const [cert, key, ca, servername] = ['cert', 'key', 'cacert', 'sni'].map((name) => settings.get(name));
  const tls = [cert, key, ca, servername].some((value) => value !== undefined);
  const port = settings.get('port') ?? CACHE_DEFAULTS.redis_port;
  const shown = host.includes(':') ? `[${host}]` : host;
  return {
    url: `${tls ? 'rediss' : 'redis'}://${login}${shown}:${port}/${settings.get('db') ?? 0}`,
    ...(tls ? { tls: { cert, key, ca, servername } } : {}),
  };
}

/** The parts of one value, or what is wrong with it, in words without the value itself: it may be a password. */
function readEntry(text: string): Entry | string {
  const comma = text.indexOf(',');
  const name = comma < 0 ? text : text.slice(0, comma);
  if (!isCache(name)) {
    const nearest = nearestName(name.split('=')[0] ?? '', Object.keys(KEYS));
    const shown = name.includes('=') ? 'no cache is named' : `there is no cache '${name}'`;
    return `${shown}: ${nearest === undefined ? 'give local or redis' : `did you mean ${nearest}?`}`;
  }
  if (comma < 0) {
    // Ours: Triton wants a key. What it says is all that there is to say.
    return name === 'redis' ? { cache: name, key: '', value: '' } : `${name} has no size: give local,size=<bytes>`;
  }
  const equals = text.indexOf('=', comma);
  const key = text.slice(comma + 1, equals < 0 ? undefined : equals);
  const rules: Readonly<Record<string, Rule>> = KEYS[name];
  const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
  if (rule === undefined) {
    const nearest = nearestName(key, Object.keys(rules));
    const fix = nearest === undefined ? `give ${Object.keys(rules).join(', ')}` : `did you mean ${name},${nearest}?`;
    return `${name} has no key '${key}': ${fix}`;
  }
  const value = equals < 0 ? '' : text.slice(equals + 1);
  if (value === '') return `${name},${key} has no value: give ${name},${key}=<value>`;
  const allowed = rule(value);
  if (allowed === undefined) return { cache: name, key, value };
  const [own, second] = value.split(',', 2);
  if (second !== undefined) {
    return `a flag has room for one key: give --cache-config=${name},${key}=${own}, and each other key by a flag of its own`;
  }
  return `${name},${key}: '${value}' is not allowed: give ${allowed}`;
}

function isCache(name: string): name is CacheName {
  return Object.hasOwn(KEYS, name);
}
