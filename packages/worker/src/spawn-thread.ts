import { Worker } from 'node:worker_threads';
import type { InstanceSetup } from './instance-messages.ts';

/**
 * A thread needs JavaScript: where this runs from the sources (tests), it is taken from the build.
 */
const ENTRY = new URL(
  import.meta.url.endsWith('.ts') ? '../dist/instance-thread.js' : './instance-thread.js',
  import.meta.url,
);

/** Starts an instance's thread; its standard output and error are the process's own. */
export function spawnThread(setup: InstanceSetup): Worker {
  // No options of this process: a test runner's loaders do not belong into an instance.
  return new Worker(ENTRY, { workerData: setup, name: setup.instanceName, execArgv: [] });
}
