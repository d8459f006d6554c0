/** The connections of one simulated process to Redis, in place of ioredis' below the real transport and directory. */
import type { Random, Timer } from '@nereid/runtime';
import type { RedisConnection, RedisConnector } from '@nereid/transport';
import { createSimClient } from './sim-client.ts';
import { createFlights } from './sim-flights.ts';
import { between } from './sim-models.ts';
import type { SimRedis } from './sim-redis.ts';
import type { Script } from './sim-scripts.ts';
import type { SimProcess, SimWorld } from './sim-world.ts';

export interface SimConnectorOptions {
  readonly world: SimWorld;
  readonly process: SimProcess;
  readonly random: Random;
  readonly redis: SimRedis;
  readonly scripts: Readonly<Record<string, Script>>;
  readonly network: SimNetwork;
}

export interface SimNetwork {
  /** One way. */
  readonly latencyUsMin: number;
  readonly latencyUsMax: number;
  /** Share of commands and replies that take up to `slowUsMax`, with all behind them. */
  readonly slowShare: number;
  readonly slowUsMax: number;
  /** Share of published notices that never come. */
  readonly noticeLossShare: number;
}

/** `pops` wait for messages, `pushes` send them and their blobs, `directory` is for all else. */
export type ConnectionKind = 'pops' | 'pushes' | 'directory';

const KINDS: readonly ConnectionKind[] = ['pops', 'pushes', 'directory'];

export interface SimConnector extends RedisConnector {
  /** Breaks the connections of that kind, or all; those cannot be made anew for so long. */
  breakUp(us: number, kind?: ConnectionKind): void;
  /** Nothing passes for so long; the connections break at once, at the end, or not at all. */
  cut(us: number): void;
}

const DIAL_US_MIN = 1_000;
const DIAL_US_MAX = 40_000;
/** Dials are repeated at growing intervals: after a long outage the next may be so late. */
const REDIAL_US_MAX = 1_000_000;

interface Connection {
  readonly kind: ConnectionKind;
  readonly shown: RedisConnection;
  breakUp(): void;
}

export function createSimConnector(options: SimConnectorOptions): SimConnector {
  const { world, process, random } = options;
  const connections = new Set<Connection>();
  const shared: Shared = { ...options, cutUntilUs: 0, awayUntilUs: { pops: 0, pushes: 0, directory: 0 } };

  const self: SimConnector = {
    url: 'redis://simulated',
    cluster: false,
    connect(purpose) {
      const kind = purpose.startsWith('pop')
        ? 'pops'
        : purpose === 'push' || purpose === 'blobs'
          ? 'pushes'
          : 'directory';
      const connection = createConnection(kind, shared, () => connections.delete(connection));
      connections.add(connection);
      return connection.shown;
    },
    close() {
      for (const { shown } of connections) shown.close();
    },
    breakUp(us, kind) {
      for (const broken of KINDS) {
        if (kind !== undefined && kind !== broken) continue;
        shared.awayUntilUs[broken] = Math.max(shared.awayUntilUs[broken], world.nowUs() + us);
        for (const connection of connections) if (connection.kind === broken) connection.breakUp();
      }
    },
    cut(us) {
      shared.cutUntilUs = Math.max(shared.cutUntilUs, world.nowUs() + us);
      const fate = random.next();
      if (fate < 0.3) self.breakUp(0);
      else if (fate < 0.6) world.at(shared.cutUntilUs, () => self.breakUp(0));
    },
  };
  process.onKill(() => self.breakUp(0));
  return self;
}

interface Shared extends SimConnectorOptions {
  /** Nothing passes until then. */
  cutUntilUs: number;
  /** No connection of that kind can be made until then. */
  readonly awayUntilUs: Record<ConnectionKind, number>;
}

/**
 * States: *away* until `ready` dials and after each loss, from which it dials again by itself; *ready*,
 * when commands are taken; *closed*.
 */
function createConnection(kind: ConnectionKind, shared: Shared, forget: () => void): Connection {
  const { world, process, random, redis, network } = shared;
  const watchers = new Set<(event: 'lost' | 'ready') => void>();
  let state: 'away' | 'ready' | 'closed' = 'away';
  let dialling: Timer | undefined;
  let waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  let runId: string | undefined;

  const travelUs = () => {
    const most = random.next() < network.slowShare ? network.slowUsMax : network.latencyUsMax;
    return between(random, network.latencyUsMin, most);
  };
  const departUs = () => Math.max(world.nowUs(), shared.cutUntilUs);
  const flights = createFlights({ ...shared, departUs, travelUs });
  const tell = (event: 'lost' | 'ready') => {
    for (const watcher of [...watchers]) if (watchers.has(watcher)) watcher(event);
  };

  const dial = () => {
    if (dialling !== undefined || state !== 'away') return;
    const fromUs = Math.max(departUs(), shared.awayUntilUs[kind]);
    const met = random.next() * Math.min(REDIAL_US_MAX, fromUs - world.nowUs());
    dialling = process.at(fromUs + met + between(random, DIAL_US_MIN, DIAL_US_MAX), () => {
      dialling = undefined;
      if (Math.max(shared.cutUntilUs, shared.awayUntilUs[kind]) > world.nowUs()) {
        dial();
        return;
      }
      state = 'ready';
      runId = redis.runId;
      const waited = waiting;
      waiting = [];
      for (const { resolve } of waited) resolve();
      tell('ready');
    });
  };

  const lose = () => {
    flights.lose();
    client.lose();
  };

  const breakUp = () => {
    if (state !== 'ready') return;
    state = 'away';
    lose();
    process.at(0, () => {
      if (state === 'closed') return;
      tell('lost');
      dial();
    });
  };

  const client = createSimClient({
    redis,
    scripts: shared.scripts,
    breakUp,
    send: (command) =>
      state === 'ready' && process.alive
        ? flights.send(command)
        : Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false")),
    notice(hear) {
      if (shared.cutUntilUs <= world.nowUs() && random.next() >= network.noticeLossShare) {
        process.at(world.nowUs() + travelUs(), hear);
      }
    },
  });

  const shown: RedisConnection = {
    client: client.shown,
    get isReady() {
      return state === 'ready';
    },
    get isHandedOver() {
      return state === 'ready';
    },
    get runId() {
      return runId;
    },
    lastError: undefined,
    ready() {
      if (state === 'ready') return Promise.resolve();
      if (state === 'closed') return Promise.reject(new Error('closed'));
      dial();
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    watch(listener) {
      const own = (event: 'lost' | 'ready') => listener(event);
      watchers.add(own);
      return () => void watchers.delete(own);
    },
    close() {
      if (state === 'closed') return;
      if (state === 'ready') lose();
      state = 'closed';
      dialling?.cancel();
      for (const { reject } of waiting.splice(0)) reject(new Error('closed'));
      watchers.clear();
      forget();
    },
  };
  return { kind, shown, breakUp };
}
