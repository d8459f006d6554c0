import { type ControlMode, DEFAULTS, type ModelRecord, type PlacementMode } from '@nereid/config';
import { type ErrorInfo, errorInfo, NereidError, type ProcessId } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import type { Clock, Log, Registry } from '@nereid/runtime';
import {
  type BulkStore,
  type Directory,
  type JobQueues,
  type KeptTotals,
  type ProcessRecord,
  type Timing,
  type Transport,
  timing,
  type Uploads,
} from '@nereid/transport';
import { createConditions } from './conditions.ts';
import { type CoordinatorCounts, countRequests } from './coordinator-counts.ts';
import { createCoordinatorPoll } from './coordinator-poll.ts';
import { createDesiredModels } from './desired-models.ts';
import type { EnsembleCallsParts } from './ensemble-calls.ts';
import { createKeptUploads } from './kept-uploads.ts';
import { createLeaseLook } from './lease-look.ts';
import { drainQueues } from './model-queues.ts';
import { overriddenReader } from './overridden-reader.ts';
import { canHandOver, isIdle, type OwnedModel } from './owned-model.ts';
import type { Owner } from './owner.ts';
import { createReaper } from './reaper.ts';
import { createRepositoryTell } from './repository-tell.ts';
import { openCoordinator, type Running } from './running-coordinator.ts';
import { startupModels, wantedModels } from './startup-models.ts';
import { createStatisticsKeeper } from './statistics-keeper.ts';

export interface CoordinatorOptions {
  /**
   * `none` loads every model at start; `poll` too, and follows what changes in the repositories; `explicit` loads only
   * `loadModels` and what clients load.
   */
  readonly controlMode: ControlMode;
  /** For `poll`: seconds between two looks at the repositories; 0, the default, for none. */
  readonly repositoryPollSecs?: number;
  /** As they were given: with these and the mode a coordinator joins only those that have the same. */
  readonly repositories?: readonly string[];
  /** `--model-namespacing`; false by default. Known by what the repositories tell; here it is compared as the others are. */
  readonly namespacing?: boolean;
  /** For `explicit`, at the start of a cluster: names, or `*` alone for all. */
  readonly loadModels?: readonly string[];
  /** Models that load at the same time at start; 4 by default (`--model-load-thread-count`). */
  readonly modelLoadThreads?: number;
  /** Batches that an instance holds at a time, in place of the rule in scheduler/instance-depth. */
  readonly instanceDepth?: number;
  /** `--rate-limit=execution_count`; false by default. */
  readonly rateLimit?: boolean;
  /** Callers keep answers (`--cache-config`); false by default. */
  readonly responseCache?: boolean;
  /** `all` by default. */
  readonly placement?: PlacementMode;
  /** Requests that may wait in a version whose config sets no max_queue_size. */
  readonly queueMax?: number;
  /** How long the workers of a model that was taken over have to say what they hold. */
  readonly takeoverWaitMs?: number;
}

export interface CoordinatorParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly log: Log;
  readonly registry: Registry;
  readonly reader: ModelReader;
  /** Where jobs are; without them only requests are served. */
  readonly jobs?: JobQueues | undefined;
  /** Where batches are; without them none are run. */
  readonly bulk?: BulkStore | undefined;
  /** Where what was counted outlives its owner; without it each owner counts from 0. */
  readonly totals?: KeptTotals | undefined;
  readonly responses?: EnsembleCallsParts['responses'];
  /** Where what clients load models from is; without it nothing of it is kept. */
  readonly uploads?: Pick<Uploads, 'keep' | 'release'>;
  readonly options: CoordinatorOptions;
  /**
   * When to look for free leases and to ask after what is out. Absent: all roles are in this process,
   * no message is ever lost and no lease runs out.
   */
  readonly timing?: Timing;
}

export interface LoadFailure {
  readonly model: string;
  readonly error: ErrorInfo;
}

/**
 * Owns models, queues their requests and forms their batches.
 *
 * It is *new* until `start`, which registers it and loads those models of its control mode that fall
 * to it, then *running*: it takes over what other coordinators leave. `stop` makes it *stopping*: new
 * requests are refused, or sent on to the next owner, while what it accepted ends. Then it hands its
 * models over where another coordinator lives, or a gateway that waits for one; else its workers drop
 * them and the records go. It is *stopped* with no lease or timer left.
 */
