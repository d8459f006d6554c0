import { NereidError } from '@nereid/protocol';
import { Cluster, type Redis } from 'ioredis';
import { infoFields, isRefusal, type RedisClient, type RedisConnector } from './redis-connection.ts';

/** How what was written to a Redis gets to its disk. */
export interface Durability {
  /** By `appendonly`; undefined where INFO is hidden. */
  readonly appendonly: boolean | undefined;
  /** `always`, `everysec` or `no`; undefined where CONFIG is hidden. */
  readonly appendfsync: string | undefined;
  /** It syncs also while it rewrites its file; undefined where CONFIG is hidden. */
  readonly syncsOnRewrite: boolean | undefined;
  /** E.g. `Redis 7.0.15`; `Redis` alone where INFO is hidden. */
  readonly version: string;
  /** WAITAOF is there and allowed. */
  readonly waitaof: boolean;
}

/** How an add of a job becomes safe from a kill of Redis. */
export type SafeAdd =
  /** Redis answers once it is. */
  | { readonly ok: true; readonly waits: false }
  /** By a WAITAOF after it. */
  | { readonly ok: true; readonly waits: true }
  | { readonly ok: false; readonly why: string };

/** What `--jobs-fsync=always` takes of a Redis with that durability (docs/protocol.md R31). */
export function safeAdd(found: Durability, cluster: boolean): SafeAdd {
  const { appendonly, appendfsync, syncsOnRewrite, version, waitaof } = found;
  if (appendonly === false) {
    return { ok: false, why: 'keeps no append-only file: set appendonly yes and appendfsync always' };
  }
  if (appendfsync === 'always' && syncsOnRewrite === true) return { ok: true, waits: false };
  // WAITAOF asks one connection's server; a Cluster has several, and moves keys between them.
  if (waitaof && !cluster && appendfsync !== 'no') return { ok: true, waits: true };
  if (appendfsync === undefined) {
    const rest = cluster ? '' : ', or use Redis 7.2 or later, which can be waited for';
    return { ok: false, why: `(${version}) hides its appendfsync: allow +config|get${rest}` };
  }
  if (appendfsync === 'always') {
    return { ok: false, why: 'does not sync while it rewrites its file: set no-appendfsync-on-rewrite no' };
  }
  const rest = cluster || appendfsync === 'no' ? '' : ', or use Redis 7.2 or later, which can be waited for';
  return { ok: false, why: `(${version}) has appendfsync ${appendfsync}: set appendfsync always${rest}` };
}

export interface JobsDurability {
  /** Adds are to wait for the disk by WAITAOF. */
  readonly waits: boolean;
  readonly warnings: readonly string[];
}

/**
 * Looks once how safe jobs are in this Redis. Throws UNAVAILABLE with one line that names the fix where `fsync` asks for
 * more than it can be brought to; warns where even an ordered restart may lose jobs.
 */
export async function checkJobsDurability(
  connector: RedisConnector,
  fsync: 'everysec' | 'always',
): Promise<JobsDurability> {
  const connection = connector.connect('check', { once: true });
  try {
    await connection.ready();
    const found = await Promise.all(serversOf(connection.client).map(durabilityOf));
    if (fsync === 'everysec') {
      const warnings = found.some(({ appendonly }) => appendonly === false)
        ? [
            `Redis at ${connector.url} keeps no append-only file: jobs since its last snapshot are lost whenever it ends (set appendonly yes)`,
          ]
        : [];
      return { waits: false, warnings };
    }
    let waits = false;
    for (const server of found) {
      const verdict = safeAdd(server, connector.cluster);
      if (!verdict.ok) {
        throw new NereidError('UNAVAILABLE', `--jobs-fsync=always: Redis at ${connector.url} ${verdict.why}`);
      }
      waits ||= verdict.waits;
    }
    return { waits, warnings: [] };
  } finally {
    connection.close();
  }
}

function serversOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

async function durabilityOf(server: Redis): Promise<Durability> {
  const fields = infoFields(String((await allowed(server, 'INFO')) ?? ''));
  const config = await allowed(server, 'CONFIG', 'GET', '*appendfsync*');
  const settings = Array.isArray(config) ? pairs(config.map(String)) : undefined;
  const rewrite = settings?.get('no-appendfsync-on-rewrite');
  const appendonly = fields.get('aof_enabled');
  const valkey = fields.get('valkey_version');
  const version = valkey ?? fields.get('redis_version');
  return {
    appendonly: appendonly === undefined ? undefined : appendonly === '1',
    appendfsync: settings?.get('appendfsync'),
    syncsOnRewrite: rewrite === undefined ? undefined : rewrite === 'no',
    version: version === undefined ? 'Redis' : `${valkey === undefined ? 'Redis' : 'Valkey'} ${version}`,
    // Of nothing, which is there at once.
    waitaof: (await allowed(server, 'WAITAOF', '0', '0', '1')) !== undefined,
  };
}

/** Undefined where Redis says no: not known to it, or not allowed. */
async function allowed(server: Redis, command: string, ...args: readonly string[]): Promise<unknown> {
  try {
    return await server.call(command, ...args);
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

function pairs(flat: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) found.set(flat[index] ?? '', flat[index + 1] ?? '');
  return found;
}
