import { execFile } from 'node:child_process';
import type { TryCommand } from './host-launches.ts';

const TIMEOUT_MS = 10_000;

/** Runs a command of this machine. */
export const tryCommand: TryCommand = ([program = '', ...args]) =>
  new Promise((resolve) => {
    execFile(program, args, { timeout: TIMEOUT_MS }, (failure, stdout, stderr) => {
      if (failure === null) resolve({ kind: 'ran', output: stdout });
      else if (failure.code === 'ENOENT') resolve({ kind: 'absent' });
      else resolve({ kind: 'failed', words: firstLine(stderr) ?? failure.message });
    });
  });

/** What is wrong; some programs go on with how they are used. */
function firstLine(text: string): string | undefined {
  return text
    .split('\n')
    .map((line) => line.trim())
    .find((line) => line !== '');
}
