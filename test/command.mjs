import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { commandFile } from '../deploy/setup/checkout.mjs';

const STOP_LIMIT_MS = 20_000;
const DATA = '.nereid';

/** Runs `nereid ARGS`. */
export function runCli(args, environment = {}) {
  return runScript(commandFile(), args, environment);
}

/** Runs a script with Node.js as a child process, in an empty working folder, which is its data directory too. */
export function runScript(script, args, environment = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-e2e-'));
  const child = spawn(process.execPath, [script, ...args], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', NEREID_DATA_DIR: join(folder, DATA), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => chunks.push(chunk));
  const output = () => Buffer.concat(chunks).toString();
  const ended = once(child, 'close').then(([code, signal]) => {
    endPrivateRedis(join(folder, DATA));
    rmSync(folder, { recursive: true, force: true });
    return { code, signal, output: output() };
  });
  const waitFor = (text) =>
    new Promise((resolve, reject) => {
      const look = () => {
        if (text.test(output())) resolve(output());
      };
      for (const stream of [child.stdout, child.stderr]) stream.on('data', look);
      look();
      void ended.then(() => reject(new Error(`it ended before ${text}:\n${output()}`)));
    });
  const stop = async (signal = 'SIGTERM') => {
    child.kill(signal);
    const ending = await Promise.race([ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
    if (ending !== undefined) return ending;
    child.kill('SIGKILL');
    throw new Error(`it did not stop within ${STOP_LIMIT_MS} ms:\n${output()}`);
  };
  return { process: child, ended, output, waitFor, stop };
}

/** A server that was killed leaves its private Redis to its next start, which here never comes. */
function endPrivateRedis(dataDirectory) {
  const record = join(dataDirectory, 'redis', 'process');
  if (!existsSync(record)) return;
  try {
    process.kill(Number.parseInt(readFileSync(record, 'utf8'), 10), 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
