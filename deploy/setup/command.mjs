import { spawn } from 'node:child_process';
import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { delimiter, join } from 'node:path';
import { CACHE, ROOT, toolEnvironment } from './checkout.mjs';

const STOP_LIMIT_MS = 10_000;
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** A step that cannot go on. The message is one line that names the fix; `exitCode` is the process's. */
export class SetupError extends Error {
  constructor(message, { exitCode = 1, detail = '' } = {}) {
    super(message);
    this.exitCode = exitCode;
    this.detail = detail;
  }
}

/** The full path of a program on PATH (after our own tools), or undefined. */
export function findProgram(name, path = toolEnvironment().PATH) {
  for (const folder of path.split(delimiter).filter(Boolean)) {
    try {
      const file = join(folder, name);
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/**
 * Runs a program to its end. Its output is collected, and kept in `.cache/logs/<log>.log` where `log` is given.
 * A stop signal to this process ends the program with all that it started, then throws.
 *
 * @returns {Promise<{ code: number, output: string }>} code 127 where the program could not be started
 */
export function runCommand(program, args, { cwd = ROOT, env = toolEnvironment(), log, limitMs } = {}) {
  return new Promise((resolve, reject) => {
    // A process group of its own, so that it can be ended with everything that it started.
    const child = spawn(program, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const chunks = [];
    let stoppedBy;
    let killTimer;

    const killGroup = (signal) => {
      try {
        process.kill(-child.pid, signal);
      } catch {
        // It has ended already.
      }
    };
    const stop = (signal) => {
      stoppedBy ??= signal;
      killGroup('SIGTERM');
      killTimer ??= setTimeout(() => killGroup('SIGKILL'), STOP_LIMIT_MS);
    };
    const limitTimer = limitMs === undefined ? undefined : setTimeout(() => stop('limit'), limitMs);
    const settle = (code) => {
      clearTimeout(limitTimer);
      clearTimeout(killTimer);
      for (const signal of STOP_SIGNALS) process.removeListener(signal, stop);
      if (stoppedBy !== undefined) killGroup('SIGKILL');
      const output = Buffer.concat(chunks).toString();
      if (log !== undefined) writeLog(log, output);
      if (stoppedBy !== undefined && stoppedBy !== 'limit') {
        reject(new SetupError(`stopped by ${stoppedBy}`, { exitCode: 128 + osConstants.signals[stoppedBy] }));
      } else {
        resolve({ code: stoppedBy === 'limit' ? 124 : code, output });
      }
    };

    for (const signal of STOP_SIGNALS) process.on(signal, stop);
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => chunks.push(chunk));
    child.on('error', (error) => {
      chunks.push(Buffer.from(`${error.message}\n`));
      if (child.pid === undefined) settle(127);
    });
    child.on('close', (code, signal) => settle(code ?? 128 + (osConstants.signals[signal] ?? 0)));
  });
}

function writeLog(name, output) {
  mkdirSync(join(CACHE, 'logs'), { recursive: true });
  writeFileSync(logFile(name), output);
}

/** Where the output of a step is kept. */
export function logFile(name) {
  return join(CACHE, 'logs', `${name}.log`);
}

const ERROR_START = /^(npm error|\w*Error:|ERROR:?|error:?|E:|fatal:|\W*ERR_\w+)/;

/** The line of a program's output that most likely says what went wrong: the first error, else the last line. */
export function errorLine(output) {
  const lines = output.split('\n').flatMap((line) => line.trim() || []);
  return lines.find((line) => ERROR_START.test(line)) ?? lines.at(-1) ?? 'it printed nothing';
}
