/** For tests: a worker with real threads, and the owner and gateway that talk to it. */
import type { ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker as Thread } from 'node:worker_threads';
import { encodeModelConfig, LIMITS, type ModelRecord, readModel } from '@nereid/config';
import {
  type CarriedOutcome,
  type ControlMessage,
  type DescribedMessage,
  type DoneMessage,
  type Epoch,
  type ErrorInfo,
  type ExecuteEntry,
  type InferRequest,
  type InferResponse,
  isWholeOutcome,
  type Message,
  type MessageKind,
  NereidError,
  ofLoad,
  type Tensor,
} from '@nereid/protocol';
import { createLog, systemClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, type LargeTensors, type Mailbox } from '@nereid/transport';
import { afterEach, beforeEach, expect } from 'vitest';
import { spawnProcess } from './spawn-process.ts';
import { spawnThread } from './spawn-thread.ts';
import { createWorker, type WorkerOptions } from './worker.ts';

export const EPOCH: Epoch = { number: 1, owner: 'co-test' };
const WORKER = 'wk-test';
const GATEWAY = 'gw-test';
const FIXTURES = fileURLToPath(new URL('../../backends/fixtures', import.meta.url));
const HASH = 'hash';

export const PROCESS = 'parameters { key: "nereid.carrier" value { string_value: "process" } }';
/** Each with the configuration that asks for it. */
export const CARRIERS = [
  ['thread', ''],
  ['process', PROCESS],
] as const;

type MessageOf<K extends MessageKind> = Extract<Message, { kind: K }>;
type Wanted = (message: Message) => boolean;

export type Harness = Awaited<ReturnType<typeof createHarness>>;

/** `options` replaces parts of the worker's own; with `largeTensors` the lane is as one between processes. */
export async function createHarness(options: Partial<WorkerOptions> = {}, largeTensors?: LargeTensors) {
  const local = createLocalTransport({ messages_max: 65_536, bytes_max: 2 ** 30 });
  const transport = largeTensors === undefined ? local : { ...local, largeTensors };
  const repository = await mkdtemp(join(tmpdir(), 'nereid-worker-'));
  const folders = new Map<string, string>();
  /** What the worker reads of any model, and how many it has open. */
  const files = { contentHash: HASH, opened: 0 };
  const threads: Thread[] = [];
  const processes: ChildProcess[] = [];
  const clock = systemClock();
  const received: Message[] = [];
  const waiters = new Set<{ readonly wanted: Wanted; readonly found: (message: Message) => void }>();
  let batches = 0;
  let requests = 0;

  const receive = (messages: readonly Message[]) => {
    for (const message of messages) {
      received.push(message);
      for (const waiter of waiters) {
        if (!waiter.wanted(message)) continue;
        waiters.delete(waiter);
        waiter.found(message);
      }
    }
  };

  const worker = createWorker({
    id: WORKER,
    clock,
    log: createLog({ level: 'silent' }),
    transport,
    directory: createLocalDirectory<ModelRecord>(),
    async openModel(name) {
      const directory = folders.get(name);
      if (directory === undefined) throw new NereidError('NOT_FOUND', `there is no model '${name}'`);
      files.opened += 1;
      const release = () => {
        files.opened -= 1;
      };
      return { directory, contentHash: files.contentHash, release };
    },
    backendSettings: {},
    loadsMax: 4,
    limits: { ...LIMITS, instance_restart_backoff_min_ms: 1 },
    spawn(setup) {
      const thread = spawnThread(setup);
      threads.push(thread);
      return thread;
    },
    spawnProcess(...launch) {
      const child = spawnProcess(...launch);
      processes.push(child);
      return child;
    },
    ...options,
  });
  const owner = transport.open(EPOCH.owner, receive);
  const gateway = transport.open(GATEWAY, receive);
  await worker.start();

  /** The next message of a kind (from now on) that fits. */
  const next = <K extends MessageKind>(kind: K, fits: (message: MessageOf<K>) => boolean = () => true) =>
    new Promise<MessageOf<K>>((resolve) => {
      waiters.add({
        wanted: (message) => message.kind === kind && fits(message as MessageOf<K>),
        found: (message) => resolve(message as MessageOf<K>),
      });
    });

  const described = (model: string, fits: (message: DescribedMessage) => boolean) =>
    next('described', (message) => message.model === model && message.versions.length > 0 && fits(message));

  const control = async (model: string, more: Partial<ControlMessage> = {}): Promise<ControlMessage> => {
    const directory = folders.get(model) ?? '';
    const source = await readModel({ name: model, directory }, { autoComplete: true, gpus: 0 });
    return {
      kind: 'control',
      model,
      epoch: EPOCH,
      action: 'load',
      config: encodeModelConfig(source.config),
      versions: source.versions,
      contentHash: HASH,
      ...more,
    };
  };

  /** Sends a batch; gives the ids of its requests, and in time the outcome of each and the `done`. */
  const start = (model: string, batch: readonly InferRequest[], instance = 0, epoch = EPOCH, load = 0) => {
    const number = ++batches;
    const entries = batch.map(
      (request): ExecuteEntry => ({
        id: `${GATEWAY}:${++requests}`,
        replyTo: GATEWAY,
        request,
        session: null,
        slot: -1,
      }),
    );
    const answers = entries.map(({ id }) => next('response', (message) => message.id === id));
    const done = next('done', (message) => message.batch === number);
    owner.send(WORKER, {
      ...{ kind: 'execute', model, epoch, version: '1', batch: number, instance, entries },
      ...ofLoad(load),
    });
    const over = Promise.all([done, ...answers]).then(([last, ...first]) => ({
      outcomes: first.map(({ outcome }) => outcome),
      done: last,
    }));
    return { ids: entries.map(({ id }) => id), over };
  };

  const harness = {
    worker,
    owner,
    gateway,
    clock,
    files,
    threads,
    processes,
    received,
    next,
    described,
    control,
    /** Makes a fixture of the backends package known. */
    fixture(name: string) {
      folders.set(name, join(FIXTURES, name));
    },
    /** Writes a JavaScript model with INT32 X [-1] and Y [-1]. */
    async javascript(name: string, source: string, config = '') {
      const folder = join(repository, name);
      await mkdir(join(folder, '1'), { recursive: true });
      await writeFile(join(folder, '1', 'model.mjs'), source);
      await writeFile(
        join(folder, 'config.pbtxt'),
        `name: "${name}" backend: "javascript"
        input { name: "X" data_type: TYPE_INT32 dims: -1 } output { name: "Y" data_type: TYPE_INT32 dims: -1 }\n${config}`,
      );
      folders.set(name, folder);
    },
    /** Loads it and waits until it is READY or UNAVAILABLE. */
    async load(model: string, more: Partial<ControlMessage> = {}): Promise<DescribedMessage> {
      const over = described(model, ({ versions }) => versions.every(({ state }) => state !== 'LOADING'));
      owner.send(WORKER, await control(model, more));
      return over;
    },
    start,
    /** As `start`, and waits until it is over. */
    execute: (...batch: Parameters<typeof start>) => start(...batch).over,
    /** Cancels requests and waits until the worker has read that. */
    async cancel(model: string, ids: readonly string[], epoch = EPOCH) {
      for (const id of ids) owner.send(WORKER, { kind: 'cancel', model, epoch, id, g: 0, low: 0, session: null });
      const answer = next('described', (message) => message.model === model && message.askedAt > 0);
      owner.send(WORKER, { kind: 'describe', model, epoch: EPOCH, askedAt: 1 });
      await answer;
    },
    /** Waits for the worker and asserts by its counters that nothing is left. */
    async close() {
      await worker.stop();
      await Promise.all([owner.close(), gateway.close()]);
      await rm(repository, { recursive: true });
      if (files.opened !== 0) throw new Error(`${files.opened} models were not given back`);
      return { ...worker.counters(), timers: clock.liveTimers };
    },
  };
  return harness;
}

