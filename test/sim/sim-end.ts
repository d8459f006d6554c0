/** The end of a simulation (S6): after quiet nobody holds anything, and once all are stopped nothing is left. */
import { redisKeys } from '@nereid/transport';
import { DIRECTORY_KEYS } from '../../packages/transport/src/directory-script.ts';
import { type Member, REDIS_PREFIX } from './sim-cluster.ts';
import type { Course } from './simulate.ts';

const KEYS = redisKeys(REDIS_PREFIX);
/** The directory's own keys, whose fields come and go. */
const DIRECTORY = new Set(DIRECTORY_KEYS.map((name) => KEYS[name]('all')));

/** Of the rate limiter, which keeps nothing of anybody. */
const KEPT = new Set([...DIRECTORY, KEYS.resourceMeta('all')]);

/** What each blob's key begins with. */
const BLOBS = KEYS.blob('').replace(/\{\}$/, '');

/** The longest pause and the last restart are over, and what died in them has run out. */
const CALM_US = 12_000_000;
const QUIET_US = 15_000_000;
const LOOK_US = 1_000_000;
const STOP_US = 25_000_000;
/** A mailbox without its reader lives for 12 s, a registration for 4 s. */
const EXPIRY_US = 13_000_000;

/** A worker goes by another id once its registration has lapsed. */
const idOf = ({ id, worker }: Member) => worker?.id ?? id;

export async function becomesQuiet({ world, cluster, redis, fail, sequencesLeft }: Course): Promise<boolean> {
  const left = () => [
    ...sequencesLeft(cluster.living('worker').map(idOf)),
    ...cluster.living().flatMap((member) => {
      const unread = redis.list(KEYS.mailbox(idOf(member))).length;
      const what = unread === 0 ? member.busy() : [...member.busy(), `${unread} unread messages`];
      return what.map((text) => `${member.id}: ${text}`);
    }),
  ];
  await world.run(world.nowUs() + CALM_US);
  // Of whomever, dead or alive; what is still run for those that died puts down more.
  const blobs = () => redis.keys().filter((key) => key.startsWith(BLOBS));
  const untilUs = world.nowUs() + QUIET_US;
  while (left().length + blobs().length > 0 && world.nowUs() < untilUs) await world.run(world.nowUs() + LOOK_US);
  for (const what of left()) fail('S6', what);
  for (const key of blobs()) fail('S6', `${key} is left in Redis`);
  checkDirectory(cluster.living(), redis, fail);
  checkClaims(cluster.living('worker'), redis, fail);
  return left().length === 0;
}

/** Nobody is registered, and no model owned, but by those that live. */
function checkDirectory(living: readonly Member[], redis: Course['redis'], fail: Course['fail']): void {
  const ids = new Set(living.map(idOf));
  for (const id of unexpired(redis, 'directoryProcessesUntil')) {
    if (!ids.has(id)) fail('S6', `${id} is still registered`);
  }
  const owners = redis.hash(KEYS.directoryOwners('all'));
  for (const model of unexpired(redis, 'directoryOwnersUntil')) {
    const owner = owners.get(model)?.split(' ')[1] ?? '';
    if (!ids.has(owner)) fail('S6', `${owner} still owns ${model}`);
  }
}

/** Nobody holds or wants a resource that all share, and nobody is known who does not live. */
function checkClaims(workers: readonly Member[], redis: Course['redis'], fail: Course['fail']): void {
  const ids = new Set(workers.map(idOf));
  for (const [id, text] of redis.hash(KEYS.resourceClaims('all'))) {
    const { held, wanted }: { held: object; wanted: object } = JSON.parse(text);
    if (!ids.has(id)) fail('S6', `${id} still has a claim on resources`);
    for (const name of Object.keys({ ...held, ...wanted })) fail('S6', `${id} still holds or wants ${name}`);
  }
}

function unexpired(redis: Course['redis'], key: 'directoryProcessesUntil' | 'directoryOwnersUntil'): readonly string[] {
  return [...redis.hash(KEYS[key]('all'))].flatMap(([field, until]) => (Number(until) > redis.nowMs() ? [field] : []));
}

export async function endsInOrder({ world, cluster, redis, fail }: Course): Promise<void> {
  // One coordinator after the other, so that the last finds nobody who goes on with its models.
  const rest = () => cluster.members.filter(({ process }) => process.alive);
  const turns = [
    rest().filter(({ role }) => role === 'gateway'),
    ...rest().flatMap((member) => (member.role === 'coordinator' ? [[member]] : [])),
    rest().filter(({ role }) => role === 'worker'),
  ];
  for (const members of turns) {
    for (const member of members) member.process.at(0, () => void member.stop());
    await world.run(world.nowUs() + STOP_US, () => members.every(({ stopped }) => stopped));
    for (const { id, stopped } of members) if (!stopped) fail('S6', `${id} does not stop`);
    await world.run(world.nowUs() + LOOK_US);
  }
  await world.run(world.nowUs() + EXPIRY_US);
  for (const { id, process, stopped } of cluster.members) {
    if (stopped && process.liveTimers > 0) fail('S6', `${id} has ${process.liveTimers} timers`);
  }
  for (const key of redis.keys()) if (!KEPT.has(key)) fail('S6', `${key} is left in Redis`);
  checkDirectory([], redis, fail);
  for (const model of redis.hash(KEYS.directoryRecords('all')).keys()) fail('S6', `the record of ${model} is left`);
}
