/**
 * A model on this worker: the fence of its owners, the versions held, the requests running.
 *
 * Its owner says which versions to hold (`load`), or none (`unload`). A version that is held already
 * with the same config and files is left alone; one that differs is loaded beside the old one, which
 * serves until the new one is ready and stays if that cannot be loaded (Triton's way), with the
 * reason in its description.
 */
import {
  decodeModelConfig,
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
  NereidError,
  NOT_HELD,
  type VersionDescription,
} from '@nereid/protocol';
import { createHostedVersion, type HostedVersion, type HostingOptions, type VersionSource } from './hosted-version.ts';
import type { InstanceBatch } from './instance-batch.ts';
import { createModelSequences, type ModelSequences } from './model-sequences.ts';
import type { Recorder } from './recorder.ts';

export interface HostedModelOptions extends HostingOptions {
  /** The model's folder in this worker's own repositories. */
  readonly findModel: (name: string) => string | undefined;
  /** The content hash of a model's files as this worker reads them (see ModelSource). */
  readonly hashModel: (name: string, directory: string) => Promise<string>;
  /** GPUs of this machine. */
  readonly gpus: number;
  /** That this worker carries. */
  readonly labels: Labels;
  /** Undefined where there is no journal. */
  readonly recorder: Recorder | undefined;
}

