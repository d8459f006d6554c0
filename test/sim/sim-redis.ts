/**
 * The one Redis of a simulation: keys with their times, lists that pops wait for, notices. Values are
 * never changed but replaced, and each replacement is remembered for a while, so that a restart or a
 * failover can forget the last ones.
 */
import type { Timer } from '@nereid/runtime';
import type { SimWorld } from './sim-world.ts';

export type RedisList = readonly Buffer[];
/** Hashes, and sorted sets with their scores in decimal. */
export type RedisHash = ReadonlyMap<string, string>;
export type RedisValue = RedisList | RedisHash;

/** Takes what a pop got; null after its time. */
type PopWaiter = (popped: readonly [key: string, frames: RedisList] | null) => void;

export interface SimRedis {
  /** Milliseconds, as TIME tells them. */
  nowMs(): number;
  readonly runId: string;
  list(key: string): RedisList;
  hash(key: string): RedisHash;
  exists(key: string): boolean;
  /** An empty value deletes the key. A new key lives until deleted; one that is there keeps its time. */
  put(key: string, value: RedisValue): void;
  expire(key: string, ms: number): void;
  delete(key: string): void;
  /** At once if something is there, else at the next push; who has waited longest goes first. Returns how to stop. */
  pop(key: string, count: number, waitMs: number, waiter: PopWaiter): () => void;
  /** Returns how to stop. */
  subscribe(channel: string, listener: (notice: string) => void): () => void;
  publish(channel: string, notice: string): void;
  keys(): readonly string[];
  /** Keys written, given a time or deleted so far. */
  readonly writes: number;
  /** A new run id; what was written in the last `lostUs` is forgotten. All clients are disconnected by then. */
  restart(lostUs: number): void;
}

interface Entry {
  readonly value: RedisValue;
  readonly untilMs: number;
}

interface Waiter {
  readonly count: number;
  readonly take: PopWaiter;
  readonly timeout: Timer;
}

/** Longest time of which the writes can be forgotten without forgetting everything. */
const UNDO_US_MAX = 1_500_000;
const UNDO_TRIM = 5_000;
const EMPTY_LIST: RedisList = [];
const EMPTY_HASH: RedisHash = new Map();

export function createSimRedis(world: SimWorld): SimRedis {
  const entries = new Map<string, Entry>();
  const waiters = new Map<string, Waiter[]>();
  const subscribers = new Map<string, Set<(notice: string) => void>>();
  let undos: { readonly timeUs: number; readonly key: string; readonly before: Entry | undefined }[] = [];
  let run = 1;
  let writes = 0;

  const nowMs = () => Math.floor(world.nowUs() / 1000);

  const get = (key: string): Entry | undefined => {
    const entry = entries.get(key);
    return entry !== undefined && entry.untilMs > nowMs() ? entry : undefined;
  };

  const set = (key: string, entry: Entry | undefined) => {
    writes++;
    undos.push({ timeUs: world.nowUs(), key, before: entries.get(key) });
    if (undos.length % UNDO_TRIM === 0) {
      undos = undos.filter(({ timeUs }) => timeUs >= world.nowUs() - UNDO_US_MAX);
    }
    if (entry === undefined) entries.delete(key);
    else entries.set(key, entry);
  };

  const put = (key: string, value: RedisValue) => {
    const size = isList(value) ? value.length : value.size;
    set(key, size === 0 ? undefined : { value, untilMs: get(key)?.untilMs ?? Number.POSITIVE_INFINITY });
    if (isList(value)) handOut(key);
  };

  const list = (key: string): RedisList => {
    const value = get(key)?.value ?? EMPTY_LIST;
    if (!isList(value)) throw new Error(`${key} is no list`);
    return value;
  };

  const handOut = (key: string) => {
    const waiting = waiters.get(key);
    for (let frames = list(key); frames.length > 0; frames = list(key)) {
      const waiter = waiting?.shift();
      if (waiter === undefined) return;
      waiter.timeout.cancel();
      const rest = frames.slice(waiter.count);
      set(key, rest.length === 0 ? undefined : { value: rest, untilMs: get(key)?.untilMs ?? Number.POSITIVE_INFINITY });
      waiter.take([key, frames.slice(0, waiter.count)]);
    }
  };

  return {
    nowMs,
    get runId() {
      return `run${run}`;
    },
    list,
    hash(key) {
      const value = get(key)?.value ?? EMPTY_HASH;
      if (isList(value)) throw new Error(`${key} is no hash`);
      return value;
    },
    exists: (key) => get(key) !== undefined,
    put,
    expire(key, ms) {
      const entry = get(key);
      if (entry !== undefined) set(key, { ...entry, untilMs: nowMs() + ms });
    },
    delete: (key) => set(key, undefined),
    pop(key, count, waitMs, take) {
      const waiting = waiters.get(key) ?? [];
      waiters.set(key, waiting);
      const leave = () => {
        waiter.timeout.cancel();
        const place = waiting.indexOf(waiter);
        if (place >= 0) waiting.splice(place, 1);
      };
      const timeout = world.at(world.nowUs() + waitMs * 1000, () => {
        leave();
        take(null);
      });
      const waiter: Waiter = { count, take, timeout };
      waiting.push(waiter);
      handOut(key);
      return leave;
    },
    subscribe(channel, listener) {
      const listening = subscribers.get(channel) ?? new Set();
      subscribers.set(channel, listening.add(listener));
      return () => void listening.delete(listener);
    },
    publish(channel, notice) {
      for (const listener of subscribers.get(channel) ?? []) listener(notice);
    },
    keys: () => [...entries.keys()].filter((key) => get(key) !== undefined),
    get writes() {
      return writes;
    },
    restart(lostUs) {
      for (const waiting of waiters.values()) for (const { timeout } of waiting) timeout.cancel();
      waiters.clear();
      subscribers.clear();
      if (lostUs > UNDO_US_MAX) entries.clear();
      for (const { timeUs, key, before } of undos.reverse()) {
        if (timeUs < world.nowUs() - lostUs || lostUs > UNDO_US_MAX) continue;
        if (before === undefined) entries.delete(key);
        else entries.set(key, before);
      }
      undos = [];
      run++;
    },
  };
}

function isList(value: RedisValue): value is RedisList {
  return Array.isArray(value);
}
