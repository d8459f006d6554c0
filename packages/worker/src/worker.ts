import { type CallerLimits, createLazyCaller, openCaller, type ResponseStore } from '@nereid/caller';
import type { ExpandedInstance, Labels, ModelRecord, ResourceLimit } from '@nereid/config';
import type { Message, ProcessId } from '@nereid/protocol';
import { type Clock, createAtMost, type Log, newProcessId, type Timer } from '@nereid/runtime';
import type { DeviceAccount, DeviceBytes } from '@nereid/scheduler';
import {
  createLocalResources,
  type Directory,
  type HostingMemory,
  type HostingRecord,
  type Mailbox,
  type SharedResources,
  type Timing,
  type Transport,
} from '@nereid/transport';
import type { BackendSettings } from './hosted-version.ts';
import { createWorkerLoop, type WorkerHoldings, type WorkerLoopOptions } from './loop.ts';
import type { OpenModel } from './model-folder.ts';
import { createModelMemory, type ModelMemory } from './model-memory.ts';
import type { InstanceLaunch, SpawnProcess } from './process-line.ts';
import { createRateLimits } from './rate-limits.ts';
import { createRecorder, type RecorderOptions } from './recorder.ts';
import { spawnProcess } from './spawn-process.ts';
import { spawnThread } from './spawn-thread.ts';
import type { SpawnThread } from './thread-line.ts';

export interface WorkerOptions {
  /** Its first id; it goes on under another one if its registration lapses. */
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly openModel: OpenModel;
  /** `--worker-models`: whether this worker takes the model at all; every one by default. */
  readonly holds?: (model: string) => boolean;
  /** GPUs of this machine, numbered from 0; none by default. A model that wants more is left to other workers. */
  readonly gpus?: number;
  /** `--worker-labels`; none by default. A model that asks for others is left to other workers. */
  readonly labels?: Labels;
  /** `--memory-budget`: bytes by device, for models; without a bound by default. */
  readonly memoryBudget?: DeviceBytes;
  /** `--backend-config`: settings by backend name, '' for all backends. */
  readonly backendSettings: BackendSettings;
  /** `--rate-limit=execution_count`; off without it. */
  readonly rateLimit?: RateLimitOptions | undefined;
  /** `--model-load-thread-count`: instances that load at the same time. */
  readonly loadsMax: number;
  /** `--model-load-retry-count`; 0 by default. */
  readonly loadRetries?: number;
  /** Where what it runs is recorded, and what of it; nothing is without it. */
  readonly journal?: Omit<RecorderOptions, 'clock'> | undefined;
  /** Where answers to calls of its models are kept; none are without it. */
  readonly responses?: ResponseStore | undefined;
  /** LIMITS. */
  readonly limits: WorkerLoopOptions['limits'] & CallerLimits;
  /** How often it looks after its registration. Absent: registrations never lapse. */
  readonly timing?: Timing;
  /** A new process id at each call; random by default. */
  readonly newId?: () => ProcessId;
  /** Tests take this to end threads from outside. */
  readonly spawn?: SpawnThread;
  /** And this to end processes. */
  readonly spawnProcess?: SpawnProcess;
  /** How the process of an instance is started, undefined where any carrier will do; by default always. */
  readonly launch?: (instance: ExpandedInstance) => InstanceLaunch | undefined;
}

export interface RateLimitOptions {
  /** `--rate-limit-resource`. */
  readonly resources: readonly ResourceLimit[];
  /** Those of all workers of the cluster; without it this worker has them to itself. */
  readonly shared?: SharedResources | undefined;
}

export interface Worker {
  /** The present process id. */
  readonly id: ProcessId;
  /** Registers in the directory, from when on owners send models and batches. */
  start(): Promise<void>;
  /**
   * Drains: registers as draining, takes no more work but steps of sequences that it has, which are given the time to
   * end while there is an owner; finishes the batches that instances hold, answers all, and resolves when every thread
   * and process has ended and it has left the directory.
   * After the deadline JavaScript models and processes are cut short, which fails their batches;
   * native runs in threads cannot be and are waited for. Idempotent.
   */
  stop(deadlineMs?: number): Promise<void>;
  /** All zero when nothing is left. */
  counters(): WorkerCounters;
  holdings(): WorkerHoldings;
  /** Bytes of outputs that are kept for the next steps of their runs. */
  readonly keptBytes: number;
  /** What models take of its memory. */
  readonly memory: Pick<ModelMemory, 'counts' | 'peaks'> & { readonly account: readonly DeviceAccount[] };
  /** Messages without effect: of owners that had been replaced, or to an id under which its registration had lapsed. */
  readonly refusedMessages: number;
}