export interface Coordinator {
  /**
   * Resolves when each model that falls to it is ready, has failed, or waits for a worker that takes
   * it; the failures are returned. Waiting is none with roles apart; in one process nobody can join.
   */
  start(): Promise<readonly LoadFailure[]>;
  /** Resolves with the model's record once it is ready on each worker; rejects with Triton's text. Only with `explicit`. */
  loadModel(name: string): Promise<ModelRecord>;
  /** See Owner. Only with `explicit`. */
  unloadModel(name: string): Promise<void>;
  /** Looks at once what its repositories hold, and tells; with roles apart it does so by itself every few seconds. */
  tellRepository(): Promise<void>;
  /** Ends what was accepted and gives all back; what is not over in time is dropped. Idempotent. */
  stop(deadlineMs?: number): Promise<void>;
  /** All zero when nothing is going on. */
  readonly counts: CoordinatorCounts;
  /** Jobs that it has taken and not ended. */
  readonly heldJobs: number;
  /** Messages that were meant for another owner or epoch. */
  readonly refusedMessages: number;
}

export function createCoordinator(given: CoordinatorParts): Coordinator {
  const { id, clock, directory, log, options } = given;
  const { controlMode, repositories = [], namespacing = false } = options;
  const desired = createDesiredModels(directory, { controlMode, repositories, namespacing });
  const parts = { ...given, reader: overriddenReader(given.reader, desired) };
  const uploads = createKeptUploads(parts.uploads, desired, log);
  const models = new Map<string, OwnedModel>();
  const conditions = createConditions();
  const tellRepository = createRepositoryTell({ ...parts, controlMode: options.controlMode });
  const keeper = createStatisticsKeeper({ log, models, totals: parts.totals });
  const look = createLeaseLook({ id, directory, look_ms: (parts.timing ?? timing()).lease_look_ms });
  /** With `none`: what was there at the start. */
  let wanted: readonly string[] = [];
  let stopping = false;
  let stoppedUs = Number.POSITIVE_INFINITY;
  /** Whether all that fell to it at its start is taken, and the directory knows. */
  let start: 'taking' | 'taken' | 'telling' | 'told' = 'taking';
  let stopped: Promise<void> | undefined;
  let running: Running | undefined;
  let unfollow = () => {};

  const poll =
    options.controlMode !== 'poll'
      ? undefined
      : createCoordinatorPoll({
          ...parts,
          ...{ models, look },
          owner: () => running?.owner,
          looked() {
            takeFree();
            void tellRepository();
          },
          stopping: () => stopping,
        });

  const startTicks = (times: Timing, { ticks, owner, changes }: Running) => {
    ticks.every(times.lease_look_ms, () => {
      owner.checkLeases();
      takeFree();
    });
    ticks.every(times.sweep_ms, () => {
      void tellStarted();
      owner.workersChanged();
      owner.probe(times);
      changes.converge();
    });
    ticks.every(times.repository_look_ms, () => {
      void tellRepository();
      void uploads.keep();
    });
    ticks.every(times.statistics_keep_ms, () => void keeper.keep());
    const reaper = createReaper({ id, directory, totals: parts.totals });
    ticks.every(times.probe_worker_ms, () => {
      reaper.reap().catch((error) => log.warn({ err: error }, 'records without an owner not reaped'));
    });
  };

  const isUnloaded = (name: string) => desired.current()?.get(name)?.unloaded === true;

  /** Some coordinator is to own them; of those that were unloaded on purpose it shows that. */
  const wantedNow = (): readonly string[] => {
    const said = desired.current();
    if (said === undefined) {
      const named = start === 'taking' ? wanted : (poll?.present() ?? wanted);
      return wantedModels(options.controlMode, named, directory.records());
    }
    return [...said.keys()].filter((name) => !isUnloaded(name) || directory.record(name) !== undefined);
  };

  /** The desired models that nobody owns or minds and that fall to this coordinator now. */
  const freeModels = ({ owner, changes }: Running): readonly string[] =>
    look.toTake(
      wantedNow().filter((name) => !owner.minds(name) && !changes.isChanging(name)),
      clock.nowUs(),
    );

  const takeFree = () => {
    if (running === undefined || stopping) return;
    for (const name of freeModels(running)) {
      const { owner } = running;
      owner.take(name, false).catch((error) => {
        if (waits(owner, name)) return;
        if (poll === undefined) log.warn({ err: error, model: name }, 'model not taken');
        else poll.failed(name, error);
      });
    }
  };

  const followDesired = () => {
    running?.changes.converge();
    takeFree();
  };

  /**
   * The models are wanted after this coordinator: another can take them over, or gateways wait for one.
   * In one process all roles stop together.
   */
  const handsOver = () => {
    const goesOn = (process: ProcessRecord) => process.id !== id && !process.draining;
    const others = [...directory.processes('coordinator'), ...directory.processes('gateway')];
    return parts.timing !== undefined && others.some(goesOn);
  };

  const runningNow = (): Running => {
    if (running === undefined) throw new NereidError('UNAVAILABLE', 'the coordinator is not running');
    return running;
  };

  /** The load is not over: with roles apart a worker may join that takes the model. */
  const waits = (owner: Owner, name: string) => parts.timing !== undefined && owner.waitsForHolder(name);

  /** Takes models side by side; each that fails is told and the others go on. */
  const takeAll = async (names: readonly string[]): Promise<LoadFailure[]> => {
    const { owner } = runningNow();
    const failures: LoadFailure[] = [];
    const takeOne = async (name: string) => {
      try {
        await owner.take(name, !isUnloaded(name));
      } catch (error) {
        // Another coordinator was faster.
        if (directory.owner(name) !== undefined && !owner.minds(name)) return;
        if (waits(owner, name)) return;
        failures.push({ model: name, error: errorInfo(error) });
      }
    };
    await Promise.all(names.map(takeOne));
    return failures.sort((a, b) => (a.model < b.model ? -1 : 1));
  };

  /** What a directory that does not answer still has of this coordinator at its end runs out by itself. */
  const tell = async (step: () => Promise<void>): Promise<boolean> => {
    try {
      await step();
      return true;
    } catch (error) {
      log.warn({ err: error }, 'the directory was not told');
      return false;
    }
  };

  /** Gateways are not ready for want of a coordinator that still takes its models. */
  const tellStarted = async () => {
    if (start !== 'taken' || stopping) return;
    start = 'telling';
    start = (await tell(() => directory.register({ id, role: 'coordinator', draining: false }))) ? 'told' : 'taken';
  };

  const shutDown = async (deadlineMs: number) => {
    stopping = true;
    stoppedUs = clock.nowUs();
    if (running === undefined) return;
    const { mailbox, metrics, jobs, bulk, ensembleCalls, owner, ticks, unlink } = running;
    const deadline = clock.at(clock.nowUs() + deadlineMs * 1000, () => conditions.abandon());
    // Without Redis nobody answers any more, and waiting for the others would last to the deadline.
    if (!(await tell(() => directory.register({ id, role: 'coordinator', draining: true })))) conditions.abandon();
    await bulk?.close();
    for (const model of models.values()) {
      drainQueues(model);
      if (!handsOver()) owner.onDemand.refuseWaiting(model);
    }
    conditions.check();
    const canGo = (model: OwnedModel) => canHandOver(model) || owner.onDemand.isUnheld(model);
    await conditions.wait(() => [...models.values()].every(handsOver() ? canGo : isIdle));
    // Leases last: whoever takes one over finds nothing of this owner's under way.
    await tell(() => (handsOver() ? owner.handOver() : owner.release()));
    await jobs?.close();
    await ensembleCalls.close();
    deadline.cancel();
    conditions.abandon();
    ticks.close();
    unfollow();
    unlink();
    metrics.close();
    await mailbox.close();
    await tell(() => directory.leave(id));
    running = undefined;
  };

  return {
    async start() {
      running = openCoordinator(parts, {
        ...{ models, conditions, keeper, desired, uploads, handsOver, takeFree },
        stopping: () => stopping,
        stoppedUs: () => stoppedUs,
      });
      await directory.register({ id, role: 'coordinator', draining: false, starting: true });
      wanted = await (poll?.begin() ?? startupModels(options, parts.reader));
      await desired.begin(wanted);
      await tellRepository();
      const taken = takeAll(freeModels(running));
      unfollow = desired.watch(followDesired);
      // It may have been stopped meanwhile.
      if (parts.timing !== undefined && !stopping) startTicks(parts.timing, running);
      if (poll !== undefined && !stopping) poll.start(running.ticks);
      const failures = await taken;
      start = 'taken';
      await tellStarted();
      return failures;
    },
    loadModel: async (name) => runningNow().changes.load(name, undefined),
    async unloadModel(name) {
      const { over } = await runningNow().changes.unload(name, false);
      await over;
    },
    tellRepository,
    stop(deadlineMs = DEFAULTS.exit_timeout_s * 1000) {
      stopped ??= shutDown(deadlineMs);
      return stopped;
    },
    get counts() {
      return countRequests(models, conditions.waits);
    },
    get heldJobs() {
      return running?.jobs?.held ?? 0;
    },
    get refusedMessages() {
      return running?.intake.refused ?? 0;
    },
  };
}
