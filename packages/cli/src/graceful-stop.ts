import type { Clock, Log } from '@nereid/runtime';
import type { RoleProcess } from '@nereid/server';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';

/** A server, or one role of it. */
export type StoppableServer = Pick<RoleProcess, 'models' | 'counts' | 'stop'>;

export interface GracefulStop {
  /** The server, or its start that is still under way. */
  readonly starting: Promise<StoppableServer>;
  readonly timeoutS: number;
  /** It is not ready, and takes requests, for so long first. */
  readonly pauseMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the process without any clean-up (SIGKILL). */
  readonly kill: () => void;
}

/**
 * Stops the server in order, or gives up when the time is over (Triton's `--exit-timeout-secs`), which begins after the pause.
 * `process.exit` waits for each thread, cannot interrupt native code and aborts when that returns
 * (exit status 134, seconds late): where a model may be in such a run, giving up is `kill`.
 */
export async function stopWithin({ starting, timeoutS, pauseMs, clock, log, kill }: GracefulStop): Promise<ExitCode> {
  let runsNativeCode = () => true;
  let expire = () => {};
  const expired = new Promise<'expired'>((resolve) => {
    expire = () => resolve('expired');
  });
  // Set before the server sets its own for the same time, so that a stop that drops requests is never taken for an orderly one.
  const timer = clock.at(clock.nowUs() + timeoutS * 1e6 + pauseMs * 1000, expire);
  const stopping = async (): Promise<ExitCode> => {
    let server: StoppableServer;
    try {
      server = await starting;
    } catch {
      // A start that was interrupted and then failed has stopped what it had started: nothing is left.
      return EXIT_CODE.stopped;
    }
    // Asked now, since a server that stops withdraws its models.
    const hasNativeModels = server.models().some(({ config }) => config.backend !== 'javascript');
    runsNativeCode = () => hasNativeModels && server.counts().batches > 0;
    try {
      if (pauseMs > 0) log.info(`Not ready from now on, and taking requests for another ${pauseMs} ms.`);
      await server.stop({ deadlineMs: timeoutS * 1000, pauseMs });
      return EXIT_CODE.stopped;
    } catch (err) {
      log.error({ err }, 'stopping failed');
      return EXIT_CODE.failed;
    }
  };
  const ended = await Promise.race([stopping(), expired]);
  timer.cancel();
  if (ended !== 'expired') return ended;
  log.error('Exit timeout expired. Exiting immediately.');
  if (runsNativeCode()) kill();
  return EXIT_CODE.failed;
}