export interface WorkerCounters {
  /** Not answered yet. */
  readonly batches: number;
  /** Running. */
  readonly requests: number;
  /** And processes. */
  readonly threads: number;
  /** Calls by its models that have no outcome yet. */
  readonly calls: number;
}

/** Changes of its account are told to the directory after this. */
const TELL_MS = 500;

/** Where the worker is in the directory; see `createWorker`. */
type Standing = 'new' | 'registering' | 'registered' | 'lapsed' | 'left';

/**
 * The worker role: hosts model versions and runs batches on their instances. Opens its mailbox at once.
 *
 * Of its standing in the directory (docs/protocol.md R10): it is *new* until `start`; *registering*
 * until the directory has it, while messages are kept; then *registered*. Before it handles messages,
 * and at each heartbeat, it makes sure that nobody can hold it for gone. If somebody can, it fences
 * itself: it drops what it was sent, takes a new mailbox under a new id and is registering again. Its
 * models stay loaded and its batches run on; owners meet it as a new worker. Where it cannot register
 * it is *lapsed* until the next heartbeat, which fences it again. `stop` ends in *left*.
 */
export function createWorker(options: WorkerOptions): Worker {
  const { clock, log, transport, directory, limits, backendSettings, openModel, timing } = options;
  const newId = options.newId ?? (() => newProcessId('wk'));
  const rateLimits =
    options.rateLimit === undefined
      ? undefined
      : createRateLimits({
          resources: options.rateLimit.resources,
          shared: options.rateLimit.shared ?? createLocalResources(),
          id: () => mailbox.id,
        });
  const { responses } = options;
  const calls = createLazyCaller(() => openCaller({ clock, log, transport, directory, limits, timing, responses }));
  const memory = createModelMemory({
    clock,
    log,
    budgets: options.memoryBudget ?? {},
    resident: () => process.memoryUsage.rss(),
    changed: () => tellSoon(),
  });
  const loop = createWorkerLoop(
    {
      clock,
      log,
      limits,
      backendSettings,
      openModel,
      gpus: options.gpus ?? 0,
      labels: options.labels ?? {},
      memory,
      holds: options.holds ?? (() => true),
      largeTensors: transport.largeTensors,
      limitLoads: createAtMost(options.loadsMax),
      loadRetries: options.loadRetries ?? 0,
      spawn: options.spawn ?? spawnThread,
      rateLimits,
      caller: calls.caller,
      spawnProcess: options.spawnProcess ?? spawnProcess,
      launch: options.launch ?? (() => undefined),
      recorder: options.journal === undefined ? undefined : createRecorder({ ...options.journal, clock }),
    },
    () => mailbox,
  );
  let standing: Standing = 'new';
  let draining = false;
  let lapsedMessages = 0;
  /** What came before the directory's word that this worker is registered. */
  let early: Message[] = [];
  let heartbeat: Timer | undefined;
  /** The directory is told what has changed then. */
  let tellingSoon: Timer | undefined;
  let told: HostingRecord | undefined;
  let stopping: Promise<void> | undefined;

  const open = (id: ProcessId): Mailbox => transport.open(id, (messages) => receive(id, messages));

  const receive = (id: ProcessId, messages: readonly Message[]) => {
    if (id !== mailbox.id) lapsedMessages += messages.length;
    else if (standing === 'new' || standing === 'registering') early.push(...messages);
    else if (standing === 'registered' && directory.registered(id)) loop.receive(messages);
    else {
      lapsedMessages += messages.length;
      look();
    }
  };

  const record = () => ({ id: mailbox.id, role: 'worker', draining, hosting: told ?? hosting() }) as const;

  const hosting = (): HostingRecord => ({
    labels: options.labels ?? {},
    gpus: options.gpus ?? 0,
    memory: memory.account().map(({ device, budget, used, fixed, idleUs }) => ({
      ...{ device, used, fixed },
      budget: budget ?? null,
      idle_ms: idleUs === undefined ? null : Math.round(idleUs / 1000),
    })),
    ...memory.counts,
  });

  const register = async () => {
    standing = 'registering';
    told = hosting();
    try {
      await directory.register(record());
    } catch (error) {
      if (standing === 'registering') standing = 'lapsed';
      throw error;
    }
    if (standing !== 'registering') return;
    standing = 'registered';
    const kept = early;
    early = [];
    if (kept.length > 0) receive(mailbox.id, kept);
  };

  /** Coordinators place models by it, and it is a belief in any case: one word for what changes within a moment. */
  const tellSoon = () => {
    if (tellingSoon !== undefined || standing !== 'registered' || draining) return;
    if (timing === undefined) {
      // In one process a word costs nothing, and who is idle has no timer.
      tellingSoon = { cancel() {} };
      queueMicrotask(tellNow);
    } else tellingSoon = clock.at(clock.nowUs() + TELL_MS * 1000, tellNow);
  };

  const tellNow = () => {
    tellingSoon = undefined;
    const now = hosting();
    if (standing !== 'registered' || draining || isSameHosting(told, now)) return;
    told = now;
    directory.retell(mailbox.id, now).catch((error) => log.warn({ err: error }, 'the directory was not told'));
  };

  const fence = async () => {
    const old = mailbox;
    mailbox = open(newId());
    // Their owners give them to others.
    loop.dropSequences();
    lapsedMessages += early.length;
    early = [];
    log.warn({ worker: old.id, now: mailbox.id }, 'registration lapsed; going on under a new id');
    // The old registration runs out by itself where that fails.
    const [registered] = await Promise.allSettled([register(), old.close(), directory.leave(old.id)]);
    if (registered.status === 'rejected') throw registered.reason;
    loop.offer();
  };

  /** Also a worker that gets no messages must find out that it has lapsed. */
  const look = () => {
    if (standing !== 'lapsed' && !(standing === 'registered' && !directory.registered(mailbox.id))) return;
    // The next heartbeat tries again, with another id.
    fence().catch((error) => log.error({ err: error, worker: mailbox.id }, 'not registered'));
  };

  const beat = (everyMs: number) => {
    heartbeat = clock.at(clock.nowUs() + everyMs * 1000, () => {
      look();
      beat(everyMs);
    });
  };

  /** Without an owner nobody sends steps or ends sequences, so a stop waits for none; and without another worker nobody wants what it keeps. */
  const endOrphans = () => {
    if (!draining) return;
    const isOwnerless = directory.processes('coordinator').every((each) => each.draining);
    if (isOwnerless) loop.endSequences();
    const isAlone = directory.processes('worker').every((each) => each.id === mailbox.id || each.draining);
    if (isOwnerless || isAlone) loop.dropKept();
  };

  const unwatch = directory.watch((change) => {
    if (change.type !== 'process') return;
    rateLimits?.processesChanged();
    endOrphans();
    if (change.id === mailbox.id) look();
  });
  const unlisten = transport.onInterruption(loop.offer);

  const stop = async (deadlineMs: number | undefined) => {
    draining = true;
    const deadline =
      deadlineMs === undefined ? undefined : clock.at(clock.nowUs() + deadlineMs * 1000, () => loop.abandon());
    // Whether or not the directory hears of it, each owner does.
    const telling = [standing === 'new' ? undefined : directory.register(record()), loop.stop()] as const;
    endOrphans();
    const [told] = await Promise.allSettled(telling);
    deadline?.cancel();
    standing = 'left';
    heartbeat?.cancel();
    tellingSoon?.cancel();
    memory.close();
    unwatch();
    unlisten();
    // What it held is given back while it is still known to live.
    await rateLimits?.close();
    const ended = await Promise.allSettled([mailbox.close(), directory.leave(mailbox.id), calls.close()]);
    // What a directory that does not answer still has of this worker runs out by itself.
    for (const step of [told, ...ended]) {
      if (step.status === 'rejected') log.warn({ err: step.reason, worker: mailbox.id }, 'the directory was not told');
    }
  };

  let mailbox = open(options.id);
  return {
    get id() {
      return mailbox.id;
    },
    async start() {
      await register();
      // It may have been stopped meanwhile.
      if (timing !== undefined && stopping === undefined) beat(timing.heartbeat_ms);
    },
    stop(deadlineMs) {
      stopping ??= stop(deadlineMs);
      return stopping;
    },
    counters: () => ({
      batches: loop.unsettled,
      requests: loop.running,
      threads: loop.liveCarriers,
      calls: calls.opened?.waiting ?? 0,
    }),
    holdings: loop.holdings,
    get keptBytes() {
      return loop.keptBytes;
    },
    get memory() {
      return { account: memory.account(), counts: memory.counts, peaks: memory.peaks };
    },
    get refusedMessages() {
      return loop.refused + lapsedMessages;
    },
  };
}

/** Idle times change with each request: those of a worker without a bound decide about nothing. */
function isSameHosting(a: HostingRecord | undefined, b: HostingRecord): boolean {
  const compared = ({ memory, ...rest }: HostingRecord) =>
    JSON.stringify([
      rest,
      memory.map(({ idle_ms, ...device }) => [device, device.budget !== null && isNearFull(device) ? idle_ms : 0]),
    ]);
  return a !== undefined && compared(a) === compared(b);
}

function isNearFull({ budget, used }: Pick<HostingMemory, 'budget' | 'used'>): boolean {
  return budget !== null && used * 2 > budget;
}
