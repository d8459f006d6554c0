/**
 * A model version on this worker: its instances and the state that the repository index shows.
 *
 * States: *LOADING* from the start until every instance is ready; *READY* then, also while an
 * instance is being restarted or after some were given up; *UNAVAILABLE* with the reason once an
 * instance could not be loaded, which stops the others, or once none that can be scheduled is left;
 * *UNLOADING* from `stop` until all batches are settled and
 * all threads and processes have ended, then *UNAVAILABLE* 'unloaded'.
 */
import {
  type ExpandedInstance,
  expandInstances,
  instanceChanges,
  type ModelConfig,
  type ModelSignature,
} from '@nereid/config';
import {
  ERROR_TABLE,
  type ErrorInfo,
  errorInfo,
  NereidError,
  type VersionDescription,
  type VersionState,
} from '@nereid/protocol';
import type { AtMost, Clock, Log } from '@nereid/runtime';
import type { ModelCaller } from './carrier-calls.ts';
import { describeHeld, type HeldInstance, type InstanceSequences } from './held-instance.ts';
import type { Instance, InstanceLimits } from './instance.ts';
import { failBatch, type InstanceBatch } from './instance-batch.ts';
import type { KeptAnswersLimits } from './kept-answers.ts';
import type { ModelFolder } from './model-folder.ts';
import type { LoadRoom } from './model-memory.ts';
import type { InstanceLaunch, SpawnProcess } from './process-line.ts';
import type { RateLimits } from './rate-limits.ts';
import type { SpawnThread } from './thread-line.ts';
import { gatedInstance, instanceOf } from './version-instances.ts';

/** `--backend-config`: settings by backend name, '' for all backends. */
export type BackendSettings = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The fields of LIMITS that a worker keeps to. */
export interface HostingLimits extends InstanceLimits, KeptAnswersLimits {
  readonly model_calls_max: number;
}

/** What every version on a worker shares. */
export interface HostingOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: HostingLimits;
  readonly backendSettings: BackendSettings;
  readonly limitLoads: AtMost;
  /** How often the instances of a version are started again where one of them cannot be. */
  readonly loadRetries: number;
  readonly spawn: SpawnThread;
  /** Undefined where `--rate-limit` is off. */
  readonly rateLimits: RateLimits | undefined;
  readonly spawnProcess: SpawnProcess;
  /** By whom models call others; asked only then. */
  readonly caller: () => ModelCaller;
  /** How the process of an instance is started, by its host policy; undefined where any carrier will do. */
  readonly launch: (instance: ExpandedInstance) => InstanceLaunch | undefined;
}

export interface VersionSource {
  readonly version: string;
  readonly config: ModelConfig;
  readonly signature: ModelSignature;
  /** The config as messages carry it. */
  readonly configText: string;
  /** The model's folder on this worker. */
  readonly folder: ModelFolder;
  readonly contentHash: string;
  /** Its load's; undefined where nothing is told of memory. */
  readonly room?: LoadRoom | undefined;
}

export interface HostedVersion {
  readonly source: VersionSource;
  /**
   * Has the instances of another source of the same files: those that go on are as they were, others are started first,
   * and what is not wanted any more then ends what it has. Where one cannot be started all stays as it is, with the
   * reason in the description.
   */
  change(next: VersionSource): void;
  /** The instance takes nothing more. */
  isGone(instance: number): boolean;
  readonly state: VersionState;
  /** Loads all instances. Never throws; resolves when the version is READY or UNAVAILABLE. */
  load(): Promise<void>;
  execute(instance: number, batch: InstanceBatch): void;
  /** The request at that position of a batch given to the instance has been marked as cancelled. */
  cancel(instance: number, batch: InstanceBatch, position: number): void;
  /** Idempotent. */
  stop(): Promise<void>;
  /** The stop is past its deadline. */
  abandon(): void;
  /** Without the ids of running requests. */
  describe(): Omit<VersionDescription, 'running'>;
  readonly unsettled: number;
  readonly liveCarriers: number;
}

