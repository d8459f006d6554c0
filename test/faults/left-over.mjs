import { setTimeout as delay } from 'node:timers/promises';

const PREFIX = 'nereid:';
const DIRECTORY = `${PREFIX}dir:{all}:`;
/** The last to go is the mailbox of a dead process: three times a registration of 4 s. */
const LIMIT_MS = 20_000;
const LOOK_MS = 200;

/**
 * Waits until nothing of the dead is left in Redis: so many processes are registered, each key of a process is one of
 * theirs, and so is each lease. Returns what is left all the same, in words.
 */
export async function leftOfTheDead(redis, live) {
  let left = [];
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
    left = await look(redis, live);
    if (left.length === 0) break;
  }
  return left;
}

async function look(redis, live) {
  const ids = await redis.ask('HKEYS', `${DIRECTORY}processes`);
  const isDead = (id) => !ids.includes(id);
  const count = ids.length === live ? [] : [`${ids.length} processes are registered, ${live} live: ${ids.join(' ')}`];
  const keys = (await redis.ask('KEYS', `${PREFIX}*`)).filter((key) => {
    const tag = /\{((?:gw|co|wk)-[^}]*)\}/.exec(key)?.[1];
    return tag !== undefined && isDead(tag);
  });
  const owners = await redis.ask('HVALS', `${DIRECTORY}owners`);
  const leases = owners.filter((owner) => /(?:gw|co|wk)-\w+/.exec(owner)?.some(isDead));
  return [...count, ...keys, ...leases.map((owner) => `lease of ${owner}`)];
}
