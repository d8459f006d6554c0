/** What figures depend on besides the code. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { ROOT } from '../../deploy/setup/checkout.mjs';

const GIB = 2 ** 30;

export function machine() {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / GIB),
    kernel: release(),
    load: loadavg()[0],
  };
}

export function versions() {
  const version = (name) => JSON.parse(readFileSync(packageFile(name), 'utf8')).version;
  return {
    commit: commitOf(ROOT),
    node: process.version,
    redis: /v=(\S+)/.exec(firstLine('redis-server', ['--version']) ?? '')?.[1],
    ...Object.fromEntries(['fastify', 'bullmq', 'onnxruntime-node'].map((name) => [name, version(name)])),
  };
}

/** The commit that a checkout is at, undefined where that cannot be told. */
export function commitOf(folder) {
  return firstLine('git', ['-C', folder, 'rev-parse', '--short=12', 'HEAD']);
}

/** Not every package lets its package.json be resolved. */
function packageFile(name) {
  const entry = createRequire(import.meta.url).resolve(name);
  const end = entry.lastIndexOf(`/node_modules/${name}/`) + `/node_modules/${name}/`.length;
  return `${entry.slice(0, end)}package.json`;
}

function firstLine(program, args) {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
      .trim()
      .split('\n')[0];
  } catch {
    return undefined;
  }
}
