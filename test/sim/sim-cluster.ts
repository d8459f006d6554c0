/** The processes of a simulation: real gateways, coordinators and workers, each on connections and a clock of its own. */
import { decodeModelConfig, encodeModelConfig, LIMITS, type ModelRecord } from '@nereid/config';
import { type Coordinator, createCoordinator } from '@nereid/coordinator';
import { createGateway, type Gateway } from '@nereid/gateway';
import type { Outcome, ProcessId } from '@nereid/protocol';
import { createLog, createRegistry, type Random, seededRandom } from '@nereid/runtime';
import {
  type BlobOptions,
  createRedisDirectory,
  createRedisResources,
  createRedisTransport,
  type MainRole,
  type RedisDirectory,
  type SharedResources,
  type Timing,
  type Transport,
  timing,
} from '@nereid/transport';
import { createWorker, type Worker } from '@nereid/worker';
import type { SimChecks } from './sim-checks.ts';
import { createSimConnector, type SimConnector, type SimNetwork } from './sim-connector.ts';
import { createSimJournal } from './sim-journal.ts';
import { between, contentHash, modelSource, type SimModel } from './sim-models.ts';
import { watchOwner } from './sim-owner.ts';
import type { SimRedis } from './sim-redis.ts';
import { simScripts } from './sim-scripts.ts';
import { createSimThreads } from './sim-thread.ts';
import type { SimProcess, SimWorld } from './sim-world.ts';
import { type Switches, sayingTimeLeft } from './switches.ts';

export interface Roles {
  readonly gateway?: Gateway;
  readonly coordinator?: Coordinator;
  readonly worker?: Worker;
}

export interface Member extends Roles {
  readonly id: ProcessId;
  readonly role: MainRole;
  readonly process: SimProcess;
  readonly connector: SimConnector;
  readonly directory: RedisDirectory<ModelRecord>;
  /** Takes no new work and ends in order; resolves when all is given back. */
  stop(): Promise<void>;
  /** What it still holds, in words; empty when nothing is going on. */
  busy(): readonly string[];
  readonly stopped: boolean;
  /** Lets go of what is outside of virtual time. */
  close(): void;
}

export interface ClusterOptions {
  readonly world: SimWorld;
  readonly random: Random;
  readonly redis: SimRedis;
  readonly checks: SimChecks;
  readonly switches: Switches;
  readonly network: SimNetwork;
  readonly settings: ClusterSettings;
  readonly models: readonly SimModel[];
  readonly failed: (id: ProcessId, what: 'start' | 'stop', error: unknown) => void;
  /** Counted up by a reload: what is in the repositories now. */
  readonly build: (model: string) => number;
  readonly msLeft?: number;
  /** A gateway has the answer to the request of that name. */
  readonly answered: (gateway: ProcessId, request: string, outcome: Outcome) => void;
  /** Nothing goes wrong. */
  readonly healthy: boolean;
}

export interface ClusterSettings {
  readonly controlMode: 'none' | 'explicit';
  /** Unread messages that a mailbox takes. */
  readonly mailbox_messages_max: number;
  /** Requests that may wait in a version. */
  readonly queue_max: number;
  /** Tensors of so many bytes go beside their messages. */
  readonly inline_bytes_max: number;
  /** Share of models that a worker after the first takes. */
  readonly heldShare: number;
  /** Whether half of the workers record what they run. */
  readonly records: boolean;
}

export interface SimCluster {
  readonly members: readonly Member[];
  /** Those that are neither dead nor stopping. */
  living(role?: MainRole): readonly Member[];
  /** A new process; `as` gives it the id of one that died (R1 off). */
  start(role: MainRole, as?: ProcessId): Member;
}

const PREFIXES: Readonly<Record<MainRole, string>> = { gateway: 'gw', coordinator: 'co', worker: 'wk' };
export const REDIS_PREFIX = 'nereid';
const SUPERVISOR_US = 500_000;
const ORIGIN_US_MAX = 1e9;
const STOP_DEADLINE_MS = 10_000;

