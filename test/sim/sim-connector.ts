/**
 * The connections of one simulated process to Redis, in place of ioredis' below the real transport
 * and directory. Commands of a connection run in order, each some time after it was sent, and their
 * replies come back in order.
 *
 * A connection that breaks loses any subset of the commands on their way, runs some of the others
 * late, and loses all replies: what Redis answers to it afterwards goes nowhere, and so do messages
 * that a pop left waiting takes. Redis drops such a half-open pop after a while.
 */
import type { Random, Timer } from '@nereid/runtime';
import type { RedisConnection, RedisConnector } from '@nereid/transport';
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

/** `pops` wait for messages, `pushes` send them, `directory` is for all else. */
export type ConnectionKind = 'pops' | 'pushes' | 'directory';

const KINDS: readonly ConnectionKind[] = ['pops', 'pushes', 'directory'];

export interface SimConnector extends RedisConnector {
  /** Breaks the connections of that kind, or all; those cannot be made anew for so long. */
  breakUp(us: number, kind?: ConnectionKind): void;
  /** Nothing passes for so long; the connections break at once, at the end, or not at all. */
  cut(us: number): void;
}

const LOST_SHARE = 0.5;
const LATE_SHARE = 0.2;
const LATE_US_MAX = 1_000_000;
const HALF_OPEN_US_MAX = 3_000_000;
const DIAL_US_MIN = 1_000;
const DIAL_US_MAX = 40_000;
/** Dials are repeated at growing intervals: after a long outage the next may be so late. */
const REDIAL_US_MAX = 1_000_000;

/** What a command does at Redis; it answers at once, later or never, and says how to stop what it leaves waiting. */
type Command = (answer: (value: unknown) => void) => (() => void) | undefined;

interface Flight {
  readonly reject: (error: Error) => void;
  /** Runs it at Redis, whatever has become of the connection. */
  readonly run: () => void;
  /** Set while it is on its way to Redis. */
  arrival: Timer | undefined;
  /** Set while it waits at Redis. */
  leave: (() => void) | undefined;
}

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
      const kind = purpose.startsWith('pop') ? 'pops' : purpose === 'push' ? 'pushes' : 'directory';
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

