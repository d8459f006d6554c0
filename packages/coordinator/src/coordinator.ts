import { LIMITS, type ModelRecord } from '@nereid/config';
import { type ErrorInfo, errorInfo, type Message, NereidError, type ProcessId } from '@nereid/protocol';
import type { Clock, Log, Registry } from '@nereid/runtime';
import type { Directory, Mailbox, Transport } from '@nereid/transport';
import { createConditions } from './conditions.ts';
import { createIntake, type Intake } from './intake.ts';
import type { ModelReader } from './model-reader.ts';
import { isIdle, type OwnedModel } from './owned-model.ts';
import { createOwner, type Owner } from './owner.ts';
import { startupModels } from './startup-models.ts';
import { createStatisticsMetrics, type StatisticsMetrics } from './statistics-metrics.ts';

export interface CoordinatorOptions {
  /** `none` loads every model at start; `explicit` only `loadModels` and what `loadModel` is called for. */
  readonly controlMode: 'none' | 'explicit';
  /** For `explicit`: names, or `*` alone for all. */
  readonly loadModels?: readonly string[];
  /** Models that load at the same time at start; 4 by default (`--model-load-thread-count`). */
  readonly modelLoadThreads?: number;
  /** Batches that an instance holds at a time, in place of the rule in scheduler/instance-depth. */
  readonly instanceDepth?: number;
  /** Requests that may wait in a version whose config sets no max_queue_size. */
  readonly queueMax?: number;
  /** How long a load waits for a first worker. */
  readonly workerWaitMs?: number;
}

export interface CoordinatorParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly log: Log;
  readonly registry: Registry;
  readonly reader: ModelReader;
  readonly options: CoordinatorOptions;
}

export interface LoadFailure {
  readonly model: string;
  readonly error: ErrorInfo;
}

/**
 * Owns models, queues their requests and forms their batches.
 *
 * It is *new* until `start`, which registers it and loads the models of its control mode, then
 * *running*. `stop` makes it *stopping*: new requests are refused while what it accepted ends;
 * then its workers drop the models and it is *stopped*, with no lease, record or timer left.
 */
export interface Coordinator {
  /** Resolves when each model to load at start is ready or has failed; the failures are returned. */
  start(): Promise<readonly LoadFailure[]>;
  /** Resolves with the model's record once it is ready on each worker; rejects with Triton's text. Only with `explicit`. */
  loadModel(name: string): Promise<ModelRecord>;
  /** Resolves once the model is gone from each worker; also for one that is not loaded. Only with `explicit`. */
  unloadModel(name: string): Promise<void>;
  /** Ends what was accepted and gives all back; what is not over in time is dropped. Idempotent. */
  stop(deadlineMs?: number): Promise<void>;
  /** All zero when nothing is going on. */
  readonly counts: CoordinatorCounts;
}

export interface CoordinatorCounts {
  readonly queued: number;
  readonly running: number;
  /** Loads, unloads and stops that wait for workers. */
  readonly waits: number;
}

const MODEL_LOAD_THREADS = 4;
const WORKER_WAIT_MS = 10_000;
const STOP_DEADLINE_MS = 30_000;

/** Triton's text, in every mode but `explicit` (model_repository_manager.cc). */
const NOT_EXPLICIT = 'explicit model load / unload is not allowed if polling is enabled';

