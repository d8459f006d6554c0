/** A worker for simulations: runs batches in order per instance, for random times, and loses instances. */
import type { ModelRecord } from '@nereid/config';
import {
  CANCELLED,
  type ControlMessage,
  type DoneEntry,
  type ErrorInfo,
  type ExecuteMessage,
  type Message,
  type Outcome,
  type ProcessId,
  type VersionDescription,
} from '@nereid/protocol';
import type { Clock, Random, Timer } from '@nereid/runtime';
import type { Directory, Mailbox, Transport } from '@nereid/transport';

export interface SimWorkerOptions {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** Instances of each model version. */
  readonly instances: number;
  readonly runUsMax: number;
  /** Share of batches in which the instance is lost. */
  readonly lossShare: number;
  /** Share of batches that fail as a whole. */
  readonly failureShare: number;
  /** Called with each batch received and how many its instance then holds. */
  readonly received: (execute: ExecuteMessage, held: number) => void;
}

export interface SimWorker {
  readonly id: ProcessId;
  /** Requests that it holds and has not been told to forget. */
  wanted(): string[];
  /** Batches that reached the model. */
  readonly executions: number;
  start(): Promise<void>;
  /** Vanishes with all that it holds, unanswered. */
  die(): Promise<void>;
}

interface SimInstance {
  ready: boolean;
  readonly batches: ExecuteMessage[];
  /** Ids of requests in them that nobody waits for any more. */
  readonly cancelled: Set<string>;
  timer: Timer | undefined;
}

const INSTANCE_LOST: ErrorInfo = { code: 'UNAVAILABLE', message: 'the instance was lost' };
const MODEL_FAILED: ErrorInfo = { code: 'INTERNAL', message: 'the model failed' };
const RESTART_US_MAX = 5_000;

export function createSimWorker(options: SimWorkerOptions): SimWorker {
  const { id, clock, random, transport, directory } = options;
  /** By model and version. */
  const held = new Map<string, Map<string, SimInstance[]>>();
  let mailbox: Mailbox | undefined;
  let executions = 0;
  let dead = false;

  const send = (to: ProcessId, message: Message) => mailbox?.send(to, message);

  const describe = (model: string, askedAt: number) => {
    const owner = directory.owner(model)?.owner;
    if (owner === undefined) return;
    const versions: VersionDescription[] = [...(held.get(model) ?? [])].map(([version, instances]) => ({
      version,
      state: 'READY',
      reason: '',
      instances: instances.map(({ ready, batches }, index) => ({
        index,
        name: `${model}_0_${index}`,
        ready,
        passive: false,
        batches: batches.map(({ batch }) => batch),
      })),
      running: [],
    }));
    send(owner, { kind: 'described', model, worker: id, askedAt, versions, streams: [], draining: false });
  };

  const control = (message: ControlMessage) => {
    const versions = message.action === 'load' ? message.versions : [];
    held.set(
      message.model,
      new Map(
        versions.map((version) => [
          version,
          Array.from({ length: options.instances }, () => ({
            ready: true,
            batches: [],
            cancelled: new Set(),
            timer: undefined,
          })),
        ]),
      ),
    );
  };

  /** Ends a batch that its instance holds no more; `runUs` undefined: it was not executed. */
  const end = (instance: SimInstance, execute: ExecuteMessage, failure: ErrorInfo | null, runUs?: number) => {
    const { model, version, batch, epoch } = execute;
    const results: DoneEntry[] = [];
    for (const entry of execute.entries) {
      const cancelled = instance.cancelled.delete(entry.id);
      const error = cancelled ? CANCELLED : failure;
      const response = { modelName: model, modelVersion: version, id: entry.request.id, parameters: {}, outputs: [] };
      const outcome: Outcome = error === null ? { ok: true, response } : { ok: false, error };
      if (cancelled) results.push({ id: entry.id, result: 'cancelled', error: null });
      else results.push({ id: entry.id, result: error === null ? 'ok' : 'error', error });
      send(entry.replyTo, {
        kind: 'response',
        model,
        id: entry.id,
        outcome,
        execution: `${id}/${batch}`,
        chunk: 0,
        last: true,
      });
    }
    send(epoch.owner, {
      kind: 'done',
      model,
      epoch,
      version,
      worker: id,
      batch,
      instance: execute.instance,
      timing: { waitNs: 0, inputNs: 0, inferNs: (runUs ?? 0) * 1_000, outputNs: 0 },
      executed: runUs !== undefined,
      entries: results,
    });
  };

  const lose = (model: string, instance: SimInstance) => {
    instance.ready = false;
    describe(model, 0);
    for (const execute of instance.batches.splice(0)) end(instance, execute, INSTANCE_LOST);
    instance.timer = clock.at(clock.nowUs() + random.next() * RESTART_US_MAX, () => {
      instance.timer = undefined;
      instance.ready = true;
      describe(model, 0);
    });
  };

  const run = (instance: SimInstance) => {
    const [execute] = instance.batches;
    if (execute === undefined || instance.timer !== undefined) return;
    if (execute.entries.every(({ id }) => instance.cancelled.has(id))) {
      instance.batches.shift();
      end(instance, execute, null);
      run(instance);
      return;
    }
    const runUs = random.next() * options.runUsMax;
    instance.timer = clock.at(clock.nowUs() + runUs, () => {
      instance.timer = undefined;
      if (random.next() < options.lossShare) {
        lose(execute.model, instance);
        return;
      }
      instance.batches.shift();
      executions++;
      if (random.next() < options.failureShare) end(instance, execute, MODEL_FAILED, runUs);
      else end(instance, execute, null, runUs);
      run(instance);
    });
  };

  const execute = (message: ExecuteMessage) => {
    const instance = held.get(message.model)?.get(message.version)?.[message.instance];
    if (instance === undefined) throw new Error(`${id} got a batch for an instance that it does not have`);
    instance.batches.push(message);
    options.received(message, instance.batches.length);
    if (instance.ready) run(instance);
    else for (const late of instance.batches.splice(0)) end(instance, late, INSTANCE_LOST);
  };

  const cancel = (model: string, request: string) => {
    for (const instance of [...(held.get(model)?.values() ?? [])].flat()) {
      const holds = instance.batches.some(({ entries }) => entries.some((entry) => entry.id === request));
      if (holds) instance.cancelled.add(request);
    }
  };

  return {
    id,
    wanted: () =>
      [...held.values()]
        .flatMap((versions) => [...versions.values()].flat())
        .flatMap(({ batches, cancelled }) =>
          batches.flatMap(({ entries }) => entries.flatMap((entry) => (cancelled.has(entry.id) ? [] : entry.id))),
        ),
    get executions() {
      return executions;
    },
    async start() {
      mailbox = transport.open(id, (messages) => {
        for (const message of messages) {
          if (dead) return;
          if (message.kind === 'execute') execute(message);
          else if (message.kind === 'cancel') cancel(message.model, message.id);
          else if (message.kind === 'control') control(message);
          else if (message.kind === 'describe') describe(message.model, message.askedAt);
        }
      });
      await directory.register({ id, role: 'worker', draining: false });
    },
    async die() {
      dead = true;
      for (const versions of held.values()) {
        for (const instances of versions.values()) for (const { timer } of instances) timer?.cancel();
      }
      await mailbox?.close();
      mailbox = undefined;
      await directory.leave(id);
    },
  };
}
