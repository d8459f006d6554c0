import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { findProgram } from '../deploy/setup/command.mjs';

const PROGRAMS = ['redis-server', 'valkey-server'];
const READY = /ready to accept connections|Sentinel ID is/i;

/** The server to start: a path, or undefined where none is on PATH. */
export function findRedis() {
  return PROGRAMS.map((name) => findProgram(name)).find((found) => found !== undefined);
}

/** A Redis or Valkey server in a folder of its own; `args` as on its command line. Returns once it takes connections. */
export async function startRedisNode(folder, args) {
  const program = findRedis();
  if (program === undefined) throw new Error(`none of ${PROGRAMS.join(', ')} is on PATH: install Redis 7 or later`);
  mkdirSync(folder, { recursive: true });
  const child = spawn(program, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
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