/** Gives each test of a file, or of the block that calls it, a harness; whatever a test did, nothing may be left of it. */
export function eachWithHarness(
  give: (harness: Harness) => void | Promise<void>,
  options: Partial<WorkerOptions> = {},
  largeTensors?: LargeTensors,
): void {
  let harness: Harness;
  beforeEach(async () => {
    harness = await createHarness(options, largeTensors);
    await give(harness);
  });
  afterEach(async () => {
    expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  });
}

export function send(owner: Mailbox, message: Message): void {
  owner.send(WORKER, message);
}

export function request(inputs: readonly Tensor[], more: Partial<InferRequest> = {}): InferRequest {
  return {
    modelName: 'm',
    modelVersion: '',
    id: '',
    correlationId: 0n,
    sequenceStart: false,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs,
    requestedOutputs: [],
    ...more,
  };
}

export function int32(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'INT32', shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

export function int64(name: string, shape: readonly number[], values: readonly bigint[]): Tensor {
  return { name, datatype: 'INT64', shape, data: new Uint8Array(BigInt64Array.from(values).buffer) };
}

export function bytes(name: string, shape: readonly number[], elements: readonly Buffer[]): Tensor {
  const parts = elements.flatMap((element) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(element.byteLength);
    return [length, element];
  });
  return { name, datatype: 'BYTES', shape, data: new Uint8Array(Buffer.concat(parts)) };
}

export function responseOf(outcome: CarriedOutcome | undefined): InferResponse {
  if (outcome !== undefined && !isWholeOutcome(outcome)) throw new Error('a response without its data');
  if (outcome?.ok !== true) throw new Error(`no response: ${outcome?.error.message}`);
  return outcome.response;
}

export function errorOf(outcome: CarriedOutcome | undefined): ErrorInfo {
  if (outcome?.ok !== false) throw new Error('a response where an error was expected');
  return outcome.error;
}

export function int32Values(tensor: Tensor | undefined): number[] {
  return [...new Int32Array(Uint8Array.from(tensor?.data ?? []).buffer)];
}

export function executedOf(done: DoneMessage): readonly [boolean, ...string[]] {
  return [done.executed, ...done.entries.map(({ result }) => result)];
}
