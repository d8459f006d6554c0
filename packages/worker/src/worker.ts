import type { ModelRecord } from '@nereid/config';
import type { ProcessId } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory, Transport } from '@nereid/transport';
import type { BackendSettings } from './hosted-version.ts';
import type { InstanceLimits } from './instance.ts';
import { createLoadLimiter } from './load-limiter.ts';
import { createWorkerLoop } from './loop.ts';
import { spawnThread } from './spawn-thread.ts';
import type { SpawnThread } from './thread-carrier.ts';

export interface WorkerOptions {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** The model's folder in this worker's own repositories, undefined where it is in none. */
  readonly findModel: (name: string) => string | undefined;
  /** The content hash of the model's files as this worker reads them (`readModel`'s `contentHash`). */
  readonly hashModel: (name: string, directory: string) => Promise<string>;
  /** `--backend-config`: settings by backend name, '' for all backends. */
  readonly backendSettings: BackendSettings;
  /** `--model-load-thread-count`: instances that load at the same time. */
  readonly loadsMax: number;
  /** LIMITS. */
  readonly limits: InstanceLimits;
  /** Tests take this to end threads from outside. */
  readonly spawn?: SpawnThread;
}

export interface Worker {
  /** Registers in the directory, from when on owners send models and batches. */
  start(): Promise<void>;
  /**
   * Takes no more work, finishes the batches that instances hold, answers all, and resolves when
   * every thread has ended. After the deadline JavaScript models are cut short, which fails their
   * batches; native runs cannot be and are waited for. Idempotent.
   */
  stop(deadlineMs?: number): Promise<void>;
  /** All zero when nothing is left: batches not answered, requests running, threads. */
  counters(): { readonly batches: number; readonly requests: number; readonly threads: number };
}

/** The worker role: hosts model versions and runs batches on their instances. Opens its mailbox at once. */
export function createWorker(options: WorkerOptions): Worker {
  const { id, clock, log, transport, directory, limits, backendSettings, findModel, hashModel } = options;
  const loop = createWorkerLoop(
    {
      clock,
      log,
      limits,
      backendSettings,
      findModel,
      hashModel,
      limitLoads: createLoadLimiter(options.loadsMax),
      spawn: options.spawn ?? spawnThread,
    },
    () => mailbox,
  );
  const mailbox = transport.open(id, loop.receive);
  let stopping: Promise<void> | undefined;

  const stop = async (deadlineMs: number | undefined) => {
    const deadline =
      deadlineMs === undefined ? undefined : clock.at(clock.nowUs() + deadlineMs * 1000, () => loop.abandon());
    await loop.stop();
    deadline?.cancel();
    await directory.leave(id);
    await mailbox.close();
  };

  return {
    start: () => directory.register({ id, role: 'worker', draining: false }),
    stop(deadlineMs) {
      stopping ??= stop(deadlineMs);
      return stopping;
    },
    counters: () => ({ batches: loop.unsettled, requests: loop.running, threads: loop.liveThreads }),
  };
}
