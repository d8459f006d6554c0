import type { Clock, Log } from '@nereid/runtime';
import type { RoleProcess } from '@nereid/server';
import type { KeeperMessage, WorkerMessage } from './worker-messages.ts';

/** The way to the process that keeps this worker. */
export interface KeeperChannel {
  readonly send: (message: WorkerMessage) => void;
  readonly listen: (listener: (message: KeeperMessage) => void) => void;
}

export interface WorkerLimits {
  /** Bytes of resident memory; 0 for none. */
  readonly memoryBytes: number;
  /** Versions loaded since it serves; 0 for none. */
  readonly loads: number;
}

export interface KeptWorker {
  readonly server: Pick<RoleProcess, 'holdings' | 'urls'>;
  readonly keeper: KeeperChannel;
  readonly limits: WorkerLimits;
  readonly clock: Clock;
  readonly log: Log;
  readonly residentBytes: () => number;
}

const LOOK_MS = 1_000;
/** Of what it had when it began to serve: below that a limit would replace workers without an end. */
const GROWTH_MIN = 1.2;
const MIB = 2 ** 20;

/** Tells the keeper what this worker holds and when it is past a limit. Resolves when it is to end. */
export function answerKeeper({ server, keeper, limits, clock, log, residentBytes }: KeptWorker): Promise<void> {
  const holdings = () => server.holdings?.() ?? { ready: [], isLoading: false, loads: 0 };
  const begun = { loads: 0, bytes: 0 };

  const spent = (): string | undefined => {
    const loads = holdings().loads - begun.loads;
    if (limits.loads > 0 && loads >= limits.loads) return `${loads} loads (--worker-max-loads=${limits.loads})`;
    const bytes = residentBytes();
    if (limits.memoryBytes === 0 || bytes <= Math.max(limits.memoryBytes, begun.bytes * GROWTH_MIN)) return undefined;
    return `${Math.round(bytes / MIB)} MiB of memory (--worker-memory-limit=${limits.memoryBytes})`;
  };
  const look = () => {
    clock.at(clock.nowUs() + LOOK_MS * 1000, () => {
      const why = spent();
      if (why === undefined) look();
      else keeper.send({ kind: 'spent', why });
    });
  };

  return new Promise((retired) => {
    keeper.listen(({ kind }) => {
      if (kind === 'retire') retired();
      else if (kind === 'tell') {
        const { ready, isLoading } = holdings();
        keeper.send({ kind: 'holds', ready, isLoading });
      } else {
        begun.loads = holdings().loads;
        begun.bytes = residentBytes();
        if (limits.memoryBytes > 0 && begun.bytes > limits.memoryBytes) {
          log.warn(
            `--worker-memory-limit=${limits.memoryBytes} is less than this worker takes from its start on, ${begun.bytes}: it is replaced once it has a fifth more than that`,
          );
        }
        look();
      }
    });
    const { metrics } = server.urls;
    keeper.send({ kind: 'started', metricsPort: metrics === undefined ? undefined : Number(new URL(metrics).port) });
  });
}
