import { metricsAddress, type Options } from '@nereid/config';
import type { Clock, Log } from '@nereid/runtime';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { keepWorker, type WorkerProcess } from './keep-worker.ts';
import type { KeeperChannel, WorkerLimits } from './kept-worker.ts';
import { openMetricsFront } from './metrics-front.ts';
import type { ListenForSignals } from './stop-signals.ts';

/** What keeping a worker takes from the process. */
export interface KeptHost {
  readonly clock: Clock;
  readonly listenForSignals: ListenForSignals;
  /** Of a worker that is kept. */
  readonly keeper: KeeperChannel | undefined;
  /** Resident memory of this process. */
  readonly residentBytes: () => number;
  /** Starts `nereid worker` with these arguments, with this process as its keeper. */
  readonly startWorker: (argv: readonly string[]) => WorkerProcess;
}

export function workerLimits(options: Options): WorkerLimits {
  return { memoryBytes: options.workerMemoryLimit, loads: options.workerMaxLoads };
}

/** Whether this process only keeps the worker. */
export function isKeeper(command: string, options: Options, host: KeptHost): boolean {
  const { memoryBytes, loads } = workerLimits(options);
  return command === 'worker' && host.keeper === undefined && (memoryBytes > 0 || loads > 0);
}

/** Runs the worker as a child, and the next one when it is past its limits. */
export async function runKept(
  argv: readonly string[],
  options: Options,
  log: Log,
  host: KeptHost,
): Promise<ExitCode | { readonly failure: unknown }> {
  let serveMetrics: (port: number | undefined) => void = () => {};
  const own: string[] = [];
  if (options.allowMetrics) {
    try {
      const front = await openMetricsFront(metricsAddress(options), options.metricsPort);
      log.info(`Started Metrics Service at ${front.url.replace('http://', '')}`);
      serveMetrics = front.to;
    } catch (failure) {
      return { failure };
    }
    own.push('--metrics-address=127.0.0.1', '--metrics-port=0');
  }
  const { clock, listenForSignals, startWorker } = host;
  const code = await keepWorker({
    start: () => startWorker([...argv, ...own]),
    clock,
    log,
    listenForSignals,
    serveMetrics,
  });
  if (code === EXIT_CODE.stopped) log.info('the worker has stopped');
  return code;
}
