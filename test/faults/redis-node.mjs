import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { findProgram } from '../../deploy/setup/command.mjs';

const READY = /ready to accept connections|Sentinel ID is/i;

/** A `redis-server` on a TCP port and a folder of its own; `args` as on its command line. */
export async function startRedisNode(folder, args) {
  const program = findProgram('redis-server') ?? findProgram('valkey-server');
  if (program === undefined)
    throw new Error('neither redis-server nor valkey-server is on PATH: install Redis 7 or later');
  mkdirSync(folder, { recursive: true });
  const child = spawn(program, [...args], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    ended.then(([code]) => reject(new Error(`${program} ${args.join(' ')} ended with ${code}`)), reject);
    child.stdout.on('data', (text) => {
      if (READY.test(text)) resolve();
    });
  });
  return {
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      await ended;
    },
  };
}

/** As jobs need it: nothing is evicted, and what was written outlives the process. */
export const DURABLE = [
  '--save',
  '',
  '--appendonly',
  'yes',
  '--appendfsync',
  'everysec',
  '--maxmemory-policy',
  'noeviction',
];
