import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import type { JobsFsync } from '@nereid/config';
import { NereidError, thrownText } from '@nereid/protocol';
import { type Clock, type Log, pause, settledWithin } from '@nereid/runtime';
import { isCertain, isRunning, type ProcessIdentity, pidOf, processIdentity } from './process-identity.ts';
import { askRedis, type RedisAnswer } from './redis-ask.ts';
import type { RedisBinary } from './redis-binary.ts';
import { EMBEDDED_REDIS, type RedisPlace, readRecord, writeRecord } from './redis-place.ts';

/** A running Redis server, our child or one that an earlier process of ours left. */
export interface RedisProcess {
  readonly pid: number;
  readonly socket: string;
  /** Resolves when it has ended, with how, in words. */
  readonly ended: Promise<string>;
  kill(signal: NodeJS.Signals): void;
}

export interface RedisParts {
  readonly place: RedisPlace;
  /** When its append-only file is made sure of. */
  readonly fsync: JobsFsync;
  readonly clock: Clock;
  readonly log: Log;
}

const ASK_TIMEOUT_MS = 1_000;
/** One that neither answers nor says that it loads for so long does not come up any more. */
const SILENCE_MS_MAX = 10_000;
const READY_LOOK_MS = 10;
const END_LOOK_MS = 250;
const SHUTDOWN_MS_MAX = 10_000;
const KILLED_MS_MAX = 5_000;
const DYING_MS_MAX = 2_000;
const LOG_TAIL_CHARACTERS = 4_096;

/**
 * Waits for a word before it becomes the server, so that the record names it before it can open a
 * file; without the word (its parent was killed) it ends. What it writes is private to this user.
 */
export const WAIT_THEN_SERVE = 'umask 077; read -r go && exec "$0" "$@" </dev/null';

/** No TCP port; each write in the append-only file as `fsync` says; full memory refuses and deletes nothing. */
function serverArguments({ folder, socket }: RedisPlace, fsync: JobsFsync): readonly string[] {
  const settings: readonly (readonly [string, string])[] = [
    ['--port', '0'],
    ['--unixsocket', socket],
    ['--unixsocketperm', '600'],
    ['--dir', folder],
    ['--appendonly', 'yes'],
    ['--appendfsync', fsync],
    ['--save', ''],
    ['--maxmemory-policy', 'noeviction'],
    ['--daemonize', 'no'],
    ['--always-show-logo', 'no'],
  ];
  return settings.flat();
}

/**
 * Starts a Redis server and resolves when it answers, all data loaded. In a session of its own, so
 * that Ctrl-C in the terminal reaches us alone and it outlives our draining. An aborted signal ends it.
 */
export async function spawnRedis(parts: RedisParts, binary: RedisBinary, signal?: AbortSignal): Promise<RedisProcess> {
  const { place } = parts;
  const output = await open(place.logFile, 'a', 0o600);
  let child: ChildProcess;
  let ended: Promise<string>;
  try {
    child = spawn('/bin/sh', ['-c', WAIT_THEN_SERVE, binary.file, ...serverArguments(place, parts.fsync)], {
      cwd: place.folder,
      detached: true,
      stdio: ['pipe', output.fd, output.fd],
    });
    ended = new Promise((resolve) => {
      child.once('exit', (code, killed) => resolve(killed === null ? `status ${code}` : killed));
    });
    await once(child, 'spawn');
  } finally {
    await output.close();
  }
  const identity = processIdentity(child.pid ?? 0);
  const redis = toProcess(identity ?? `${child.pid}.-.-`, place.socket, ended);
  // An error means that it has ended, which `ended` tells.
  child.stdin?.on('error', () => {});
  try {
    if (identity !== undefined) await writeRecord(place, { process: identity, socket: place.socket });
    child.stdin?.end('go\n');
    await untilReady(redis, parts, signal);
    return redis;
  } catch (failure) {
    child.stdin?.destroy();
    await endRedis(redis, parts);
    throw failure;
  }
}

/**
 * The Redis that an earlier process of ours left running on this place, once it answers; one that
 * does not, or serves another folder, is ended. Undefined where there is none. Throws UNAVAILABLE
 * for one that is not known: two servers on one append-only file would destroy it.
 */
export async function adoptRedis(parts: RedisParts): Promise<RedisProcess | undefined> {
  const record = await readRecord(parts.place);
  if (record === undefined || !isRunning(record.process)) {
    if (await isUnheard(parts)) return undefined;
    throw unusable(
      `a Redis that this start does not know listens on ${parts.place.socket}: another server, perhaps in another container, uses the data directory; stop it, or name another by --data-dir`,
    );
  }
  const redis = toProcess(record.process, record.socket, untilGone(record.process, parts.clock));
  if (await isOurs(redis, parts)) {
    await untilReady(redis, parts);
    await setFsync(redis, parts);
    return redis;
  }
  if (!isCertain(record.process)) {
    throw unusable(
      `the process ${redis.pid} may be the Redis of an earlier start: end it, or remove ${parts.place.recordFile} if it is another program`,
    );
  }
  parts.log.warn({ pid: redis.pid }, 'the Redis of an earlier start does not answer: ending it');
  await endRedis(redis, parts);
  return undefined;
}