export function createSimCluster(options: ClusterOptions): SimCluster {
  const { world, random, redis, switches, settings } = options;
  const limits = { messages_max: settings.mailbox_messages_max, bytes_max: LIMITS.mailbox_bytes_max };
  const scripts = simScripts(switches.scripts);
  const members: Member[] = [];
  const stopping = new Set<Member>();
  const registered = switches.timing(timing());
  let processes = 0;

  const watch = (role: MainRole, id: ProcessId, transport: Transport, directory: () => RedisDirectory<ModelRecord>) => {
    if (role === 'worker') return options.checks.watchWorker(id, transport);
    // Without R9 an owner believes what others have heard, which does not pass its own mailbox.
    if (role === 'gateway' || switches.off.has('R9')) return transport;
    const { healthy, checks } = options;
    const epoch = (model: string) => (directory().holds(model, id) ? directory().owner(model)?.number : undefined);
    return watchOwner(transport, { id, healthy, epoch, build: options.build, nowUs: world.nowUs, fail: checks.fail });
  };

  const start = (role: MainRole, as?: ProcessId): Member => {
    const id = as ?? `${PREFIXES[role]}-${++processes}`;
    const process = world.process(id, -between(random, 0, ORIGIN_US_MAX));
    const own = seededRandom(Math.floor(random.next() * 2 ** 32));
    const connector = createSimConnector({ world, process, random: own, redis, scripts, network: options.network });
    const lane = { connector, prefix: REDIS_PREFIX, log: LOG, clock: process.clock, timing: registered };
    const blobs: BlobOptions = {
      name: `bl-${processes}`,
      bytes_max: LIMITS.blob_bytes_max,
      inline_bytes_max: settings.inline_bytes_max,
      filesReach: () => false,
    };
    const nextTurn = (callback: () => void) => void process.clock.at(process.clock.nowUs(), callback);
    const redisTransport = createRedisTransport({ ...lane, limits, blobs, nextTurn });
    // What is taken out of a role is hidden from the checks, which look at what passes its mailbox.
    const watched = watch(role, id, redisTransport, () => directory);
    const saying =
      role === 'gateway' && options.msLeft !== undefined ? sayingTimeLeft(watched, options.msLeft) : watched;
    const transport = switches.transport(role, switches.early(role, saying, options.answered));
    const remote = createRedisDirectory<ModelRecord>({ ...lane, encode: encodeRecord, decode: decodeRecord });
    // As server/lane.ts: nobody is to hear of a mailbox that Redis does not know yet.
    const directory: RedisDirectory<ModelRecord> = {
      ...remote,
      async register(record) {
        await redisTransport.opened();
        await remote.register(record);
      },
    };
    const holdsAll = role !== 'worker' || !members.some((other) => other.role === 'worker' && other.process.alive);
    const held = options.models.filter(() => own.next() < settings.heldShare || holdsAll).map(({ name }) => name);
    const threads = createSimThreads({
      process,
      random: own,
      ran: options.checks.ran,
      crashed: options.checks.crashed,
    });
    const shown = switches.directory(directory);
    const context: RoleContext = {
      ...options,
      id,
      process,
      transport,
      directory: shown,
      timing: registered,
      threads,
      resources: createRedisResources(lane),
      held,
    };
    const running = startRole(role, context);
    // What cannot start ends, and a supervisor starts another.
    const startUp = async () => {
      await directory.start();
      await running.start();
    };
    process.at(0, () => {
      startUp().catch((error: unknown) => {
        if (!process.alive || stopping.has(member)) return;
        options.failed(id, 'start', error);
        process.kill();
        world.at(world.nowUs() + SUPERVISOR_US, () => start(role, as));
      });
    });
    let stopped = false;
    const member: Member = {
      ...running.roles,
      id,
      role,
      process,
      connector,
      directory,
      busy: () => [
        ...running.busy(),
        ...(redisTransport.blobBytes === 0 ? [] : [`${redisTransport.blobBytes} bytes of blobs`]),
      ],
      get stopped() {
        return stopped;
      },
      async stop() {
        if (stopping.has(member)) return;
        stopping.add(member);
        // Each part is tried, as by server's life cycle.
        await running.stop().catch((error: unknown) => options.failed(id, 'stop', error));
        await directory.close();
        await redisTransport.close();
        connector.close();
        stopped = true;
      },
      close: () => threads.close(),
    };
    members.push(member);
    return member;
  };

  return {
    members,
    living: (role) =>
      members.filter(
        (member) => member.process.alive && !stopping.has(member) && (role === undefined || member.role === role),
      ),
    start,
  };
}

