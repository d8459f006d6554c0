import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const PREFIX = 'nereid:';
const DIRECTORY = `${PREFIX}dir:{all}:`;
/** Tensors of processes of one machine. */
const SHARED_MEMORY = '/dev/shm';
/** The last to go is the mailbox of a dead process: three times a registration of 4 s. */
const LIMIT_MS = 20_000;
const LOOK_MS = 200;
const PROCESS_ID = /(?:gw|co|wk)-[0-9a-z]+/g;
/**
 * Of the cluster, however many live. Writers are kept so that late copies of their calls do nothing, records where the
 * last coordinator leaves its models to another that it takes for living.
 */
const CLUSTER_KEYS = ['meta', 'writers', 'writers-until', 'records', 'record-versions'];
/** While one lives. */
const LIVING_KEYS = ['processes', 'processes-until', 'owners', 'owners-until'];
/** Of a queue whose jobs have all ended: BullMQ's notes and events, and those that are kept. */
const QUEUE_KEYS = ['meta', 'id', 'events', 'marker', 'completed', 'stalled-check'];

/**
 * Waits until nothing of the dead is left in Redis, nor anything of requests and jobs that have ended: so many
 * processes are registered; each lease is one of theirs; each key is one of theirs, of the cluster or of a kept job;
 * no shared memory is a dead one's. Returns what is left all the same, in words. `knownIds` are ids that
 * processes had in the run, `queue` is the prefix of BullMQ's keys.
 */
export async function leftOfTheDead(redis, { live, knownIds, queue }) {
  let left = [];
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
    left = await look(redis, live, knownIds, queue);
    if (left.length === 0) break;
  }
  return left;
}

/** Adds the ids of the processes that are registered now. */
export async function noteIds(redis, knownIds) {
  for (const id of await redis.ask('HKEYS', `${DIRECTORY}processes`)) knownIds.add(id);
}

async function look(redis, live, knownIds, queue) {
  const ids = await redis.ask('HKEYS', `${DIRECTORY}processes`);
  const count = ids.length === live ? [] : [`${ids.length} processes are registered, ${live} live: ${ids.join(' ')}`];
  const kept = new Set(await redis.ask('ZRANGE', `${queue}:completed`, '0', '-1'));
  const keys = (await redis.ask('KEYS', '*')).filter((key) => !isOfTheLiving(key, ids, live, queue, kept));
  const owners = await redis.ask('HVALS', `${DIRECTORY}owners`);
  const leases = owners.filter((owner) => !ids.includes(owner.match(PROCESS_ID)?.[0]));
  return [...count, ...keys, ...leases.map((owner) => `lease of ${owner}`), ...filesOfTheDead(ids, knownIds)];
}

function isOfTheLiving(key, ids, live, queue, kept) {
  if (key.startsWith(DIRECTORY)) {
    const name = key.slice(DIRECTORY.length);
    return CLUSTER_KEYS.includes(name) || (live > 0 && LIVING_KEYS.includes(name));
  }
  if (key.startsWith(`${PREFIX}mb:`)) return ids.includes(key.match(PROCESS_ID)?.[0]);
  if (key.startsWith(`${queue}:`)) {
    const name = key.slice(queue.length + 1);
    return QUEUE_KEYS.includes(name) || kept.has(name);
  }
  return false;
}

function filesOfTheDead(ids, knownIds) {
  const named = readdirSync(SHARED_MEMORY, { recursive: true }).map((name) => [name, name.match(PROCESS_ID) ?? []]);
  const dead = named.filter(([, of]) => of.some((id) => knownIds.has(id) && !ids.includes(id)));
  return dead.map(([name]) => `${SHARED_MEMORY}/${name}`);
}