/** The start that it goes on for may ask for another than the one that it was begun by. */
async function setFsync(redis: RedisProcess, parts: RedisParts): Promise<void> {
  const answer = await ask(redis.socket, ['CONFIG', 'SET', 'appendfsync', parts.fsync], parts);
  if (answer.ok) return;
  throw unusable(
    `the private Redis of an earlier start does not take appendfsync ${parts.fsync} (${answer.error ?? 'no answer'}): end the process ${redis.pid}`,
  );
}

/**
 * True once nobody listens on the socket. A server that was killed is out of the process table before its
 * last thread has let go of its socket: so one that takes the connection and says nothing is asked again.
 */
async function isUnheard(parts: RedisParts): Promise<boolean> {
  const untilUs = parts.clock.nowUs() + DYING_MS_MAX * 1000;
  for (;;) {
    const answer = await ask(parts.place.socket, ['PING'], parts);
    if (answer.ok || answer.error !== undefined) return false;
    if (!answer.connected) return true;
    if (parts.clock.nowUs() >= untilUs) return false;
    await pause(parts.clock, READY_LOOK_MS);
  }
}

/** Ends it with its data written; by force where it takes too long. Resolves when it is gone. */
export async function endRedis(redis: RedisProcess, { clock, log }: Pick<RedisParts, 'clock' | 'log'>): Promise<void> {
  await Promise.race([redis.ended, ask(redis.socket, ['SHUTDOWN'], { clock })]);
  redis.kill('SIGTERM');
  if (await settledWithin(redis.ended, SHUTDOWN_MS_MAX, clock)) return;
  log.warn({ pid: redis.pid }, 'the private Redis does not end: killing it');
  redis.kill('SIGKILL');
  await settledWithin(redis.ended, KILLED_MS_MAX, clock);
}

function toProcess(identity: ProcessIdentity, socket: string, ended: Promise<string>): RedisProcess {
  const pid = pidOf(identity);
  return {
    pid,
    socket,
    ended,
    kill(signal) {
      if (!isRunning(identity)) return;
      try {
        process.kill(pid, signal);
      } catch {
        // It ended in between, which `ended` tells.
      }
    },
  };
}

/** An adopted process is not our child: nothing but a look tells that it ended. */
async function untilGone(identity: ProcessIdentity, clock: Clock): Promise<string> {
  while (isRunning(identity)) await pause(clock, END_LOOK_MS);
  return 'its process is gone';
}

/** By pid and working folder. */
async function isOurs({ pid, socket }: RedisProcess, parts: RedisParts): Promise<boolean> {
  const info = await ask(socket, ['INFO', 'server'], parts);
  if (!info.ok || typeof info.reply !== 'string') return false;
  if (!new RegExp(`^process_id:${pid}\r?$`, 'm').test(info.reply)) return false;
  const folder = await ask(socket, ['CONFIG', 'GET', 'dir'], parts);
  if (!folder.ok || typeof folder.reply === 'string') return false;
  return Buffer.from(String(folder.reply[1]), 'latin1').toString() === parts.place.folder;
}

function ask(socket: string, command: readonly string[], { clock }: Pick<RedisParts, 'clock'>): Promise<RedisAnswer> {
  return askRedis(socket, command, { clock, timeoutMs: ASK_TIMEOUT_MS });
}

async function untilReady(redis: RedisProcess, parts: RedisParts, signal?: AbortSignal): Promise<void> {
  const { clock, log, place } = parts;
  let heardUs = clock.nowUs();
  let saidLoading = false;
  for (;;) {
    const asked = ask(redis.socket, ['PING'], parts);
    const answer: RedisAnswer | string = await Promise.race([redis.ended, asked]);
    if (typeof answer === 'string') {
      throw unusable(
        `the private Redis ended at its start (${answer}): ${await lastWords(place)}; see ${place.logFile}`,
      );
    }
    if (answer.ok) return;
    if (answer.error !== undefined && !answer.error.startsWith('LOADING')) {
      throw unusable(`the private Redis refuses to serve: ${answer.error}`);
    }
    if (answer.error !== undefined) {
      heardUs = clock.nowUs();
      if (!saidLoading) log.info({ pid: redis.pid }, 'the private Redis loads its data');
      saidLoading = true;
    }
    if (clock.nowUs() - heardUs > SILENCE_MS_MAX * 1000) {
      throw unusable(`the private Redis does not answer on ${redis.socket}; see ${place.logFile}`);
    }
    if (signal?.aborted === true) throw unusable('the private Redis was stopped while it started');
    await pause(clock, READY_LOOK_MS, signal);
  }
}

/** The last line of its log that is a warning (`#`) or an error of its command line, else the last one. */
async function lastWords({ logFile }: RedisPlace): Promise<string> {
  let text: string;
  try {
    text = await readFile(logFile, 'utf8');
  } catch (failure) {
    return thrownText(failure);
  }
  const lines = text
    .slice(-LOG_TAIL_CHARACTERS)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const line =
    lines.findLast((each) => / # (?!Redis is now ready to exit)/.test(each)) ?? lines.at(-1) ?? 'it says nothing';
  return line.replace(/^\d+:\w .*? [#*.-] /, '').trim();
}

function unusable(text: string): NereidError {
  return new NereidError('UNAVAILABLE', text, { reason: EMBEDDED_REDIS });
}
