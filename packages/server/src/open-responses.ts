/** Where the callers of a process keep answers (docs/caching.md). */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { createLocalResponses, createRedisResponses, type ResponseStore } from '@nereid/caller';
import { badOption, type CacheConfig, type CacheRedis, DEFAULTS, LIMITS } from '@nereid/config';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { connectRedis, type RedisConnector } from '@nereid/transport';

export interface OpenResponsesParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Of the cluster's Redis; undefined where the server is by itself. */
  readonly connector: RedisConnector | undefined;
  readonly prefix?: string | undefined;
  /** Shown in the names of connections, e.g. the role. */
  readonly name: string;
}

/**
 * One store for all callers of the process. A Redis of its own is dialled and not waited for: without it requests run.
 * Throws INVALID_ARG where there is no Redis to use, or a file of the connection cannot be read.
 */
export function openResponses(cache: CacheConfig, parts: OpenResponsesParts): ResponseStore {
  const { clock, log, name } = parts;
  if (cache.kind === 'local') return createLocalResponses({ ...cache, clock });
  const own = cache.redis === undefined ? undefined : connectRedis(cache.redis.url, { name, ...tlsOf(cache.redis) });
  const connector = own ?? parts.connector;
  if (connector === undefined) {
    throw new NereidError('INVALID_ARG', 'cache needs the URL of a Redis: this server is by itself', {
      field: 'cache',
    });
  }
  const { ttl_s, answer_ms } = cache;
  const prefix = parts.prefix ?? DEFAULTS.redis_prefix;
  const store = createRedisResponses({ connector, prefix, clock, log, ttl_s, answer_ms, limits: LIMITS });
  return {
    ...store,
    close() {
      store.close();
      own?.close();
    },
  };
}

function tlsOf({ tls }: CacheRedis): { readonly tls?: ConnectionOptions } {
  if (tls === undefined) return {};
  const { cert, key, ca, servername } = tls;
  return {
    tls: {
      ...fileOf('cert', cert),
      ...fileOf('key', key),
      ...fileOf('ca', ca),
      ...(servername === undefined ? {} : { servername }),
    },
  };
}

function fileOf(name: 'cert' | 'key' | 'ca', path: string | undefined): { readonly [name: string]: Buffer } {
  if (path === undefined) return {};
  try {
    return { [name]: readFileSync(path) };
  } catch (cause) {
    const { code, message, ...detail } = badOption('cache-config', `cannot read ${path}: ${thrownText(cause)}`);
    throw new NereidError(code, message, { ...detail, cause });
  }
}
