/** For tests: a coordinator between gateways and workers that are plain mailboxes, in virtual time. */
import { type ModelRecord, type ModelSource, parseModelConfig } from '@nereid/config';
import {
  CANCELLED,
  type CancelMessage,
  type CarriedOutcome,
  type CarriedTensor,
  type ControlMessage,
  type DoneEntry,
  type EndedSession,
  type Epoch,
  type ErrorInfo,
  type ExecuteMessage,
  type InferRequest,
  type Message,
  NereidError,
  NOT_HELD,
  ofLoad,
  type ProcessId,
  type ResponseTimes,
  type RunningStream,
  type SlotDescription,
  type VersionDescription,
} from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';
import { createLog, createRegistry, virtualClock } from '@nereid/runtime';
import type { Directory, Transport } from '@nereid/transport';
import { type CoordinatorOptions, type CoordinatorParts, createCoordinator } from './coordinator.ts';
import { fakeGateway } from './fake-gateway.ts';
import { fakeLane } from './fake-lane.ts';

const CONFIG = `
  backend: "javascript"
  input { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }
  output { name: "B" data_type: TYPE_FP32 dims: [ -1 ] }`;

/** A model as the repository would hold it; `config` is added to one input and one output of any length. */
export function fakeModel(name: string, config = '', more: Partial<ModelSource> = {}): ModelSource {
  return {
    name,
    directory: `/models/${name}`,
    config: parseModelConfig(`name: "${name}" ${CONFIG} ${config}`, 'config.pbtxt'),
    labels: {},
    versions: ['1'],
    contentHash: 'hash-1',
    ...more,
  };
}

export function fakeRequest(model: string, more: Partial<InferRequest> & { shape?: number[] } = {}): InferRequest {
  const { shape = [1, 4], ...fields } = more;
  return {
    modelName: model,
    modelVersion: '',
    id: '',
    correlationId: 0n,
    sequenceStart: false,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs: [{ name: 'A', datatype: 'FP32', shape, data: new Uint8Array(4) }],
    requestedOutputs: [],
    ...fields,
  };
}

/** Lets all that is due in microtasks happen. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

export type FakeCluster = ReturnType<typeof fakeCluster>;

export function fakeCluster(
  models: readonly ModelSource[],
  options: Partial<CoordinatorOptions> = {},
  more: Pick<CoordinatorParts, 'jobs' | 'timing' | 'totals'> = {},
) {
  const clock = virtualClock();
  const lane = fakeLane();
  const { transport, directory } = lane;
  const registry = createRegistry();
  const files = new Map<string, ModelSource | NereidError>(models.map((model) => [model.name, model]));
  const reader: ModelReader = {
    folders: async () => [...files.keys()].map((name) => ({ name, conflict: null })),
    list: async () =>
      [...files].map(([name, model]) => {
        const signature = model instanceof NereidError ? model.message : model.contentHash;
        return { name, conflict: null, signature };
      }),
    read: async (name) => {
      const found = files.get(name);
      if (found === undefined) throw new NereidError('INTERNAL', `failed to load '${name}'`);
      if (found instanceof NereidError) throw found;
      return found;
    },
    directory: async (name) => {
      const found = files.get(name);
      if (found === undefined || found instanceof NereidError)
        throw new NereidError('INTERNAL', `no folder of '${name}'`);
      return found.directory;
    },
    versions: async () => ['1', '2'],
  };
  const log = createLog({ level: 'silent' });
  const answered: string[] = [];
  const parts = { clock, transport, directory, log, registry, reader };
  const another = (id: string, options: Partial<CoordinatorOptions> = {}) =>
    createCoordinator({
      ...parts,
      ...more,
      id,
      registry: id === 'co-1' ? registry : createRegistry(),
      clock: lane.clockOf(id, clock),
      directory: lane.directoryOf(id),
      options: { controlMode: 'none', ...options },
    });
  return {
    ...parts,
    ...lane,
    files,
    coordinator: another('co-1', options),
    /** One more coordinator of the same cluster. */
    another,
    metrics: () => registry.metrics(),
    worker: (id = 'wk-1') => fakeWorker(id, transport, directory),
    gateway: (id = 'gw-1') => fakeGateway(id, transport, directory, answered),
    /** Time passes and what falls due happens. */
    async pass(ms: number) {
      clock.advanceUs(ms * 1000);
      await settle();
    },
  };
}

/** A started cluster with one model `m`, one worker and one gateway. */
export async function serving(
  config = '',
  options: Parameters<typeof fakeCluster>[1] = {},
  versions: readonly string[] = ['1'],
) {
  const cluster = fakeCluster([fakeModel('m', config, { versions })], options);
  const worker = await cluster.worker();
  const gateway = cluster.gateway();
  await cluster.coordinator.start();
  return { ...cluster, worker, gateway, addWorker: cluster.worker };
}

