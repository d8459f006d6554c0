import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { JobsFsync } from '@nereid/config';
import { createLog, systemClock } from '@nereid/runtime';
import { openDataDirectory } from './data-directory.ts';
import { type EmbeddedRedis, startEmbeddedRedis } from './embedded-redis.ts';
import { isRunning, processIdentity } from './process-identity.ts';
import { askRedis, type RedisReply } from './redis-ask.ts';

const clock = systemClock();
const ASK_TIMEOUT_MS = 5_000;

export interface Held {
  readonly redis: EmbeddedRedis;
  /** Texts of what was logged. */
  readonly lines: readonly string[];
  ask(...command: string[]): Promise<RedisReply>;
  /** Stops the Redis and closes the data directory. */
  close(): Promise<void>;
}

/** A private Redis on a data directory of its own, in this process. */
export async function holdRedis(path: string, fsync: JobsFsync = 'everysec'): Promise<Held> {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(String((JSON.parse(line) as { msg: unknown }).msg)) };
  const dataDirectory = await openDataDirectory(path);
  try {
    const { redis } = await startEmbeddedRedis({
      dataDirectory,
      log: createLog({ level: 'info', destination }),
      clock,
      searchPath: process.env.PATH ?? '',
      fsync,
    });
    if (redis === undefined) throw new Error('these tests need a redis-server on PATH');
    return {
      redis,
      lines,
      ask: (...command) => ask(socketOf(redis), ...command),
      async close() {
        await redis.stop();
        await dataDirectory.close();
      },
    };
  } catch (failure) {
    await dataDirectory.close();
    throw failure;
  }
}

export const socketOf = (redis: Pick<EmbeddedRedis, 'url'>) => decodeURIComponent(redis.url.slice('unix://'.length));

export async function ask(socket: string, ...command: string[]): Promise<RedisReply> {
  const answer = await askRedis(socket, command, { clock, timeoutMs: ASK_TIMEOUT_MS });
  if (!answer.ok) throw new Error(answer.error ?? 'no answer');
  return answer.reply;
}

/** True while the pid is of a running process, and no zombie. */
export const runs = (pid: number) => {
  const identity = processIdentity(pid);
  return identity !== undefined && isRunning(identity);
};

export interface Holder {
  readonly process: ChildProcess;
  readonly url: string;
  readonly redisPid: number;
  /** Ends this process, the Redis is left. */
  killHard(): Promise<void>;
}

/**
 * Another process (of the built package) that holds a private Redis on that data directory until it is
 * killed, or until its standard input ends, when it exits without stopping anything.
 */
export async function startHolder(path: string): Promise<Holder> {
  const built = new URL('../dist/', import.meta.url).href;
  const program = `
    import { createLog, systemClock } from '@nereid/runtime';
    import { openDataDirectory } from '${built}data-directory.js';
    import { startEmbeddedRedis } from '${built}embedded-redis.js';
    const dataDirectory = await openDataDirectory(process.argv[1]);
    const { redis } = await startEmbeddedRedis({
      dataDirectory,
      log: createLog({ level: 'silent' }),
      clock: systemClock(),
      searchPath: process.env.PATH,
      fsync: 'everysec',
    });
    process.stdin.on('end', () => process.exit(1)).resume();
    process.stdout.write(JSON.stringify({ url: redis.url, pid: redis.pid }));`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program, path], {
    cwd: new URL('.', import.meta.url).pathname,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [text] = (await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`the holder ended with ${code}`))),
  ])) as [Buffer];
  const { url, pid } = JSON.parse(text.toString()) as { url: string; pid: number };
  return {
    process: child,
    url,
    redisPid: pid,
    async killHard() {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
  };
}