export function createCoordinator(parts: CoordinatorParts): Coordinator {
  const { id, clock, directory, log, options } = parts;
  const models = new Map<string, OwnedModel>();
  const conditions = createConditions();
  let stopping = false;
  let stopped: Promise<void> | undefined;
  let running: Running | undefined;

  const open = (): Running => {
    const mailbox = parts.transport.open(id, (messages) => {
      for (const message of messages) take(message);
    });
    const metrics = createStatisticsMetrics(parts.registry);
    const intake = createIntake({ id, clock, mailbox, directory, models, stopping: () => stopping });
    const owner = createOwner({
      id,
      clock,
      log,
      mailbox,
      directory,
      reader: parts.reader,
      metrics,
      conditions,
      models,
      stopping: () => stopping,
      answer: intake.answer,
      limits: {
        queue_max: options.queueMax ?? LIMITS.requests_queued_max,
        instance_depth: options.instanceDepth,
        worker_wait_ms: options.workerWaitMs ?? WORKER_WAIT_MS,
      },
    });
    const unwatch = directory.watch((change) => {
      if (change.type === 'process') owner.workersChanged();
    });
    return { mailbox, metrics, intake, owner, unwatch };
  };

  const take = (message: Message) => {
    if (running === undefined) return;
    const { intake, owner } = running;
    switch (message.kind) {
      case 'infer':
        intake.infer(message);
        break;
      case 'cancel':
        intake.cancel(message);
        break;
      case 'done':
        owner.done(message);
        break;
      case 'described':
        owner.described(message);
        break;
      case 'refused':
        owner.refused(message).catch((error) => log.error({ err: error, model: message.model }, 'lease not renewed'));
        break;
      default:
        log.warn({ kind: message.kind }, 'message that no coordinator takes');
    }
  };

  const ownerNow = (): Owner => {
    if (running === undefined) throw new NereidError('UNAVAILABLE', 'the coordinator is not running');
    return running.owner;
  };

  const explicitOwner = (): Owner => {
    if (options.controlMode !== 'explicit') throw new NereidError('UNAVAILABLE', NOT_EXPLICIT);
    return ownerNow();
  };

  /** Loads models side by side, so many at a time; each that fails is told and the others go on. */
  const loadAll = async (names: readonly string[]): Promise<LoadFailure[]> => {
    const owner = ownerNow();
    const failures: LoadFailure[] = [];
    const waiting = [...names];
    const loadOneAfterAnother = async () => {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
        try {
          await owner.load(name);
        } catch (error) {
          failures.push({ model: name, error: errorInfo(error) });
        }
      }
    };
    await Promise.all(Array.from({ length: options.modelLoadThreads ?? MODEL_LOAD_THREADS }, loadOneAfterAnother));
    return failures.sort((a, b) => (a.model < b.model ? -1 : 1));
  };

  const shutDown = async (deadlineMs: number) => {
    stopping = true;
    if (running === undefined) return;
    const { mailbox, metrics, owner, unwatch } = running;
    const deadline = clock.at(clock.nowUs() + deadlineMs * 1000, () => conditions.abandon());
    await directory.register({ id, role: 'coordinator', draining: true });
    conditions.check();
    await conditions.wait(() => [...models.values()].every(isIdle));
    await owner.release();
    deadline.cancel();
    conditions.abandon();
    unwatch();
    metrics.close();
    await directory.leave(id);
    await mailbox.close();
    running = undefined;
  };

  return {
    async start() {
      running = open();
      await directory.register({ id, role: 'coordinator', draining: false });
      return loadAll(await startupModels(options, parts.reader));
    },
    loadModel: async (name) => explicitOwner().load(name),
    unloadModel: async (name) => explicitOwner().unload(name),
    stop(deadlineMs = STOP_DEADLINE_MS) {
      stopped ??= shutDown(deadlineMs);
      return stopped;
    },
    get counts() {
      const queues = [...models.values()].flatMap(({ versions }) => versions.flatMap(({ queue }) => queue ?? []));
      return {
        queued: queues.reduce((sum, queue) => sum + queue.waiting, 0),
        running: queues.reduce((sum, queue) => sum + queue.running, 0),
        waits: conditions.waits,
      };
    },
  };
}

/** What exists from start to stop. */
interface Running {
  readonly mailbox: Mailbox;
  readonly metrics: StatisticsMetrics;
  readonly intake: Intake;
  readonly owner: Owner;
  readonly unwatch: () => void;
}