export type FakeWorker = Awaited<ReturnType<typeof fakeWorker>>;

/** Ids of the requests of each batch that it holds. */
export const batchesOf = ({ executes }: FakeWorker): string[][] =>
  executes.map(({ entries }) => entries.map(({ id }) => id));

/** A worker that answers controls at once and batches when the test says so. */
async function fakeWorker(id: string, transport: Transport, directory: Directory<ModelRecord>) {
  const held = new Map<string, VersionDescription[]>();
  const executes: ExecuteMessage[] = [];
  const controls: ControlMessage[] = [];
  const cancels: CancelMessage[] = [];
  const frees: string[] = [];
  const epochs = new Map<string, Epoch>();
  const worker = {
    id,
    /** Batches received and not finished, in order. */
    executes,
    controls,
    cancels,
    /** Sessions of which it was told that their slots are free. */
    frees,
    /** Sequences that it says it has, and those that it remembers. */
    slots: [] as readonly SlotDescription[],
    /** Of which load its slots are. */
    slotsLoad: 0,
    ended: [] as readonly EndedSession[],
    instances: 1,
    /** Of each instance's name. */
    suffix: '',
    /** Says nothing to controls while true. */
    slow: false,
    /** Of each batch that it finishes. */
    timing: { waitNs: 1_000_500, inputNs: 2_000_999, inferNs: 3_000_000, outputNs: 4_000_000 },
    /** Its answers get lost while true. */
    mute: false,
    /** Of each answer. */
    outputs: [] as readonly CarriedTensor[],
    /** Whether it takes models at all. */
    holds: true,
    /** What it lacks where it does not. */
    lacks: '',
    draining: false,
    /** What it says of them. */
    streams: [] as readonly RunningStream[],
    /** Why it cannot have other instances of what it holds; '' where it can. */
    unchanged: '',
    /** Why a version fails to load. */
    failures: new Map<string, string>(),
    describe(model: string, askedAt = 0) {
      const owner = epochs.get(model)?.owner ?? directory.owner(model)?.owner;
      if (owner === undefined) return;
      const batches = executes.filter((execute) => execute.model === model);
      const running = batches.flatMap(({ entries }) => entries.map((entry) => entry.id));
      const versions = (held.get(model) ?? []).map((version) => ({
        ...version,
        running,
        slots: (version.load ?? 0) === worker.slotsLoad ? worker.slots : [],
        ended: worker.ended,
        instances: version.instances.map((instance) => ({
          ...instance,
          batches: batches
            .filter(({ instance: index, load = 0 }) => index === instance.index && load === (version.load ?? 0))
            .map(({ batch }) => batch),
        })),
      }));
      mailbox.send(owner, {
        kind: 'described',
        model,
        worker: id,
        askedAt,
        versions,
        streams: worker.streams,
        draining: worker.draining,
      });
    },
    /** Versions with their loads and states. */
    held: (model: string) =>
      (held.get(model) ?? []).map(({ version, load = 0, state }) => `${version} ${load} ${state}`),
    /** It holds version 1 of these files; `reason` says why it could not load others since. */
    had(model: string, contentHash: string, reason = '') {
      const instances = [{ index: 0, name: `${model}_0_0`, ready: true, passive: false, batches: [] }];
      held.set(model, [{ version: '1', state: 'READY', reason, instances, running: [], contentHash }]);
    },
    /** Registers as draining and gives back whatever comes. */
    async drain() {
      worker.draining = true;
      await directory.register({ id, role: 'worker', draining: true });
    },
    /** Puts all instances of the model up or down and says so. */
    setReady(model: string, ready: boolean) {
      const versions = held.get(model) ?? [];
      held.set(
        model,
        versions.map((version) => ({
          ...version,
          instances: version.instances.map((instance) => ({ ...instance, ready })),
        })),
      );
      worker.describe(model);
    },
    /** Gives a version up. */
    giveUp(model: string, reason: string) {
      const versions = held.get(model) ?? [];
      held.set(
        model,
        versions.map((version) => ({ ...version, state: 'UNAVAILABLE' as const, reason, instances: [] })),
      );
      worker.describe(model);
    },
    /** Ends the oldest batch: answers its requests and says done. */
    finish(result: DoneEntry['result'] = 'ok', executed = true, responses?: ResponseTimes): ExecuteMessage {
      const execute = executes.shift();
      if (execute === undefined) throw new Error('no batch to finish');
      const error: ErrorInfo | null = result === 'error' ? { code: 'INTERNAL', message: 'model failed' } : null;
      for (const entry of execute.entries) {
        const response = {
          modelName: execute.model,
          modelVersion: execute.version,
          id: '',
          parameters: {},
          outputs: worker.outputs,
        };
        const failure = result === 'cancelled' ? CANCELLED : error;
        const outcome: CarriedOutcome = failure === null ? { ok: true, response } : { ok: false, error: failure };
        const execution = `${id}/${execute.batch}`;
        const answer = {
          kind: 'response',
          model: execute.model,
          id: entry.id,
          outcome,
          execution,
          chunk: 0,
          last: true,
        } as const;
        if (!worker.mute) mailbox.send(answerAddress(execute, entry.replyTo), answer);
      }
      // As the worker's fence has it: to whoever owns the model by now.
      mailbox.send(ownerOf(execute.model, execute.epoch.owner), {
        kind: 'done',
        model: execute.model,
        epoch: execute.epoch,
        version: execute.version,
        ...ofLoad(execute.load),
        worker: id,
        batch: execute.batch,
        instance: execute.instance,
        timing: worker.timing,
        executed,
        entries: execute.entries.map((entry) => ({ id: entry.id, result, error })),
        ...(responses === undefined ? {} : { responses }),
      });
      return execute;
    },
    /** Sends a part of a stream: of the request at that position of the oldest batch. */
    part(position: number, chunk: number, last = false) {
      const [execute] = executes;
      const entry = execute?.entries[position];
      if (execute === undefined || entry === undefined) throw new Error('no request there');
      const { model, version: modelVersion, batch } = execute;
      const response = { modelName: model, modelVersion, id: '', parameters: {}, outputs: worker.outputs };
      const answer = { model, id: entry.id, execution: `${id}/${batch}`, chunk, last } as const;
      mailbox.send(answerAddress(execute, entry.replyTo), {
        kind: 'response',
        outcome: { ok: true, response },
        ...answer,
      });
    },
    /** Takes no more: the oldest batch goes back unseen. */
    giveBack() {
      const execute = executes.shift();
      if (execute === undefined) throw new Error('no batch to give back');
      const { model, epoch, version, load, batch, instance, entries } = execute;
      mailbox.send(epoch.owner, {
        kind: 'done',
        model,
        epoch,
        version,
        ...ofLoad(load),
        worker: id,
        batch,
        instance,
        timing: { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 },
        executed: false,
        entries: entries.map((entry) => ({ id: entry.id, result: 'noslot', error: null })),
      });
    },
    refuse(highest: Epoch) {
      const execute = executes.shift();
      if (execute === undefined) throw new Error('no batch to refuse');
      const { model, batch, epoch: sent } = execute;
      mailbox.send(sent.owner, { kind: 'refused', model, batch, sent, highest });
    },
    async leave() {
      await mailbox.close();
      await directory.leave(id);
    },
  };
  const ownerOf = (model: string, sender: ProcessId) => epochs.get(model)?.owner ?? sender;
  const answerAddress = ({ model, epoch }: ExecuteMessage, replyTo: ProcessId) =>
    replyTo === epoch.owner ? ownerOf(model, replyTo) : replyTo;
  const control = (message: ControlMessage) => {
    controls.push(message);
    epochs.set(message.model, message.epoch);
    const { keep = [], load = 0 } = message;
    const loaded = message.action === 'load' ? message.versions : [];
    const before = held.get(message.model) ?? [];
    const stays = before.find((version) => (version.load ?? 0) === load && version.contentHash !== message.contentHash);
    if (worker.unchanged !== '' && message.action === 'load' && stays !== undefined) {
      held.set(
        message.model,
        before.map((version) => ({ ...version, reason: worker.unchanged })),
      );
      return;
    }
    held.set(message.model, [
      ...before.filter((version) => (version.load ?? 0) !== load && keep.includes(version.load ?? 0)),
      ...loaded.map((version) => ({ ...described(message, version), ...ofLoad(load) })),
    ]);
  };
  const described = ({ model, contentHash }: ControlMessage, version: string): VersionDescription => {
    if (!worker.holds)
      return { version, state: 'UNAVAILABLE', reason: NOT_HELD + worker.lacks, instances: [], running: [] };
    const reason = worker.failures.get(version);
    const instances = Array.from({ length: worker.instances }, (_, index) => ({
      index,
      name: `${model}_0_${index}${worker.suffix}`,
      ready: true,
      passive: false,
      batches: [],
    }));
    return reason === undefined
      ? { version, state: 'READY', reason: '', instances, running: [], contentHash }
      : { version, state: 'UNAVAILABLE', reason, instances: [], running: [] };
  };
  const mailbox = transport.open(id, (messages: readonly Message[]) => {
    for (const message of messages) {
      if (message.kind === 'execute') executes.push(message);
      else if (message.kind === 'control') control(message);
      else if (message.kind === 'cancel') cancels.push(message);
      else if (message.kind === 'free') frees.push(message.session);
      else if (message.kind === 'describe') {
        epochs.set(message.model, message.epoch);
        if (!worker.slow) worker.describe(message.model, message.askedAt);
      }
    }
  });
  await directory.register({ id, role: 'worker', draining: false });
  return worker;
}