export function createHostedVersion(
  source: VersionSource,
  hosting: HostingOptions,
  changed: () => void,
  sequences: InstanceSequences,
): HostedVersion {
  const { config, version } = source;
  const instances = () => [...held.values()].map(({ instance }) => instance);
  let state: VersionState = 'LOADING';
  let reason = '';
  /** By index. Those that leave are among them until they have ended. */
  const held = new Map<number, HeldInstance>();
  let current = source;
  let nextIndex = 0;
  let changes = Promise.resolve();
  let stopping: Promise<void> | undefined;
  /** Instances of an earlier source start again from its folder. */
  const folders = [source.folder.hold()];
  /** Of its load, and of each change that took more. */
  const rooms = [source.room];

  const leaveRooms = () => rooms.map((room) => room?.over(version));

  const become = (next: VersionState, why = '') => {
    state = next;
    reason = why;
    changed();
  };

  const giveUp = (error: ErrorInfo) => {
    if (state === 'UNAVAILABLE' || state === 'UNLOADING') return;
    sequences.lost(undefined);
    become('UNAVAILABLE', `${ERROR_TABLE[error.code].label}: ${error.message}`);
    hosting.log.error({ model: config.name, version }, `failed to load: ${reason}`);
    for (const room of rooms) room?.leaving(version);
    void Promise.all(instances().map((instance) => instance.stop())).then(leaveRooms);
  };

  const warned = new Set<Instance>();

  /** Triton has no such case: an instance that is given up leaves the others to serve. */
  const instanceChanged = () => {
    const all = instances();
    const failed = all.filter((instance) => instance.failure !== null);
    const why = failed[0]?.failure ?? null;
    const isLeft = all.some((instance) => instance.failure === null && !instance.describe().passive);
    if (why !== null && (state === 'LOADING' ? hosting.loadRetries === 0 : !isLeft)) {
      giveUp(why);
      return;
    }
    // It may be tried again.
    if (state === 'LOADING') return;
    for (const instance of failed) {
      if (warned.has(instance)) continue;
      warned.add(instance);
      const left = all.length - failed.length;
      hosting.log.warn({ model: config.name, version, left }, `an instance was given up: ${instance.failure?.message}`);
    }
    if (state === 'READY') changed();
  };

  /** They are known before they are ready. */
  const startAll = async (
    of: VersionSource,
    directory: string,
    expanded: readonly ExpandedInstance[],
  ): Promise<ErrorInfo | null> => {
    const gates = hosting.rateLimits?.join(expanded);
    const started = expanded.map((one) => {
      const instance = gatedInstance(of, gates?.get(one.index), instanceChanged, (changed) =>
        instanceOf(of, hosting, directory, one, { changed, stateLost: () => sequences.lost(one.index) }),
      );
      held.set(one.index, { expanded: one, instance, leaving: false });
      nextIndex = Math.max(nextIndex, one.index + 1);
      return instance;
    });
    const isWanted = () => state === 'LOADING' || state === 'READY';
    const failures = await Promise.all(
      started.map((instance) => hosting.limitLoads(async () => (isWanted() ? instance.start() : null))),
    );
    return failures.find((failure) => failure !== null) ?? null;
  };

  const drop = async (index: number) => {
    const one = held.get(index);
    held.delete(index);
    await one?.instance.stop();
  };

  const load = async () => {
    try {
      const directory = await source.folder.directory();
      await source.room?.admitted;
      if (state !== 'LOADING') return;
      const expanded = expandInstances(config);
      checkCount(config, expanded, hosting.limits);
      let failed = await startAll(source, directory, expanded);
      for (let left = hosting.loadRetries; failed !== null && state === 'LOADING' && left > 0; left--) {
        hosting.log.warn({ model: config.name, version, left }, `load is tried again: ${failed.message}`);
        await Promise.all(expanded.map(({ index }) => drop(index)));
        failed = await startAll(source, directory, expanded);
      }
      if (failed !== null) giveUp(failed);
      else if (state === 'LOADING') {
        source.room?.ready();
        become('READY');
      }
    } catch (error) {
      giveUp(errorInfo(error));
    }
  };

  /** What it has ends; a sequence has its state there. */
  const leave = async (index: number, one: HeldInstance) => {
    one.leaving = true;
    if (current.signature.sequence !== undefined) await sequences.over(index);
    one.gone = true;
    changed();
    await one.instance.stop();
    held.delete(index);
    changed();
  };

  const change = async (next: VersionSource) => {
    if (state !== 'READY') return;
    const staying = [...held.values()].filter(({ leaving }) => !leaving).map(({ expanded }) => expanded);
    const giveBack = next.folder.hold();
    rooms.push(next.room);
    try {
      const directory = await next.folder.directory();
      await next.room?.admitted;
      const { added, removed } = instanceChanges(staying, expandInstances(next.config), nextIndex);
      checkCount(config, [...staying, ...added], hosting.limits);
      const failed = await startAll(next, directory, added);
      if (state !== 'READY') {
        giveBack();
        return;
      }
      if (failed !== null) {
        await Promise.all(added.map(({ index }) => drop(index)));
        throw new NereidError(failed.code, failed.message);
      }
      next.room?.ready();
      current = next;
      folders.push(giveBack);
      reason = '';
      for (const { index } of removed) {
        const one = held.get(index);
        if (one !== undefined) void leave(index, one);
      }
    } catch (error) {
      giveBack();
      next.room?.over(version);
      const { code, message } = errorInfo(error);
      reason = `${ERROR_TABLE[code].label}: ${message}`;
    }
    changed();
  };

  const stop = async () => {
    const loaded = state !== 'UNAVAILABLE';
    if (loaded) become('UNLOADING');
    for (const room of rooms) room?.leaving(version);
    await Promise.all(instances().map((instance) => instance.stop()));
    leaveRooms();
    for (const giveBack of folders) giveBack();
    if (loaded) become('UNAVAILABLE', 'unloaded');
  };

  return {
    get source() {
      return current;
    },
    change(next) {
      changes = changes.then(() => change(next));
    },
    isGone: (index) => held.get(index)?.gone ?? (!held.has(index) && index < nextIndex),
    get state() {
      return state;
    },
    load,
    execute(index, batch) {
      const instance = held.get(index)?.instance;
      if (instance !== undefined && (state === 'READY' || state === 'LOADING')) {
        instance.execute(batch);
        return;
      }
      const why = instance === undefined ? `it has no instance ${index}` : reason;
      failBatch(
        batch,
        false,
        {
          code: 'UNAVAILABLE',
          message: `model '${config.name}' version ${version} is not ready on this worker: ${why}`,
        },
        'unseen',
      );
    },
    cancel(index, batch, position) {
      held.get(index)?.instance.cancel(batch, position);
    },
    stop() {
      stopping ??= stop();
      return stopping;
    },
    abandon() {
      for (const instance of instances()) instance.abandon();
    },
    describe: () => ({
      version,
      state,
      reason,
      instances: [...held.values()].flatMap(describeHeld),
      contentHash: current.contentHash,
    }),
    get unsettled() {
      return instances().reduce((sum, instance) => sum + instance.unsettled, 0);
    },
    get liveCarriers() {
      return instances().reduce((sum, instance) => sum + instance.liveCarriers, 0);
    },
  };
}

function checkCount(
  { name }: ModelConfig,
  { length }: readonly ExpandedInstance[],
  { instances_per_model_max: most }: InstanceLimits,
): void {
  if (length <= most) return;
  const text = `model '${name}' wants more than ${most} instances on one worker`;
  throw new NereidError('INVALID_ARG', text, { field: 'instance_group' });
}
