import {
  DEFAULTS,
  decodeModelConfig,
  encodeModelConfig,
  LIMITS,
  type ModelRecord,
  type RetiringLoad,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import {
  checkRedis,
  connectRedis,
  createCombinedTransport,
  createLocalDirectory,
  createLocalTransport,
  createRedisDirectory,
  createRedisTransport,
  type Directory,
  type RedisConnector,
  type Timing,
  type Transport,
} from '@nereid/transport';
import { blobOptions } from './blob-options.ts';
import type { RedisOptions } from './server-options.ts';

/** How the roles of this process reach each other and those of other processes. */
export interface Lane {
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** Undefined on the local lane. */
  readonly connector: RedisConnector | undefined;
  close(): Promise<void>;
}

const MAILBOX_LIMITS = { messages_max: LIMITS.mailbox_messages_max, bytes_max: LIMITS.mailbox_bytes_max };

/** `reason` of the errors about a Redis that cannot be used. */
export const REDIS_UNUSABLE = 'redis_unusable';

/** One process by itself: messages are passed by reference, the directory is memory. */
export function openLocalLane(): Lane {
  const transport = createLocalTransport(MAILBOX_LIMITS);
  return { transport, directory: createLocalDirectory(), connector: undefined, close: () => transport.close() };
}

export interface RedisLaneParts {
  readonly redis: RedisOptions;
  /** Shown in the names of connections, e.g. the role. */
  readonly name: string;
  /** True: also what stays in this process goes through Redis. */
  readonly always: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

/** A process of a cluster. Throws UNAVAILABLE with REDIS_UNUSABLE where the Redis cannot be used, with the fix. */
export async function openRedisLane(parts: RedisLaneParts): Promise<Lane> {
  const { redis, name, clock, log, timing } = parts;
  const prefix = redis.prefix ?? DEFAULTS.redis_prefix;
  const closers: (() => unknown)[] = [];
  /** Last opened first. */
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const connector = connectRedis(redis.url, { name });
    closers.push(() => connector.close());
    const { warnings } = await checkRedis(connector, { allowEvicting: redis.allowEvicting ?? false, prefix });
    for (const warning of warnings) log.warn(warning);
    const directory = createRedisDirectory<ModelRecord>({
      connector,
      prefix,
      log,
      clock,
      timing,
      encode: encodeRecord,
      decode: decodeRecord,
    });
    const blobs = blobOptions({ redis, prefix, clock, log, directory });
    const remote = createRedisTransport({ connector, prefix, limits: MAILBOX_LIMITS, log, clock, timing, blobs });
    const transport = parts.always ? remote : createCombinedTransport(createLocalTransport(MAILBOX_LIMITS), remote);
    closers.push(
      () => transport.close(),
      () => directory.close(),
    );
    await directory.start();
    return {
      transport,
      directory: {
        ...directory,
        async register(process) {
          // Nobody is to hear of a mailbox that Redis does not know yet; who leaves has had one, and Redis may be away.
          if (!process.draining) await remote.opened();
          const host = blobs.files?.host;
          await directory.register(host === undefined ? process : { ...process, blobHost: host });
        },
      },
      connector,
      close,
    };
  } catch (failure) {
    await close();
    throw redisUnusable(failure);
  }
}

/** Gives an error the reason that the Redis cannot be used. */
export function redisUnusable(cause: unknown): unknown {
  if (!(cause instanceof NereidError)) return cause;
  return new NereidError(cause.code, cause.message, { reason: REDIS_UNUSABLE, cause });
}

function encodeRecord(record: ModelRecord): string {
  const retiring = record.retiring?.map((load) => ({ ...load, config: encodeModelConfig(load.config) }));
  return JSON.stringify({ ...record, retiring, config: encodeModelConfig(record.config) });
}

type Encoded<T> = Omit<T, 'config'> & { readonly config: string };
type EncodedRecord = Encoded<Omit<ModelRecord, 'retiring'>> & { readonly retiring?: readonly Encoded<RetiringLoad>[] };

function decodeRecord(text: string): ModelRecord {
  const { retiring, ...record } = JSON.parse(text) as EncodedRecord;
  const decoded = { ...record, config: decodeModelConfig(record.config) };
  if (retiring === undefined) return decoded;
  return { ...decoded, retiring: retiring.map((load) => ({ ...load, config: decodeModelConfig(load.config) })) };
}
