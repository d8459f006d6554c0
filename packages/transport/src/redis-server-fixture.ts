import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface RedisServerFixture {
  /** `unix://…`, as --redis-url takes it. */
  readonly url: string;
  readonly socket: string;
  readonly pid: number;
  /** Ends it by this signal and waits for the end; the data stay. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Starts it again on the same socket and folder. */
  start(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/** A Redis of its own on a unix socket in a temporary folder. `flags` come after ours. */
export async function startRedisServer(flags: readonly string[] = []): Promise<RedisServerFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-redis-'));
  const socket = join(folder, 'redis.sock');
  let child: ChildProcess | undefined;

  const start = async () => {
    const args = ['--port', '0', '--unixsocket', socket, '--unixsocketperm', '700', '--dir', folder, '--save', ''];
    const started = spawn('redis-server', [...args, '--maxmemory-policy', 'noeviction', ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child = started;
    await new Promise<void>((resolve, reject) => {
      started.once('error', reject);
      started.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)));
      started.stdout?.on('data', (text: Buffer) => {
        if (text.includes('Ready to accept connections') || text.includes('ready to accept connections')) resolve();
      });
    });
  };
  const kill = async (signal: NodeJS.Signals) => {
    const ending = child;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, 'exit');
    ending.kill(signal);
    await ended;
  };

  await start();
  return {
    url: `unix://${socket}`,
    socket,
    get pid() {
      return child?.pid ?? 0;
    },
    kill,
    start,
    async stop() {
      await kill('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}
