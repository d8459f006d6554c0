/**
 * A model on this worker: the fence of its owners, the versions held, the requests running.
 *
 * Its owner says which versions to hold (`load`), or none (`unload`). Each load has a number: versions of others that the
 * owner names stay as they are beside it, all else goes. So the owner has a model loaded anew while the old one serves,
 * and lets the old one end what it has. Under the same number, a version that is held already with the same config and
 * files is left alone; one that differs takes its place.
 */
import {
  decodeModelConfig,
  differsInInstances,
  type Labels,
  type ModelConfig,
  missingGpus,
  missingLabels,
  modelSignature,
  placementRule,
  resolveInstances,
} from '@nereid/config';
import {
  type ControlMessage,
  type Epoch,
  type ExecuteEntry,
  evicted,
  heldKey,
  NereidError,
  NOT_HELD,
  type OfLoad,
  ofLoad,
  type VersionDescription,
} from '@nereid/protocol';
import type { ModelUse } from '@nereid/scheduler';
import { createHostedVersion, type HostedVersion, type HostingOptions, type VersionSource } from './hosted-version.ts';
import type { InstanceBatch } from './instance-batch.ts';
import { createModelFolder, type OpenModel } from './model-folder.ts';
import type { ModelMemory } from './model-memory.ts';
import { createModelSequences, type ModelSequences } from './model-sequences.ts';
import type { Recorder } from './recorder.ts';

export interface HostedModelOptions extends HostingOptions {
  readonly openModel: OpenModel;
  /** GPUs of this machine. */
  readonly gpus: number;
  /** That this worker carries. */
  readonly labels: Labels;
  /** Undefined where there is no journal. */
  readonly recorder: Recorder | undefined;
  /** What models take of this worker's memory. */
  readonly memory: ModelMemory;
}

export interface HostedModel {
  readonly name: string;
  /** The highest (epoch, owner) seen; the worker is who remembers it (docs/protocol.md R3). */
  fence: Epoch | null;
  draining: boolean;
  /** The requests given to an instance and not yet answered, by id. */
  readonly running: Map<string, RunningBatch>;
  /** Batches that are settled and not answered yet, since the journal is to have them first. */
  readonly settling: Map<number, SettlingBatch>;
  readonly sequences: ModelSequences;
  hold(message: ControlMessage): void;
  /** As `hold` of a model that this worker does not take: it drops what it has and says so. */
  decline(message: ControlMessage): void;
  release(): void;
  /** Requests or sequences of it have come, or ended. */
  reviewUse(): void;
  /** It was held and went for others: what its owner sent before it heard so has not run. */
  readonly isEvicted: boolean;
  version(version: string, load: number | undefined): HostedVersion | undefined;
  describe(): readonly VersionDescription[];
  /** Sequences that live are given the time to end, until `sequences.giveUp` or `abandon`. */
  stop(): Promise<void>;
  /** The stop is past its deadline. */
  abandon(): void;
  readonly unsettled: number;
  readonly liveCarriers: number;
  /** Versions that it has begun to load so far. */
  readonly loads: number;
}

export interface SettlingBatch extends Pick<RunningBatch, 'instance'>, OfLoad {
  readonly version: string;
}

/** A batch on its instance. */
export interface RunningBatch {
  readonly batch: InstanceBatch;
  /** In the order of the batch's requests. */
  readonly entries: readonly ExecuteEntry[];
  readonly instance: number;
  /** The version that got it; another may have taken its place since. */
  readonly hosted: HostedVersion | undefined;
  /** Names this execution among all of this worker. */
  readonly execution: string;
}

interface Declined {
  readonly versions: readonly string[];
  /** Why this worker does not hold them. */
  readonly reason: string;
}

/** Copies of the last steps of a sequence come within this, and are to be known for what they are. */
const ENDED_KEPT_MS = 10_000;

interface Slot {
  readonly load: number;
  readonly hosted: HostedVersion;
}

