import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { SpawnProcess } from './process-line.ts';

/** As for a thread, which needs JavaScript: where this runs from the sources (tests), it is taken from the build. */
const ENTRY = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../dist/instance-process.js' : './instance-process.js', import.meta.url),
);

/**
 * Starts an instance's process by `[…prefix, node, entry, model, instance]`, in this process's
 * environment. It has a session of its own: what is typed at the server's terminal is not meant for
 * it. The model and the instance's name are there for whoever lists processes.
 */
export const spawnProcess: SpawnProcess = ({ prefix }, { signature, instanceName }) => {
  const [command = process.execPath, ...rest] = [...prefix, process.execPath, ENTRY, signature.name, instanceName];
  return spawn(command, rest, { detached: true, stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'] });
};
