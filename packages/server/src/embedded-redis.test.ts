import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createLog, systemClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openDataDirectory } from './data-directory.ts';
import { startEmbeddedRedis } from './embedded-redis.ts';
import { ask, type Held, type Holder, holdRedis, runs, socketOf, startHolder } from './embedded-redis-fixture.ts';
import { WAIT_THEN_SERVE } from './redis-process.ts';

let root: string;
let path: string;
const held: Held[] = [];
/** Of Redis servers that a failed test may leave. */
const pids: number[] = [];

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'nereid-embedded-')));
  path = join(root, 'data');
});

afterEach(async () => {
  await Promise.all(held.splice(0).map((each) => each.close()));
  for (const pid of pids.splice(0)) if (runs(pid)) process.kill(pid, 'SIGKILL');
  await rm(root, { recursive: true, force: true });
});

async function hold(at = path): Promise<Held> {
  const one = await holdRedis(at);
  held.push(one);
  pids.push(one.redis.pid);
  return one;
}

async function holder(at = path): Promise<Holder> {
  const one = await startHolder(at);
  pids.push(one.redisPid);
  return one;
}

const mode = async (file: string) => (await stat(file)).mode & 0o777;
const gone = (pid: number) => vi.waitFor(() => expect(runs(pid)).toBe(false), { timeout: 20_000, interval: 10 });

async function everyFile(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
}

describe('a start', () => {
  it('serves on a socket of this user alone, with no port, and stop ends it', async () => {
    const { redis, ask: tell, lines, close } = await hold();
    expect(redis.url).toBe(`unix://${path}/redis/redis.sock`);
    expect(await tell('PING')).toBe('PONG');
    const settings = ['port', 'appendonly', 'appendfsync', 'save', 'maxmemory-policy', 'dir'];
    const values = await Promise.all(settings.map(async (name) => (await tell('CONFIG', 'GET', name))[1]));
    expect(values).toEqual(['0', 'yes', 'everysec', '', 'noeviction', join(path, 'redis')]);
    expect(await mode(path)).toBe(0o700);
    expect(await mode(join(path, 'redis'))).toBe(0o700);
    expect(await mode(join(path, 'redis', 'redis.sock'))).toBe(0o600);
    for (const file of await everyFile(path)) expect((await mode(file)) & 0o077, file).toBe(0);

    await close();
    await redis.stop();
    expect(runs(redis.pid)).toBe(false);
    expect((await readdir(join(path, 'redis'))).sort()).toEqual(['appendonlydir', 'redis.log']);
    expect(lines).toEqual([expect.stringMatching(/^private Redis started: Redis \d/), 'private Redis stopped']);
  });

  it('syncs its file before each answer where that is asked for', async () => {
    const one = await holdRedis(path, 'always');
    held.push(one);
    expect(await one.ask('CONFIG', 'GET', 'appendfsync')).toEqual(['appendfsync', 'always']);
  });

  it('finds the data of the run before', async () => {
    const first = await hold();
    await first.ask('SET', 'key', 'value');
    await first.close();
    const second = await hold();
    expect(second.redis.pid).not.toBe(first.redis.pid);
    expect(await second.ask('GET', 'key')).toBe('value');
  });

  it('runs in a session of its own, so that Ctrl-C in the terminal does not reach it', async () => {
    const { redis } = await hold();
    const session = (pid: number | string) =>
      readFile(`/proc/${pid}/stat`, 'utf8').then((text) => text.slice(text.lastIndexOf(')') + 2).split(' ')[3]);
    expect(await session(redis.pid)).toBe(String(redis.pid));
    expect(await session(redis.pid)).not.toBe(await session('self'));
  });

  it('without a program gives the line that says how to install one', async () => {
    const dataDirectory = await openDataDirectory(path);
    const started = await startEmbeddedRedis({
      dataDirectory,
      log: createLog({ level: 'silent' }),
      clock: systemClock(),
      searchPath: '',
      fsync: 'everysec',
    });
    expect(started).toEqual({ redis: undefined, hint: expect.stringContaining('apt-get install redis-server') });
    await dataDirectory.close();
  });

  it('that fails says why in one line, and leaves no process', async () => {
    await (await hold()).close();
    const folder = join(path, 'redis', 'appendonlydir');
    const manifest = (await readdir(folder)).find((name) => name.endsWith('.manifest')) ?? '';
    await writeFile(join(folder, manifest), 'nonsense\n');
    await expect(holdRedis(path)).rejects.toThrow(
      /^the private Redis ended at its start \(status 1\): .*manifest.*; see .*\/redis\/redis\.log$/,
    );
    await (await openDataDirectory(path)).close();
  });

  it('on a path too long for a socket puts that into a private folder among the temporary files', async () => {
    const long = join(root, 'long'.repeat(30), 'data');
    const first = await hold(long);
    const socket = socketOf(first.redis);
    expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(103);
    expect(dirname(dirname(socket))).toBe(tmpdir());
    expect(await mode(dirname(socket))).toBe(0o700);
    expect(await mode(socket)).toBe(0o600);
    expect(first.lines[0]).toBe(
      `the path of ${long}/redis is too long for a socket, so the private Redis listens on ${socket}`,
    );
    await first.ask('SET', 'key', 'value');
    await first.close();
    await expect(stat(dirname(socket))).rejects.toThrow('ENOENT');
    expect(await (await hold(long)).ask('GET', 'key')).toBe('value');
  });
});