export interface HostedModel {
  readonly name: string;
  /** The highest (epoch, owner) seen; the worker is who remembers it (docs/protocol.md R3). */
  fence: Epoch | null;
  draining: boolean;
  /** The requests given to an instance and not yet answered, by id. */
  readonly running: Map<string, RunningBatch>;
  /** Batches that are settled and not answered yet, since the journal is to have them first, with their version and instance. */
  readonly settling: Map<number, Pick<RunningBatch, 'instance'> & { readonly version: string }>;
  readonly sequences: ModelSequences;
  hold(message: ControlMessage): void;
  /** As `hold` of a model that this worker does not take: it drops what it has and says so. */
  decline(message: ControlMessage): void;
  release(): void;
  version(version: string): HostedVersion | undefined;
  describe(): readonly VersionDescription[];
  /** Sequences that live are given the time to end, until `sequences.giveUp` or `abandon`. */
  stop(): Promise<void>;
  /** The stop is past its deadline. */
  abandon(): void;
  readonly unsettled: number;
  readonly liveCarriers: number;
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

interface Slot {
  /** Serves, or is on the way to. */
  hosted: HostedVersion;
  /** Takes over once it is ready. */
  next: HostedVersion | null;
  /** Why the last successor could not. */
  nextFailed: string;
}

export function createHostedModel(name: string, options: HostedModelOptions, changed: () => void): HostedModel {
  const slots = new Map<string, Slot>();
  /** Replaced or unloaded, with threads or processes that have not ended yet. */
  const leaving = new Set<HostedVersion>();
  const running = new Map<string, RunningBatch>();
  const settling: HostedModel['settling'] = new Map();
  const { recorder } = options;
  const sequences = createModelSequences(
    name,
    options.clock,
    options.limits,
    recorder === undefined ? undefined : (fate) => recorder.review(name, fate),
  );
  let declined: readonly string[] = [];
  /** What this worker lacks for the declined versions, '' where it is told not to hold the model. */
  let lacks = '';

  const all = () => [
    ...[...slots.values()].flatMap(({ hosted, next }) => (next === null ? [hosted] : [hosted, next])),
    ...leaving,
  ];

  const leave = (hosted: HostedVersion) => {
    leaving.add(hosted);
    void hosted.stop().then(() => leaving.delete(hosted));
  };

  const open = (source: VersionSource) => {
    const hosted = createHostedVersion(source, options, changed, (instance) => {
      if (slots.get(source.version)?.hosted === hosted) sequences.lost(source.version, instance);
    });
    return hosted;
  };

  /** Sequences have their state in its instances, so those of the one before end. */
  const serve = (slot: Slot, hosted: HostedVersion) => {
    const { version, signature } = hosted.source;
    slots.set(version, slot);
    slot.hosted = hosted;
    sequences.lost(version);
    sequences.hold(version, signature);
  };

  const place = (source: VersionSource) => {
    const slot = slots.get(source.version);
    const newest = slot?.next ?? slot?.hosted;
    const held = newest?.state === 'READY' || newest?.state === 'LOADING';
    if (newest !== undefined && held && sameContent(newest.source, source)) return;
    const hosted = open(source);
    if (slot === undefined || slot.hosted.state !== 'READY') {
      if (slot?.next) leave(slot.next);
      if (slot !== undefined) leave(slot.hosted);
      serve({ hosted, next: null, nextFailed: '' }, hosted);
      void hosted.load();
      return;
    }
    if (slot.next !== null) leave(slot.next);
    slot.next = hosted;
    void hosted.load().then(() => {
      if (slot.next !== hosted) return;
      slot.next = null;
      if (hosted.state === 'READY') {
        const old = slot.hosted;
        serve(slot, hosted);
        slot.nextFailed = '';
        leave(old);
      } else {
        slot.nextFailed = hosted.describe().reason;
        leave(hosted);
      }
      changed();
    });
  };

  const drop = (slot: Slot) => {
    if (slot.next !== null) leave(slot.next);
    slot.next = null;
    slot.nextFailed = '';
    // It stays in the map, so that the owner reads how it went; a later load replaces it. Sequences are not waited for.
    sequences.lost(slot.hosted.source.version);
    void slot.hosted.stop();
  };

  const decline = (message: ControlMessage, missing = '') => {
    for (const slot of slots.values()) drop(slot);
    declined = message.versions;
    lacks = missing;
    changed();
  };

  return {
    name,
    fence: null,
    draining: false,
    running,
    settling,
    sequences,
    hold(message) {
      const { config, signature, directory } = readSource(message, options);
      const missing = lacking(config, options);
      if (missing !== undefined) {
        options.log.warn({ model: name }, `model is left to other workers: ${missing}`);
        directory.catch(() => {});
        decline(message, missing);
        return;
      }
      declined = [];
      // Each version reports a failure by itself; one that is held already does not look at it.
      directory.catch(() => {});
      for (const [version, slot] of slots) if (!message.versions.includes(version)) drop(slot);
      for (const version of message.versions) {
        place({ version, config, signature, configText: message.config, directory, contentHash: message.contentHash });
      }
      changed();
    },
    decline,
    release() {
      declined = [];
      for (const slot of slots.values()) drop(slot);
      changed();
    },
    version: (version) => slots.get(version)?.hosted,
    describe() {
      const ids = [...running.keys()];
      const held = [...slots.values()].map(({ hosted, nextFailed }) => {
        const description = withSettling(hosted.describe(), settling);
        const reason = description.reason || nextFailed;
        return { ...description, ...sequences.describe(description.version), reason, running: ids };
      });
      const others = declined.filter((version) => !slots.has(version));
      return [...held, ...others.map((version) => notHeld(version, ids, lacks))];
    },
    async stop() {
      await sequences.over();
      for (const version of slots.keys()) sequences.lost(version);
      await Promise.all(all().map((hosted) => hosted.stop()));
    },
    abandon() {
      sequences.giveUp();
      for (const hosted of all()) hosted.abandon();
    },
    get unsettled() {
      return settling.size + all().reduce((sum, hosted) => sum + hosted.unsettled, 0);
    },
    get liveCarriers() {
      return all().reduce((sum, hosted) => sum + hosted.liveCarriers, 0);
    },
  };
}

/** Its owner takes a batch that is not listed for one that is gone. */
function withSettling<T extends Pick<VersionDescription, 'version' | 'instances'>>(
  description: T,
  settling: HostedModel['settling'],
): T {
  if (settling.size === 0) return description;
  const instances = description.instances.map((instance) => {
    const more = [...settling].filter(([, of]) => of.version === description.version && of.instance === instance.index);
    return { ...instance, batches: [...instance.batches, ...more.map(([batch]) => batch)] };
  });
  return { ...description, instances };
}

function notHeld(version: string, running: readonly string[], lacks: string): VersionDescription {
  const reason = lacks === '' ? NOT_HELD : `${NOT_HELD}: ${lacks}`;
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

/** Config and folder of a load; what is wrong with either is why `directory` rejects. */
function readSource(message: ControlMessage, options: HostedModelOptions) {
  try {
    const config = resolveInstances(decodeModelConfig(message.config), options.gpus);
    const signature = modelSignature(config);
    return { config, signature, directory: checkedDirectory(message.model, message.contentHash, options) };
  } catch (unreadable) {
    const config = decodeModelConfig('{}');
    return { config, signature: modelSignature(config), directory: Promise.reject<string>(unreadable) };
  }
}

/** The model's folder, if this worker's files are those that the owner read. */
async function checkedDirectory(name: string, contentHash: string, options: HostedModelOptions): Promise<string> {
  const directory = options.findModel(name);
  if (directory === undefined)
    throw new NereidError('NOT_FOUND', `model '${name}' is in none of this worker's repositories`);
  const own = await options.hashModel(name, directory);
  if (own !== contentHash) {
    throw new NereidError(
      'UNAVAILABLE',
      `the files of model '${name}' on this worker (${own}) are not those that its owner read (${contentHash}); ` +
        'make the repositories equal and load it again',
    );
  }
  return directory;
}