export function createHostedModel(name: string, options: HostedModelOptions, changed: () => void): HostedModel {
  /** By `heldKey`. */
  const slots = new Map<string, Slot>();
  /** Replaced or unloaded, with threads or processes that have not ended yet. */
  const leaving = new Set<HostedVersion>();
  const running = new Map<string, RunningBatch>();
  const settling: HostedModel['settling'] = new Map();
  const { memory, recorder } = options;
  const sequences = createModelSequences(name, options.clock, options.limits, (fate) => {
    recorder?.review(name, fate);
    reviewUse();
  });
  /** By their numbers, loads that this worker does not take. */
  const declined = new Map<number, Declined>();
  /** The load that the owner wants, also where it is declined. */
  let wanted = 0;
  let isEvicted = false;

  /** As the memory was told last. */
  let use: ModelUse = { busy: false, pinned: false, keepWarmUs: 0 };

  const reviewUse = () => {
    const busy = running.size > 0 || settling.size > 0 || sequences.anyLive;
    if (busy === use.busy) return;
    use = { ...use, busy };
    memory.used(name, use);
  };

  const all = () => [...[...slots.values()].map(({ hosted }) => hosted), ...leaving];

  const leave = (hosted: HostedVersion) => {
    leaving.add(hosted);
    void hosted.stop().then(() => leaving.delete(hosted));
  };

  let loads = 0;
  const open = (key: string, source: VersionSource) => {
    loads += 1;
    const isThere = () => slots.get(key)?.hosted === hosted;
    const hosted = createHostedVersion(source, options, changed, {
      lost: (instance) => {
        if (isThere()) sequences.lost(key, instance);
      },
      over: (instance) => sequences.overOn(key, instance),
    });
    return hosted;
  };

  const isThere = (load: number, source: VersionSource) => {
    const held = slots.get(heldKey(source.version, load))?.hosted;
    return (held?.state === 'READY' || held?.state === 'LOADING') && sameContent(held.source, source);
  };

  /** The config whose instances go on beside those of these sources. */
  const changedFrom = ([first]: readonly VersionSource[]): ModelConfig | undefined => {
    const held = first === undefined ? undefined : slots.get(heldKey(first.version, wanted))?.hosted;
    const goesOn =
      held?.state === 'READY' && differsInInstances(held.source.config, first?.config ?? held.source.config);
    return goesOn ? held.source.config : undefined;
  };

  const place = (load: number, source: VersionSource) => {
    const key = heldKey(source.version, load);
    const held = slots.get(key)?.hosted;
    if (held?.state === 'READY' && differsInInstances(held.source.config, source.config)) {
      held.change(source);
      return;
    }
    if (held !== undefined) leave(held);
    const hosted = open(key, source);
    slots.set(key, { load, hosted });
    // Sequences have their state in its instances, so those of the one before end.
    sequences.lost(key);
    sequences.hold(key, source.signature);
    void hosted.load();
  };

  /** Sequences are not waited for. */
  const drop = (key: string, { load, hosted }: Slot) => {
    sequences.lost(key);
    const stopped = hosted.stop();
    // One of the wanted load stays, so that the owner reads how it went; a later load takes its place.
    void stopped.then(() => {
      if (load === wanted || slots.get(key)?.hosted !== hosted) return;
      slots.delete(key);
      sequences.forget(key);
      changed();
    });
  };

  const dropAll = () => {
    for (const [key, slot] of slots) drop(key, slot);
  };

  /** All but what the message names. */
  const dropOthers = ({ versions, keep = [] }: ControlMessage) => {
    for (const [key, slot] of slots) {
      const stays = slot.load === wanted ? versions.includes(slot.hosted.source.version) : keep.includes(slot.load);
      if (!stays) drop(key, slot);
    }
    for (const load of declined.keys()) if (load !== wanted && !keep.includes(load)) declined.delete(load);
  };

  const decline = (message: ControlMessage, missing = '') => {
    wanted = message.load ?? 0;
    dropOthers({ ...message, versions: [] });
    declined.set(wanted, { versions: message.versions, reason: missing === '' ? NOT_HELD : `${NOT_HELD}: ${missing}` });
    isEvicted = false;
    changed();
  };

  memory.join(name, (why) => {
    const versions = [...slots.values()]
      .filter(({ load }) => load === wanted)
      .map(({ hosted }) => hosted.source.version);
    for (const [key, { hosted }] of slots) {
      slots.delete(key);
      sequences.forget(key);
      leave(hosted);
    }
    isEvicted = true;
    declined.set(wanted, { versions, reason: evicted(why) });
    changed();
  });

  return {
    name,
    fence: null,
    draining: false,
    running,
    settling,
    sequences,
    hold(message) {
      const { config, signature, folder } = readSource(message, options);
      const missing = lacking(config, options);
      if (missing !== undefined) {
        options.log.warn({ model: name }, `model is left to other workers: ${missing}`);
        decline(message, missing);
        return;
      }
      isEvicted = false;
      wanted = message.load ?? 0;
      declined.delete(wanted);
      dropOthers(message);
      const { config: configText, contentHash } = message;
      const sources = message.versions.map((version) => ({
        version,
        config,
        signature,
        configText,
        folder,
        contentHash,
      }));
      const missed = sources.filter((source) => !isThere(wanted, source));
      const { onDemand = false, pinned = false } = message;
      const { keepWarmMs } = placementRule(config);
      // What it remembers of sequences that ended goes with it.
      const leastMs = signature.sequence === undefined ? 0 : ENDED_KEPT_MS;
      use = { ...use, pinned, keepWarmUs: Math.max(keepWarmMs, leastMs) * 1000 };
      memory.used(name, use);
      if (missed.length > 0) {
        const versions = missed.map(({ version }) => version);
        const room = memory.open({
          model: name,
          config,
          versions,
          contentHash,
          directory: folder.directory(),
          evictable: onDemand,
          grownFrom: changedFrom(missed),
        });
        for (const source of missed) place(wanted, { ...source, room });
      }
      changed();
    },
    decline,
    reviewUse,
    get isEvicted() {
      return isEvicted;
    },
    release() {
      declined.clear();
      dropAll();
      changed();
    },
    version: (version, load) => slots.get(heldKey(version, load))?.hosted,
    describe() {
      const ids = [...running.keys()];
      const held = [...slots].map(([key, { load, hosted }]) => ({
        ...withSettling(hosted.describe(), load, settling),
        ...sequences.describe(key),
        ...ofLoad(load),
        running: ids,
      }));
      const others = [...declined].flatMap(([load, { versions, reason }]) =>
        versions
          .filter((version) => !slots.has(heldKey(version, load)))
          .map((version) => ({ ...notHeld(version, ids, reason), ...ofLoad(load) })),
      );
      return [...held, ...others];
    },
    async stop() {
      await sequences.over();
      for (const key of slots.keys()) sequences.lost(key);
      await Promise.all(all().map((hosted) => hosted.stop()));
    },
    abandon() {
      sequences.giveUp();
      for (const hosted of all()) hosted.abandon();
    },
    get unsettled() {
      return settling.size + all().reduce((sum, hosted) => sum + hosted.unsettled, 0);
    },
    get loads() {
      return loads;
    },
    get liveCarriers() {
      return all().reduce((sum, hosted) => sum + hosted.liveCarriers, 0);
    },
  };
}

