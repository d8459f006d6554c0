import type { JobsFsync } from '@nereid/config';
import { type Clock, type Log, pause } from '@nereid/runtime';
import type { DataDirectory } from './data-directory.ts';
import { findRedisBinary } from './redis-binary.ts';
import { clearRedisPlace, openRedisPlace } from './redis-place.ts';
import { adoptRedis, endRedis, type RedisParts, type RedisProcess, spawnRedis } from './redis-process.ts';

/** A Redis of this server alone, on a socket that only its user can open. */
export interface EmbeddedRedis {
  /** `unix://…`, the same for as long as it is held. */
  readonly url: string;
  /** Of the server that runs now, or ran last. */
  readonly pid: number;
  /** Ends it with its data written. Idempotent. */
  stop(): Promise<void>;
}

export type StartedRedis =
  | { readonly redis: EmbeddedRedis; readonly hint?: never }
  /** No program that could be started; the hint is one line that says how to install one. */
  | { readonly redis: undefined; readonly hint: string };

export interface EmbeddedRedisOptions {
  /** Open, so that no other process starts one on the same files. */
  readonly dataDirectory: DataDirectory;
  readonly log: Log;
  readonly clock: Clock;
  /** Where the program is looked for: a PATH. */
  readonly searchPath: string;
  readonly fsync: JobsFsync;
}

const RESTART_PAUSE_MS_MIN = 100;
const RESTART_PAUSE_MS_MAX = 5_000;
/** After so long a life the next restart waits the shortest pause again. */
const STABLE_MS = 60_000;

/**
 * Starts a private Redis on the data directory, or goes on with the one that an earlier process of
 * ours left there when it was killed, and starts it again on the same files whenever it dies. When
 * this process exits without `stop`, the Redis is told to end too. Throws UNAVAILABLE, with what to
 * do, where it does not start.
 */
export async function startEmbeddedRedis(options: EmbeddedRedisOptions): Promise<StartedRedis> {
  const { dataDirectory, log, clock, searchPath, fsync } = options;
  const parts: RedisParts = { place: await openRedisPlace(dataDirectory, log), fsync, log, clock };
  const launch = async (signal?: AbortSignal): Promise<RedisProcess | string> => {
    const found = await findRedisBinary(searchPath);
    if (!found.ok) return found.hint;
    const { file, version } = found.binary;
    const started = await spawnRedis(parts, found.binary, signal);
    log.info({ pid: started.pid, socket: started.socket }, `private Redis started: ${version} (${file})`);
    return started;
  };

  const adopted = await adoptRedis(parts);
  if (adopted !== undefined) {
    log.info({ pid: adopted.pid, socket: adopted.socket }, 'the private Redis of an earlier start goes on');
  }
  const first = adopted ?? (await launch());
  if (typeof first !== 'string') return { redis: supervise(first, parts, launch) };
  await clearRedisPlace(parts.place);
  return { redis: undefined, hint: first };
}

type Launch = (signal: AbortSignal) => Promise<RedisProcess | string>;

/**
 * Running: `current` serves; when it ends by itself, → paused. Paused: waits, longer after each
 * failure, then launches: → running, or paused again. Stopping, from any of them: a pause and a
 * launch are cut short, and what runs is ended.
 */
function supervise(first: RedisProcess, parts: RedisParts, launch: Launch): EmbeddedRedis {
  const { clock, log } = parts;
  const stopping = new AbortController();
  let current = first;
  const endWithUs = () => current.kill('SIGTERM');
  process.on('exit', endWithUs);

  const relaunch = async (failures: number): Promise<RedisProcess | undefined> => {
    await pause(clock, Math.min(RESTART_PAUSE_MS_MAX, RESTART_PAUSE_MS_MIN * 2 ** failures), stopping.signal);
    if (stopping.signal.aborted) return undefined;
    try {
      const launched = await launch(stopping.signal);
      if (typeof launched !== 'string') return launched;
      log.error(`the private Redis cannot be started again: ${launched}`);
    } catch (failure) {
      if (stopping.signal.aborted) return undefined;
      log.error({ err: failure }, 'the private Redis could not be started again');
    }
    return undefined;
  };

  const run = async () => {
    let failures = 0;
    while (!stopping.signal.aborted) {
      const sinceUs = clock.nowUs();
      const how = await current.ended;
      if (stopping.signal.aborted) return;
      log.error({ pid: current.pid }, `the private Redis ended (${how}): starting it again on its files`);
      if (clock.nowUs() - sinceUs > STABLE_MS * 1000) failures = 0;
      let next: RedisProcess | undefined;
      while (next === undefined && !stopping.signal.aborted) next = await relaunch(failures++);
      current = next ?? current;
    }
  };
  const running = run();

  const stop = async () => {
    stopping.abort();
    await endRedis(current, parts);
    await running;
    // A launch that was under way has put another in its place.
    await endRedis(current, parts);
    process.off('exit', endWithUs);
    await clearRedisPlace(parts.place);
    log.info('private Redis stopped');
  };
  let stopped: Promise<void> | undefined;
  return {
    // As a URL has it: what would end or escape the path is escaped.
    url: `unix://${first.socket.replace(/[%?#]/g, encodeURIComponent)}`,
    get pid() {
      return current.pid;
    },
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}
