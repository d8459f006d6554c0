import { fork } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import type { WorkerProcess } from './keep-worker.ts';
import type { KeeperChannel } from './kept-worker.ts';

/** Tells a worker that the channel which it was started with is its keeper's. */
const KEPT = 'NEREID_KEPT_WORKER';

/** `nereid worker` as a child, with this process' environment and standard streams. */
export function startWorker(argv: readonly string[]): WorkerProcess {
  const [, script = ''] = process.argv;
  const child = fork(script, ['worker', ...argv], { env: { ...process.env, [KEPT]: 'true' } });
  const ended = once(child, 'exit').then(
    ([code, signal]: (number | NodeJS.Signals | null)[]) =>
      (code as number | null) ?? 128 + constants.signals[signal as NodeJS.Signals],
  );
  return {
    pid: child.pid ?? 0,
    // One that has just ended says so by its end.
    send: (message) => void child.send(message, () => {}),
    listen: (listener) => void child.on('message', listener),
    kill: (signal) => void child.kill(signal),
    ended,
  };
}

/** The way to the keeper of this process; undefined where it has none. */
export function keeperChannel(): KeeperChannel | undefined {
  if (process.env[KEPT] === undefined || process.send === undefined) return undefined;
  // Models' own processes are nobody's workers.
  delete process.env[KEPT];
  // Without a keeper nobody would replace it, or knows of it.
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  return {
    send: (message) => void process.send?.(message, undefined, undefined, () => {}),
    listen: (listener) => void process.on('message', listener),
  };
}