interface RoleContext extends ClusterOptions {
  readonly id: ProcessId;
  readonly process: SimProcess;
  readonly transport: Transport;
  readonly directory: RedisDirectory<ModelRecord>;
  readonly timing: Timing;
  readonly threads: ReturnType<typeof createSimThreads>;
  readonly resources: SharedResources;
  /** Models that a worker takes. */
  readonly held: readonly string[];
}

interface RunningRole {
  readonly roles: Roles;
  start(): Promise<unknown>;
  stop(): Promise<void>;
  busy(): readonly string[];
}

function startRole(role: MainRole, context: RoleContext): RunningRole {
  if (role === 'gateway') return startGateway(context);
  return role === 'coordinator' ? startCoordinator(context) : startWorker(context);
}

const LOG = createLog({ level: 'silent' });

function startGateway({ id, process, transport, directory, timing }: RoleContext): RunningRole {
  const gateway = createGateway({
    id,
    clock: process.clock,
    transport,
    directory,
    log: LOG,
    limits: LIMITS,
    timing,
  });
  return {
    roles: { gateway },
    start: () => gateway.start(),
    stop: () => gateway.close(STOP_DEADLINE_MS),
    busy: () => left({ 'requests waiting': gateway.waiting }),
  };
}

function startCoordinator({
  id,
  process,
  transport,
  directory,
  timing,
  build,
  settings,
  models,
  switches,
}: RoleContext): RunningRole {
  const coordinator = createCoordinator({
    id,
    clock: process.clock,
    transport,
    directory,
    log: LOG,
    registry: createRegistry(),
    reader: {
      folders: async () => models.map(({ name }) => ({ name, conflict: null })),
      list: async () => models.map(({ name }) => ({ name, conflict: null, signature: '' })),
      read: async (name) => modelSource(name, build(name), !switches.off.has('R37')),
      directory: async () => '',
      versions: async (name) => modelSource(name, build(name)).versions,
    },
    options: { controlMode: settings.controlMode, loadModels: ['*'], queueMax: settings.queue_max, rateLimit: true },
    timing,
  });
  return {
    roles: { coordinator },
    start: () => coordinator.start(),
    stop: () => coordinator.stop(STOP_DEADLINE_MS),
    busy: () => left({ ...coordinator.counts }),
  };
}

function startWorker(context: RoleContext): RunningRole {
  const { id, process, transport, directory, timing, build, threads, resources, held } = context;
  let lapses = 0;
  // The others answer at once.
  const isRecorded = context.settings.records && Number(id.split('-')[1]) % 2 === 0;
  const journal = createSimJournal(id, process.clock, context.checks.fail);
  const worker = createWorker({
    id,
    clock: process.clock,
    log: LOG,
    transport: isRecorded ? journal.watch(transport) : transport,
    directory,
    openModel: async (name) => ({ directory: '', contentHash: contentHash(name, build(name)), release() {} }),
    holds: (model) => held.includes(model),
    backendSettings: {},
    loadsMax: 4,
    limits: LIMITS,
    spawn: threads.spawn,
    rateLimit: { resources: [], shared: resources },
    ...(isRecorded ? { journal: { journal: journal.writer, config: { share: 1, output_bytes: 1_000 } } } : {}),
    timing,
    newId: () => `${id}.${++lapses}`,
  });
  return {
    roles: { worker },
    start: () => worker.start(),
    stop: () => worker.stop(),
    busy: () => {
      const { batches, requests } = worker.counters();
      return left({ batches, requests });
    },
  };
}

function left(counts: Readonly<Record<string, number>>): readonly string[] {
  return Object.entries(counts).flatMap(([what, count]) => (count === 0 ? [] : `${count} ${what}`));
}

function encodeRecord(record: ModelRecord): string {
  return JSON.stringify({ ...record, config: encodeModelConfig(record.config) });
}

function decodeRecord(text: string): ModelRecord {
  const record = JSON.parse(text) as Omit<ModelRecord, 'config'> & { readonly config: string };
  return { ...record, config: decodeModelConfig(record.config) };
}