/** Its owner takes a batch that is not listed for one that is gone. */
function withSettling<T extends Pick<VersionDescription, 'version' | 'instances'>>(
  description: T,
  load: number,
  settling: HostedModel['settling'],
): T {
  if (settling.size === 0) return description;
  const key = heldKey(description.version, load);
  const instances = description.instances.map((instance) => {
    const more = [...settling].filter(
      ([, of]) => heldKey(of.version, of.load) === key && of.instance === instance.index,
    );
    return { ...instance, batches: [...instance.batches, ...more.map(([batch]) => batch)] };
  });
  return { ...description, instances };
}

function notHeld(version: string, running: readonly string[], reason: string): VersionDescription {
  return { version, state: 'UNAVAILABLE', reason, instances: [], running };
}

function sameContent(a: VersionSource, b: VersionSource): boolean {
  return a.configText === b.configText && a.contentHash === b.contentHash;
}

/** What this worker lacks for the model; undefined where it has all. */
function lacking(config: ModelConfig, { labels, gpus }: HostedModelOptions): string | undefined {
  const missing = missingLabels(placementRule(config).labels, labels);
  return missing === '' ? missingGpus(config, gpus) : `no worker carries ${missing}`;
}

/** Config and folder of a load; what is wrong with either is why the folder cannot be opened. */
function readSource(message: ControlMessage, options: HostedModelOptions) {
  try {
    const config = resolveInstances(decodeModelConfig(message.config), options.gpus);
    const signature = modelSignature(config);
    return { config, signature, folder: createModelFolder(() => openChecked(message, options)) };
  } catch (unreadable) {
    const config = decodeModelConfig('{}');
    return { config, signature: modelSignature(config), folder: createModelFolder(() => Promise.reject(unreadable)) };
  }
}

/** The model's files, if this worker's are those that the owner read. */
async function openChecked({ model, contentHash, override }: ControlMessage, { openModel }: HostedModelOptions) {
  const opened = await openModel(model, contentHash, override);
  if (opened.contentHash === contentHash) return opened;
  opened.release();
  throw new NereidError(
    'UNAVAILABLE',
    `the files of model '${model}' on this worker (${opened.contentHash}) are not those that its owner read ` +
      `(${contentHash}); make the repositories equal and load it again`,
  );
}
