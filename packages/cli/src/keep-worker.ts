/**
 * Keeps a worker: a process of its own that holds no model, so that a worker past a limit can be replaced without a
 * gap. The next one is started first; once it has what the present one has, it serves, and the other ends what it
 * accepted, sequences too, and goes. At most one is on its way, and one on its way out.
 */
import type { Clock, Log, Timer } from '@nereid/runtime';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import type { ListenForSignals, StopSignal } from './stop-signals.ts';
import type { KeeperMessage, WorkerMessage } from './worker-messages.ts';

/** A worker as a child process. */
export interface WorkerProcess {
  readonly pid: number;
  readonly send: (message: KeeperMessage) => void;
  readonly listen: (listener: (message: WorkerMessage) => void) => void;
  readonly kill: (signal: StopSignal) => void;
  /** Its exit code, 128 and more for a signal. */
  readonly ended: Promise<number>;
}

export interface WorkerKeeper {
  readonly start: () => WorkerProcess;
  readonly clock: Clock;
  readonly log: Log;
  readonly listenForSignals: ListenForSignals;
  /** Metrics are those of the worker that serves. */
  readonly serveMetrics: (port: number | undefined) => void;
}

const LOOK_MS = 200;
/** What the next one has not got by then and does not load comes when it is asked for, or not at all. */
const SETTLED_MS = 30_000;
/** A next one that loads for longer is given up; then another is tried. */
const NEXT_MS_MAX = 600_000;
const RETRY_MS = 60_000;

interface Kept {
  readonly process: WorkerProcess;
  readonly startedUs: number;
  metricsPort: number | undefined;
  hasStarted: boolean;
  holds: Extract<WorkerMessage, { kind: 'holds' }> | undefined;
}

/** Runs until a signal, or until the worker that serves ends by itself; its exit code. */
export function keepWorker({ start, clock, log, listenForSignals, serveMetrics }: WorkerKeeper): Promise<ExitCode> {
  let serving: Kept;
  let next: Kept | undefined;
  let leaving: Kept | undefined;
  let wanted: string | undefined;
  let stopping = false;
  let timer: Timer | undefined;
  const living = new Set<Kept>();

  return new Promise((resolve) => {
    const launch = (): Kept => {
      const kept: Kept = {
        process: start(),
        startedUs: clock.nowUs(),
        metricsPort: undefined,
        hasStarted: false,
        holds: undefined,
      };
      living.add(kept);
      kept.process.listen((message) => heard(kept, message));
      void kept.process.ended.then((code) => gone(kept, code));
      return kept;
    };

    const heard = (from: Kept, message: WorkerMessage) => {
      if (message.kind === 'holds') from.holds = message;
      else if (message.kind === 'spent') {
        if (from !== serving) return;
        wanted = message.why;
        replace();
      } else {
        from.hasStarted = true;
        from.metricsPort = message.metricsPort;
        if (from === serving) serve(from);
      }
    };

    const serve = (kept: Kept) => {
      serving = kept;
      serveMetrics(kept.metricsPort);
      kept.process.send({ kind: 'serve' });
    };

    const replace = () => {
      if (stopping || wanted === undefined || next !== undefined || leaving !== undefined) return;
      log.info(`the worker ${serving.process.pid} has had ${wanted}: another takes its place`);
      wanted = undefined;
      next = launch();
      later(LOOK_MS, look);
    };

    const look = () => {
      if (next === undefined || stopping) return;
      const ageMs = (clock.nowUs() - next.startedUs) / 1000;
      if (next.hasStarted && takesOver(serving, next, ageMs)) {
        leaving = serving;
        serve(next);
        next = undefined;
        leaving.process.send({ kind: 'retire' });
        log.info(`the worker ${serving.process.pid} serves; ${leaving.process.pid} ends what it has accepted`);
        return;
      }
      if (ageMs > NEXT_MS_MAX) {
        log.error(`the worker ${next.process.pid} is not ready after ${NEXT_MS_MAX / 1000} s: it is given up`);
        next.process.kill('SIGTERM');
        return;
      }
      for (const one of [serving, next]) if (one.hasStarted) one.process.send({ kind: 'tell' });
      later(LOOK_MS, look);
    };

    const gone = (kept: Kept, code: number) => {
      living.delete(kept);
      if (kept === leaving) {
        leaving = undefined;
        replace();
      } else if (kept === next) {
        next = undefined;
        if (!stopping) {
          log.error(
            `the next worker ended with ${code} before it could serve: another is tried in ${RETRY_MS / 1000} s`,
          );
          wanted ??= 'a next one that ended';
          later(RETRY_MS, replace);
        }
      } else if (!stopping) {
        // As without a keeper: whoever started it decides whether it is started again.
        stop('SIGTERM');
      }
      if (kept === serving) ended = code;
      if (living.size === 0) resolve(ended as ExitCode);
    };

    let ended: number = EXIT_CODE.failed;
    const stop = (signal: StopSignal) => {
      stopping = true;
      timer?.cancel();
      for (const { process } of living) process.kill(signal);
    };
    const later = (ms: number, act: () => void) => {
      timer?.cancel();
      timer = clock.at(clock.nowUs() + ms * 1000, act);
    };

    listenForSignals(stop);
    serving = launch();
  });
}

function takesOver(serving: Kept, next: Kept, ageMs: number): boolean {
  const { holds } = next;
  if (holds === undefined || holds.isLoading || serving.holds === undefined) return false;
  return ageMs > SETTLED_MS || serving.holds.ready.every((name) => holds.ready.includes(name));
}
