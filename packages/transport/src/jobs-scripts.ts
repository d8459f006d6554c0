import type { Log } from '@nereid/runtime';
import type { Worker } from 'bullmq';
import { type BullLua, readBullLua } from './jobs-lua.ts';
import { progressScript, putBackScript, QUEUE_KEYS, stalledScript, turnScript } from './jobs-scripts-text.ts';
import type { RedisClient } from './redis-connection.ts';

/** A taken job as the script answers it. */
export type RawJob = readonly [
  id: string,
  data: string,
  opts: string,
  timestamp: string,
  starts: number,
  attemptsMade: string,
  deferredFailure: string | null,
];

export interface TurnArgs {
  readonly nowMs: number;
  readonly token: string;
  readonly lockMs: number;
  readonly by: string;
  /** How many jobs are taken, at most. */
  readonly count: number;
  /** END_FIELDS of each job that ends. */
  readonly ends: readonly string[];
}

export interface TurnAnswer {
  /** Below 0: not ended, as BullMQ's scripts say it. */
  readonly codes: readonly number[];
  readonly jobs: readonly RawJob[];
  /** For so long the queue's rate limit lets none be taken. */
  readonly limitMs: number;
  /** Of the next delayed job, wall-clock milliseconds; 0 for none. */
  readonly dueMs: number;
}

/** Our scripts on one connection, for any queue. */
export interface JobScripts {
  turn(queue: Queued, args: TurnArgs): Promise<TurnAnswer>;
  /** `pairs`: id and token of each job, oldest first. A code for each. */
  putBack(queue: Queued, nowMs: number, pairs: readonly string[]): Promise<readonly number[]>;
  /** Running jobs of earlier owners, and of nobody; their ids. */
  putBackDead(queue: Queued, nowMs: number, owner: string, epoch: string): Promise<readonly string[]>;
  stalled(queue: Queued): Promise<readonly string[]>;
  /** A code. */
  progress(queue: Queued, told: ToldProgress): Promise<number>;
}

export interface ToldProgress {
  readonly id: string;
  readonly token: string;
  /** JSON. */
  readonly value: string;
}

/** What they need of a BullMQ worker. */
export type Queued = Pick<Worker, 'toKey' | 'opts'>;

interface WithScripts {
  nereidJobsTurn(...keysAndArgs: readonly string[]): Promise<unknown>;
  nereidJobsPutBack(...keysAndArgs: readonly string[]): Promise<unknown>;
  nereidJobsStalled(...keysAndArgs: readonly string[]): Promise<unknown>;
  nereidJobsProgress(...keysAndArgs: readonly string[]): Promise<unknown>;
}

/** As moveStalledJobsToWait has them. */
const STALLED_KEYS = ['stalled', 'wait', 'active', 'stalled-check', 'meta', 'paused', 'marker', 'events', 'repeat'];

export interface JobScriptsOptions {
  readonly client: RedisClient;
  readonly log: Log;
  /** Nobody else takes jobs from this Redis, so any other owner is dead, whatever its epoch. */
  readonly alone: boolean;
  /** The installed BullMQ's by default. */
  readonly lua?: BullLua | undefined;
}

/** Undefined where the installed BullMQ has other Lua than ours were tested with: its public API does the same. */
export function createJobScripts(options: JobScriptsOptions): JobScripts | undefined {
  const { client, log, alone, lua = readBullLua() } = options;
  if (lua === undefined || !lua.tested) {
    log.info(
      { hash: lua?.hash },
      "jobs go by BullMQ's public API: its scripts are not those that ours were tested with",
    );
    return undefined;
  }
  client.defineCommand('nereidJobsTurn', { numberOfKeys: QUEUE_KEYS.length, lua: turnScript(lua) });
  client.defineCommand('nereidJobsPutBack', { numberOfKeys: QUEUE_KEYS.length, lua: putBackScript(lua) });
  client.defineCommand('nereidJobsStalled', { numberOfKeys: STALLED_KEYS.length, lua: stalledScript(lua) });
  client.defineCommand('nereidJobsProgress', { numberOfKeys: 3, lua: progressScript(lua) });
  const scripted = client as typeof client & WithScripts;

  const keysOf = (queue: Queued, names: readonly string[]) => names.map((name) => queue.toKey(name));
  const putBack = (queue: Queued, nowMs: number, args: readonly string[]) =>
    scripted.nereidJobsPutBack(...keysOf(queue, QUEUE_KEYS), queue.toKey(''), text(nowMs), ...args);

  return {
    async turn(queue, { nowMs, token, lockMs, by, count, ends }) {
      const args = [queue.toKey(''), text(nowMs), token, text(lockMs), by, text(count), ...ends];
      const answer = await scripted.nereidJobsTurn(...keysOf(queue, QUEUE_KEYS), ...args);
      const [codes, jobs, limitMs, dueMs] = answer as [readonly number[], readonly RawJob[], number, number];
      return { codes, jobs, limitMs, dueMs };
    },
    putBack: async (queue, nowMs, pairs) => (await putBack(queue, nowMs, ['held', ...pairs])) as readonly number[],
    putBackDead: async (queue, nowMs, owner, epoch) =>
      (await putBack(queue, nowMs, ['dead', owner, epoch, alone ? 'alone' : ''])) as readonly string[],
    async progress(queue, { id, token, value }) {
      const keys = keysOf(queue, [id, 'events', 'meta']);
      return (await scripted.nereidJobsProgress(...keys, id, value, token)) as number;
    },
    async stalled(queue) {
      const { maxStalledCount = 1, stalledInterval = 0 } = queue.opts;
      const args = [text(maxStalledCount), queue.toKey(''), text(Date.now()), text(stalledInterval)];
      return (await scripted.nereidJobsStalled(...keysOf(queue, STALLED_KEYS), ...args)) as readonly string[];
    },
  };
}

function text(value: number): string {
  return String(Math.floor(value));
}
