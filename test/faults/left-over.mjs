import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PREFIX = 'nereid:';
const DIRECTORY = `${PREFIX}dir:{all}:`;
/** The last to go is the mailbox of a dead process: three times a registration of 4 s. */
const LIMIT_MS = 20_000;
const LOOK_MS = 200;
const PROCESS_ID = /(?:gw|co|wk|ca)-[0-9a-z]+/g;
/** By which a coordinator calls the models of its ensembles. */
const CALLER = 'ca-';
/**
 * Of the cluster, however many live. Writers are kept so that late copies of their calls do nothing, records where the
 * last coordinator leaves its models to another that it takes for living, shared values until a process finds none
 * registered.
 */
const CLUSTER_KEYS = ['meta', 'writers', 'writers-until', 'records', 'record-versions', 'values', 'value-versions'];
/** What was counted of those models. */
const STATISTICS = `${PREFIX}statistics:{all}`;
/** While one lives. */
const LIVING_KEYS = ['processes', 'processes-until', 'owners', 'owners-until'];
/** Of a queue whose jobs have all ended: BullMQ's notes and events, and those that are kept. */
const QUEUE_KEYS = ['meta', 'id', 'events', 'marker', 'completed', 'failed', 'stalled-check'];
/**
 * What goes by itself: what stands for a submission that came with a key of its client, for a day; where a sequence of
 * jobs stands, which goes with its last step, and of one that is lost after an hour.
 */
const PASSING = [/:keys\.[^:]+:[0-9a-f]{64}$/, /:nereid-gate:/];
/**
 * An input that stands beside a job. All jobs being over none needs it: whoever was to delete it died, or died before the
 * job was added. A coordinator sweeps it away, minutes later: of each death a few may be there.
 */
const JOB_INPUT = /:payload:\{.+%7E[^.]+\.i\d+\}$/;
/**
 * Waits until nothing of the dead is left in Redis, nor anything of requests and jobs that have ended: so many
 * processes are registered; each lease is one of theirs; each key is one of theirs, of the cluster or of a kept job;
 * no large tensor lies in the folder `blobs`. Returns what is left all the same, in words. `queues` are the
 * prefixes of BullMQ's keys; so many `inputs` of jobs may be left to the sweep.
 */
export async function leftOfTheDead(redis, { live, blobs, queues, inputs }) {
  let left = [];
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
    left = await look(redis, { live, blobs, queues, inputs });
    if (left.length === 0) break;
  }
  return left;
}

async function look(redis, { live, blobs, queues, inputs }) {
  const ids = await redis.ask('HKEYS', `${DIRECTORY}processes`);
  const callers = ids.filter((id) => id.startsWith(CALLER));
  const processes = ids.length - callers.length;
  const count = processes === live ? [] : [`${processes} processes are registered, ${live} live: ${ids.join(' ')}`];
  const alone = callers.filter((id) => !ids.includes(id.replace(CALLER, 'co-')));
  const ofQueues = new Set((await Promise.all(queues.map((queue) => keysOfQueue(redis, queue)))).flat());
  const others = (await redis.ask('KEYS', '*')).filter((key) => !ofQueues.has(key) && !isOfTheLiving(key, ids, live));
  const swept = others.filter((key) => JOB_INPUT.test(key)).slice(0, inputs);
  const keys = [];
  for (const key of others) if (!swept.includes(key) && !(await isPassing(redis, key))) keys.push(key);
  const owners = await redis.ask('HVALS', `${DIRECTORY}owners`);
  const leases = owners.filter((owner) => !ids.includes(owner.match(PROCESS_ID)?.[0]));
  return [
    ...count,
    ...alone.map((id) => `caller ${id}`),
    ...keys,
    ...leases.map((owner) => `lease of ${owner}`),
    ...filesIn(blobs),
  ];
}

/** Of a queue whose jobs are over. What is told of a job stays with it. */
async function keysOfQueue(redis, queue) {
  const ended = await Promise.all(
    ['completed', 'failed'].map((set) => redis.ask('ZRANGE', `${queue}:${set}`, '0', '-1')),
  );
  return [...QUEUE_KEYS, ...ended.flat().flatMap((id) => [id, `${id}:logs`])].map((name) => `${queue}:${name}`);
}

async function isPassing(redis, key) {
  return PASSING.some((name) => name.test(key)) && (await redis.ask('TTL', key)) > 0;
}

function isOfTheLiving(key, ids, live) {
  if (key === STATISTICS) return true;
  if (key.startsWith(DIRECTORY)) {
    const name = key.slice(DIRECTORY.length);
    return CLUSTER_KEYS.includes(name) || (live > 0 && LIVING_KEYS.includes(name));
  }
  return key.startsWith(`${PREFIX}mb:`) && ids.includes(key.match(PROCESS_ID)?.[0]);
}

/** Once all is answered the living have none either. */
function filesIn(blobs) {
  if (blobs === undefined) return [];
  const entries = readdirSync(blobs, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}
