import type { ResponseStore } from '@nereid/caller';
import { DEFAULTS, LIMITS, type ModelRecord } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import {
  type Clock,
  createLifecycle,
  createLog,
  createRegistry,
  type Lifecycle,
  type Log,
  type Registry,
  systemClock,
} from '@nereid/runtime';
import { createLocalUploads, createRedisUploads, type RedisConnector, timing } from '@nereid/transport';
import { openLocalLane, openRedisLane, REDIS_UNUSABLE } from './lane.ts';
import { openResponses } from './open-responses.ts';
import { openPrivateRedis } from './private-redis.ts';
import type { Shared } from './roles.ts';
import type { RedisOptions, ServerOptions } from './server-options.ts';
import { followSettings } from './services.ts';

const STOP_DEADLINE_MS = DEFAULTS.exit_timeout_s * 1000;

/** What any process of ours is made of before its roles. */
export interface ProcessParts {
  readonly shared: Shared & { readonly clock: ReturnType<typeof systemClock> };
  /** Every model known, by name. */
  models(): readonly ModelRecord[];
  /** Of the cluster's Redis; undefined where the server is by itself. */
  readonly connector: RedisConnector | undefined;
  readonly registry: Registry;
  readonly lifecycle: Lifecycle;
  /** Milliseconds that a stop may still take. */
  readonly leftMs: () => number;
  /** Stops all parts, last started first, within the deadline. Idempotent. */
  stop(options?: { readonly deadlineMs?: number }): Promise<void>;
}

/**
 * Opens the lane and hands the rest to `start`; whatever fails, all that had started is stopped.
 * `name` is shown in the names of Redis connections.
 */
export async function startProcess<T>(
  name: string,
  options: ServerOptions,
  start: (parts: ProcessParts) => Promise<T>,
): Promise<T> {
  const lifecycle = createLifecycle();
  try {
    return await start(await processParts(name, options, lifecycle));
  } catch (failure) {
    await lifecycle.stop();
    throw failure;
  }
}

async function processParts(name: string, options: ServerOptions, lifecycle: Lifecycle): Promise<ProcessParts> {
  const clock = systemClock();
  const log = options.log ?? createLog({ level: 'silent' });
  const redis = options.redis ?? (await laneRedis(options, { clock, log, lifecycle }));
  const times = redis === undefined ? undefined : timing(options.timeScale ?? DEFAULTS.time_scale);
  const lane = await lifecycle.add(
    'lane',
    async () =>
      redis === undefined || times === undefined
        ? openLocalLane()
        : openRedisLane({ redis, name, always: options.lane === 'redis', clock, log, timing: times }),
    (opened) => opened.close(),
  );
  followSettings(lane.directory, options, log);
  const { connector } = lane;
  const prefix = redis?.prefix ?? DEFAULTS.redis_prefix;
  const uploads =
    connector === undefined
      ? createLocalUploads(LIMITS)
      : createRedisUploads({ connector, prefix, clock, limits: LIMITS });
  const responses = await addResponses(options, lane.connector, { clock, log, name, lifecycle, redis });
  let untilUs: number | undefined;
  return {
    shared: {
      clock,
      log,
      transport: lane.transport,
      directory: lane.directory,
      uploads,
      ...(responses === undefined ? {} : { responses }),
      ...(times === undefined ? {} : { timing: times }),
    },
    models: () => lane.directory.records().toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    connector: lane.connector,
    registry: createRegistry(),
    lifecycle,
    leftMs: () => (untilUs === undefined ? STOP_DEADLINE_MS : Math.max(0, (untilUs - clock.nowUs()) / 1000)),
    stop({ deadlineMs } = {}) {
      untilUs ??= clock.nowUs() + (deadlineMs ?? STOP_DEADLINE_MS) * 1000;
      return lifecycle.stop();
    },
  };
}

async function addResponses(
  { cache }: ServerOptions,
  connector: RedisConnector | undefined,
  parts: {
    readonly clock: Clock;
    readonly log: Log;
    readonly name: string;
    readonly lifecycle: Lifecycle;
    readonly redis: RedisOptions | undefined;
  },
): Promise<ResponseStore | undefined> {
  if (cache === undefined) return undefined;
  return parts.lifecycle.add(
    'response cache',
    async () => openResponses(cache, { ...parts, connector, prefix: parts.redis?.prefix }),
    async (store) => store.close(),
  );
}

/** The private Redis, where a server by itself is to send its messages through one; its jobs are there too then. */
async function laneRedis(
  { lane, privateRedis, jobsFsync: fsync = DEFAULTS.jobs_fsync }: ServerOptions,
  parts: { readonly clock: Clock; readonly log: Log; readonly lifecycle: Lifecycle },
): Promise<RedisOptions | undefined> {
  if (lane !== 'redis' || privateRedis === undefined) return undefined;
  const { url, hint } = await parts.lifecycle.add(
    'private Redis',
    () => openPrivateRedis(privateRedis, { ...parts, fsync }),
    (redis) => redis.close(),
  );
  if (url !== undefined) return { url };
  throw new NereidError('UNAVAILABLE', `the lane 'redis' needs a Redis: ${hint}`, { reason: REDIS_UNUSABLE });
}