function createConnection(kind: ConnectionKind, shared: Shared, forget: () => void): Connection {
  const { world, process, random, redis, scripts, network } = shared;
  const flights = new Set<Flight>();
  const watchers = new Set<(event: 'lost' | 'ready') => void>();
  const listeners: ((channel: string, notice: string) => void)[] = [];
  const subscriptions = new Set<() => void>();
  let state: 'away' | 'ready' | 'closed' = 'away';
  let dialling: Timer | undefined;
  let waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  let runId: string | undefined;
  /** Counts the connections made; what belongs to an earlier one comes to nothing. */
  let generation = 0;
  let lastArrivalUs = 0;
  let lastReplyUs = 0;

  const travelUs = () => {
    const most = random.next() < network.slowShare ? network.slowUsMax : network.latencyUsMax;
    return network.latencyUsMin + random.next() * (most - network.latencyUsMin);
  };
  const departUs = () => Math.max(world.nowUs(), shared.cutUntilUs);
  const tell = (event: 'lost' | 'ready') => {
    for (const watcher of [...watchers]) if (watchers.has(watcher)) watcher(event);
  };

  const dial = () => {
    if (dialling !== undefined || state !== 'away') return;
    const fromUs = Math.max(departUs(), shared.awayUntilUs[kind]);
    const met = random.next() * Math.min(REDIAL_US_MAX, fromUs - world.nowUs());
    const timeUs = fromUs + met + DIAL_US_MIN + random.next() * (DIAL_US_MAX - DIAL_US_MIN);
    dialling = process.at(timeUs, () => {
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

  const loseFlights = () => {
    for (const flight of flights) {
      const { arrival, leave } = flight;
      const fate = random.next();
      if (leave !== undefined) world.at(world.nowUs() + random.next() * HALF_OPEN_US_MAX, leave);
      if (arrival !== undefined && fate < LOST_SHARE + LATE_SHARE) {
        arrival.cancel();
        if (fate >= LOST_SHARE) runLate(flight);
      }
      process.at(0, () => flight.reject(new Error('Connection is closed.')));
    }
    flights.clear();
    for (const stop of subscriptions) stop();
    subscriptions.clear();
  };

  /** What is late for one Redis never runs in the next. */
  const runLate = ({ run }: Flight) => {
    const known = redis.runId;
    world.at(world.nowUs() + random.next() * LATE_US_MAX, () => {
      if (redis.runId === known) run();
    });
  };

  const breakUp = () => {
    if (state !== 'ready') return;
    state = 'away';
    generation++;
    lastArrivalUs = 0;
    lastReplyUs = 0;
    loseFlights();
    process.at(0, () => {
      if (state === 'closed') return;
      tell('lost');
      dial();
    });
  };

  const send = (command: Command): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (state !== 'ready' || !process.alive) {
        reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
        return;
      }
      const born = generation;
      const flight: Flight = {
        reject,
        arrival: undefined,
        leave: undefined,
        run() {
          flight.arrival = undefined;
          flight.leave = command((value) => {
            flight.leave = undefined;
            if (generation !== born) return;
            lastReplyUs = Math.max(lastReplyUs, departUs() + travelUs());
            process.at(lastReplyUs, () => {
              if (flights.delete(flight)) resolve(value);
            });
          });
        },
      };
      flights.add(flight);
      lastArrivalUs = Math.max(lastArrivalUs, departUs() + travelUs());
      flight.arrival = world.at(lastArrivalUs, flight.run);
    });

  const atOnce = (act: () => unknown) =>
    send((answer) => {
      answer(act());
      return undefined;
    });

  const close = () => {
    if (state === 'closed') return;
    if (state === 'ready') loseFlights();
    state = 'closed';
    generation++;
    dialling?.cancel();
    for (const { reject } of waiting.splice(0)) reject(new Error('closed'));
    watchers.clear();
    forget();
  };

  const subscribe = (channel: string) =>
    atOnce(() => {
      const born = generation;
      const stop = redis.subscribe(channel, (notice) => {
        if (shared.cutUntilUs > world.nowUs() || random.next() < network.noticeLossShare) return;
        process.at(world.nowUs() + travelUs(), () => {
          if (generation === born) for (const listener of listeners) listener(channel, notice);
        });
      });
      subscriptions.add(stop);
      return 1;
    });

  /** As much of ioredis' client as transport and directory use. */
  const client: Record<string, unknown> = {
    defineCommand(name: string, { numberOfKeys }: { readonly numberOfKeys: number }) {
      const script = scripts[name];
      if (script === undefined) throw new Error(`the simulated Redis does not know the script '${name}'`);
      client[name] = (...all: readonly (string | number | Buffer)[]) => {
        const keys = all.slice(0, numberOfKeys).map(String);
        const args = all.slice(numberOfKeys).map((value) => (typeof value === 'number' ? `${value}` : value));
        return atOnce(() => script(redis, keys, args));
      };
    },
    blmpopBuffer: (waitS: number, _keys: number, list: string, _end: 'LEFT', _count: 'COUNT', count: number) =>
      send((answer) => redis.pop(list, count, waitS * 1000, answer)),
    del: (...keys: readonly string[]) => atOnce(() => keys.forEach(redis.delete)),
    subscribe,
    on(event: string, listener: (channel: string, notice: string) => void) {
      if (event === 'message') listeners.push(listener);
    },
    disconnect: breakUp,
  };

  const shown: RedisConnection = {
    client: client as unknown as RedisConnection['client'],
    get isReady() {
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
    close,
  };
  return { kind, shown, breakUp };
}
