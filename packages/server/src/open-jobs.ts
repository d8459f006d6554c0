import { DEFAULTS, hasHashTag, type JobsFsync, type JournalLimits } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import {
  type BulkStore,
  checkJobKeys,
  checkJobsDurability,
  checkRedis,
  connectRedis,
  createBulkStore,
  createJobQueues,
  createJournalStore,
  type JobQueues,
  type JobQueuesOptions,
  type JobsDurability,
  type JournalStore,
  type RedisConnector,
  type Timing,
} from '@nereid/transport';
import { redisUnusable } from './lane.ts';
import { openPrivateRedis } from './private-redis.ts';
import type { PrivateRedisOptions } from './server-options.ts';

/** Where jobs are. */
export interface OpenedJobs {
  /** Undefined where no Redis can be had: `hint` then says what to do. */
  readonly queues: JobQueues | undefined;
  /** Where batches are: in the same Redis. */
  readonly bulk: BulkStore | undefined;
  /** Where recordings are: in the same Redis. */
  readonly journal: JournalStore | undefined;
  readonly hint: string | undefined;
  close(): Promise<void>;
}

export interface JobsParts {
  readonly prefix: string | undefined;
  /** Of keys that are not BullMQ's. */
  readonly redisPrefix: string;
  readonly fsync: JobsFsync;
  /** False: BullMQ's public API alone. */
  readonly scripts: boolean;
  readonly journal: JournalLimits;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
}

const NO_STORES = { queues: undefined, bulk: undefined, journal: undefined };
const NONE: OpenedJobs = { ...NO_STORES, hint: undefined, close: async () => {} };

/**
 * Jobs in the cluster's Redis, whose connector closes with its lane. Throws INVALID_ARG for a prefix
 * that a Cluster cannot use, UNAVAILABLE with REDIS_UNUSABLE for one that its user may not use.
 */
export async function openClusterJobs(connector: RedisConnector, parts: JobsParts): Promise<OpenedJobs> {
  // BullMQ's scripts use several keys of a queue at once.
  const prefix = parts.prefix ?? DEFAULTS.job_prefix;
  if (connector.cluster && !hasHashTag(prefix)) {
    const text = "jobPrefix needs a hash tag where Redis is a Cluster, e.g. '{bull-%m}'";
    throw new NereidError('INVALID_ARG', text, { field: 'jobPrefix' });
  }
  let durability: JobsDurability;
  try {
    await checkJobKeys(connector, prefix);
    durability = await checkJobsDurability(connector, parts.fsync);
  } catch (failure) {
    throw redisUnusable(failure);
  }
  for (const warning of durability.warnings) parts.log.warn(warning);
  const queues = jobQueues(connector, parts, { waitsForDisk: durability.waits });
  const bulk = bulkStore(connector, parts, durability.waits);
  const journal = journalStore(connector, parts);
  return {
    queues,
    bulk,
    journal,
    hint: undefined,
    async close() {
      journal.close();
      bulk.close();
      await queues.close();
    },
  };
}

/**
 * Jobs in a private Redis on the data directory. Without a Redis program synchronous inference works
 * all the same. Throws UNAVAILABLE where the directory or its Redis cannot be used.
 */
export async function openPrivateJobs(given: PrivateRedisOptions | undefined, parts: JobsParts): Promise<OpenedJobs> {
  if (given === undefined) return NONE;
  const redis = await openPrivateRedis(given, parts);
  const stops: (() => Promise<void>)[] = [redis.close];
  const close = async () => {
    for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) await stop();
  };
  try {
    if (redis.url === undefined) {
      parts.log.warn(`jobs are off, requests are served: ${redis.hint}`);
      return { ...NO_STORES, hint: redis.hint, close };
    }
    const connector = connectRedis(redis.url, { name: 'serve' });
    stops.push(async () => connector.close());
    await checkRedis(connector, { allowEvicting: false, prefix: DEFAULTS.redis_prefix });
    // Our own syncs as we have told it to, and no other process takes jobs there.
    const queues = jobQueues(connector, parts, { waitsForDisk: false, alone: true });
    stops.push(() => queues.close());
    const journal = journalStore(connector, parts);
    stops.push(async () => journal.close());
    // Its connection closes with the connector.
    return { queues, bulk: bulkStore(connector, parts, false), journal, hint: undefined, close };
  } catch (failure) {
    await close();
    throw failure instanceof NereidError
      ? failure
      : new NereidError('UNAVAILABLE', String(failure), { cause: failure });
  }
}

function bulkStore(connector: RedisConnector, { redisPrefix, clock }: JobsParts, waitsForDisk: boolean): BulkStore {
  return createBulkStore({ connector, prefix: redisPrefix, clock, waitsForDisk });
}

function journalStore(connector: RedisConnector, { redisPrefix, clock, log, journal }: JobsParts): JournalStore {
  return createJournalStore({ connector, prefix: redisPrefix, clock, log, limits: journal });
}

function jobQueues(
  connector: RedisConnector,
  { prefix, redisPrefix, clock, log, timing, scripts }: JobsParts,
  how: Pick<JobQueuesOptions, 'waitsForDisk' | 'alone'>,
): JobQueues {
  const given = prefix === undefined ? {} : { prefix };
  return createJobQueues({ connector, timing, clock, log, scripts, redisPrefix, ...how, ...given });
}