describe('the Redis of a process that was killed', () => {
  it('is adopted with its data, and stopped in the end', async () => {
    const before = await holder();
    await ask(socketOf(before), 'SET', 'key', 'value');
    await before.killHard();
    expect(runs(before.redisPid)).toBe(true);

    const now = await hold();
    expect(now.redis.pid).toBe(before.redisPid);
    expect(now.redis.url).toBe(before.url);
    expect(now.lines).toEqual(['the private Redis of an earlier start goes on']);
    expect(await now.ask('GET', 'key')).toBe('value');
    await now.close();
    expect(runs(before.redisPid)).toBe(false);
  });

  it('is told when to sync its file', async () => {
    const before = await holder();
    await before.killHard();
    const now = await holdRedis(path, 'always');
    held.push(now);
    expect(now.redis.pid).toBe(before.redisPid);
    expect(await now.ask('CONFIG', 'GET', 'appendfsync')).toEqual(['appendfsync', 'always']);
  });

  it('is adopted also where its socket is among the temporary files', async () => {
    const long = join(root, 'long'.repeat(30), 'data');
    const before = await holder(long);
    await before.killHard();
    const now = await hold(long);
    expect(now.redis).toMatchObject({ pid: before.redisPid, url: before.url });
    await now.close();
    await expect(stat(dirname(socketOf(before)))).rejects.toThrow('ENOENT');
  });

  it('is started again after its adoption when it dies', async () => {
    const before = await holder();
    await ask(socketOf(before), 'SET', 'key', 'value');
    await before.killHard();
    const now = await hold();
    process.kill(before.redisPid, 'SIGKILL');
    // It answers before its keeper has taken note of it.
    await vi.waitFor(
      async () => {
        expect(await now.ask('GET', 'key')).toBe('value');
        expect(now.redis.pid).not.toBe(before.redisPid);
      },
      { timeout: 20_000 },
    );
  });

  it('is ended before another starts where it does not answer', async () => {
    const before = await holder();
    await ask(socketOf(before), 'SET', 'key', 'value');
    await before.killHard();
    await rm(socketOf(before));
    const now = await hold();
    expect(runs(before.redisPid)).toBe(false);
    expect(now.redis.pid).not.toBe(before.redisPid);
    expect(await now.ask('GET', 'key')).toBe('value');
  });

  it('and is itself dead: another one starts on its files', async () => {
    const before = await holder();
    await ask(socketOf(before), 'SET', 'key', 'value');
    await before.killHard();
    process.kill(before.redisPid, 'SIGKILL');
    await gone(before.redisPid);
    const now = await hold();
    expect(await now.ask('GET', 'key')).toBe('value');
  });

  it('has ended by itself where that process could still say so', async () => {
    const before = await holder();
    const exit = once(before.process, 'exit');
    before.process.stdin?.end();
    await exit;
    await gone(before.redisPid);
  });

  it('is never started where the killed process had not written down its pid', async () => {
    await (await openDataDirectory(path)).close();
    const waiting = spawn('/bin/sh', ['-c', WAIT_THEN_SERVE, 'touch', join(path, 'started')], {
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const exit = once(waiting, 'exit');
    waiting.stdin?.destroy();
    expect(await exit).toEqual([1, null]);
    expect(await readdir(path)).not.toContain('started');
  });
});

describe('never two on one data directory', () => {
  it('a second start is refused with the pid of the first', async () => {
    const first = await holder();
    await expect(holdRedis(path)).rejects.toThrow(
      `the process ${first.process.pid} already uses the data directory ${path}: stop it, or name another by --data-dir`,
    );
    expect(runs(first.redisPid)).toBe(true);
    await first.killHard();
  });

  it('a Redis that nothing here has started is refused', async () => {
    const before = await holder();
    await before.killHard();
    await rm(join(path, 'redis', 'process'));
    await expect(holdRedis(path)).rejects.toThrow(/^a Redis that this start does not know listens on /);
    expect(await ask(socketOf(before), 'PING')).toBe('PONG');
  });
});

describe('a Redis that dies', () => {
  it('by kill -9 is started again on the same socket with its data, each time', async () => {
    const { redis, ask: tell, lines } = await hold();
    const { url } = redis;
    for (const round of ['1', '2']) {
      await tell('SET', 'key', round);
      const { pid } = redis;
      process.kill(pid, 'SIGKILL');
      await vi.waitFor(() => expect(redis.pid).not.toBe(pid), { timeout: 20_000, interval: 10 });
      pids.push(redis.pid);
      expect(await tell('GET', 'key')).toBe(round);
    }
    expect(redis.url).toBe(url);
    expect(lines.filter((line) => line.includes('(SIGKILL): starting it again'))).toHaveLength(2);
  });

  it('and is stopped before it is back leaves nothing', async () => {
    const { redis, close, lines } = await hold();
    process.kill(redis.pid, 'SIGKILL');
    await vi.waitFor(() => expect(lines.at(-1)).toContain('starting it again'), { timeout: 20_000, interval: 1 });
    await close();
    expect(await readdir(join(path, 'redis'))).not.toContain('process');
    expect(lines.at(-1)).toBe('private Redis stopped');
    await expect(ask(socketOf(redis), 'PING')).rejects.toThrow('no answer');
  });
});
