import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { answeringAfterMs, withFigures } from './figures.mjs';
import { auditJobs } from './job-audit.mjs';
import { startJobLoad } from './job-load.mjs';
import { leftOfTheDead } from './left-over.mjs';
import { startLoad } from './load.mjs';
import { LARGE_MODEL, LOAD_MODEL, writeLoadModels } from './load-model.mjs';
import { createMembers, PLACES, ROLES } from './members.mjs';
import { REDIS_FORMS } from './redis-forms.mjs';
import { startProducer } from './start-producer.mjs';

const CLIENTS = 8;
const JOB_CLIENTS = 4;
const PRODUCER_CLIENTS = 4;
/** A folder in memory, as large tensors need it. */
const SHARED_MEMORY = '/dev/shm';
/** Load before the first fault, and after one is over. */
const SETTLE_MS = 1_000;
/** A fault that clients still feel after so long is not over by itself. */
const OVER_LIMIT_MS = 60_000;
const LOOK_MS = 20;
/** For what processes do after the last answer. */
const QUIET_LIMIT_MS = 10_000;
/** What a round may consist of, by name: kinds of fault and whom they befall. */
export const FAULTS = {
  kill: ROLES.map((role) => ({ kind: 'kill', role })),
  pause: ROLES.map((role) => ({ kind: 'pause', role })),
  redis: ['restart', 'kill', 'outage'].map((kind) => ({ kind, role: 'redis' })),
  failover: [{ kind: 'failover', role: 'redis' }],
};

/**
 * So many rounds under a steady mixed load: requests and jobs over HTTP through both gateways, and jobs of a plain
 * BullMQ producer; two of each role run. `kill` kills (SIGKILL) a worker, the coordinator that owns the model, and a
 * gateway, in turn, each replaced at once; `pause` stops the same (SIGSTOP) for 5 s; `redis` ends a Redis that keeps
 * its data by SIGTERM and by SIGKILL, each time started again at once, then by SIGTERM for 6 s;
 * `failover` kills the primary that a Sentinel watches. Each form of Redis has the faults of REDIS_FORMS.
 */
export async function runRounds({ rounds, faults: names = ['kill'], form = 'single', timeScale = 1, tell = () => {} }) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-faults-'));
  writeLoadModels(folder);
  const redis = await REDIS_FORMS[form].start();
  const { connection, jobPrefix } = redis;
  const blobs = REDIS_FORMS[form].blobsInFiles ? mkdtempSync(join(SHARED_MEMORY, 'nereid-faults-')) : undefined;
  const flags = [
    `--model-repository=${folder}`,
    `--time-scale=${timeScale}`,
    `--job-prefix=${jobPrefix}`,
    `--blob-dir=${blobs ?? 'none'}`,
  ];
  const members = createMembers(clusterOn(redis, flagEnvironment(flags)));
  const keysOf = (model) => `${jobPrefix.replaceAll('%m', model)}:infer.${model}`;
  const queue = { connection, name: `infer.${LOAD_MODEL}`, prefix: jobPrefix.replaceAll('%m', LOAD_MODEL) };
  const audit = auditJobs(queue);
  let producer;
  try {
    await members.startAll();
    const load = startLoad({ doors: members.door, places: PLACES, clients: CLIENTS });
    const jobLoad = startJobLoad({ doors: members.door, places: PLACES, clients: JOB_CLIENTS });
    producer = startProducer({ ...queue, clients: PRODUCER_CLIENTS });
    await delay(SETTLE_MS);
    const faults = [];
    for (let round = 0; round < rounds; round += 1) {
      for (const fault of names.flatMap((name) => FAULTS[name])) {
        const seen = await befall({ ...fault, round }, { members, redis, load });
        faults.push(withFigures(seen, load.requests));
        tell(faults.at(-1));
      }
    }
    const requests = await load.stop();
    await jobLoad.stop();
    const producerCode = await producer.stop();
    const jobs = [...jobLoad.jobs, ...producer.jobs];
    const { kept, problems, excused } = await audit.check(jobs, faults);
    const held = await whenQuiet(members);
    const look = { blobs, queues: [LOAD_MODEL, LARGE_MODEL].map(keysOf) };
    const left = await leftOfTheDead(redis, { ...look, live: members.count });
    const endings = await members.stop();
    return {
      faults,
      requests: [...requests, ...jobLoad.refusals],
      jobs,
      kept,
      jobProblems: problems,
      excusedJobs: excused,
      producerCode,
      held,
      left,
      leftAtEnd: await leftOfTheDead(redis, { ...look, live: 0 }),
      endings,
    };
  } finally {
    producer?.kill();
    members.killAll();
    await audit.close();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
    if (blobs !== undefined) rmSync(blobs, { recursive: true, force: true });
  }
}

const REDIS_ENDS = {
  restart: {},
  kill: { signal: 'SIGKILL' },
  // Longer than requests wait for an owner.
  outage: { awayMs: 6_000 },
};

/** Lets it happen, waits until it is over, and tells what it was. */
async function befall({ kind, role, round }, { members, redis, load }) {
  const place = role === 'coordinator' ? await members.ownerPlace() : round % PLACES;
  const refusedBefore = kind === 'pause' ? await members.refused() : undefined;
  const atMs = performance.now();
  const during = await effectOf(kind, role, place, members, redis);
  const mendedMs = performance.now();
  const readyMs = await whenOver(
    load,
    members,
    mendedMs,
    kind === 'kill' && role === 'worker' ? during?.pid : undefined,
  );
  await during?.follow?.();
  const stale = kind === 'pause' ? difference(await members.refused(), refusedBefore) : undefined;
  return { round, kind, role, place, atMs, mendedMs, readyMs, endMs: performance.now(), stale, ...during };
}

function effectOf(kind, role, place, members, redis) {
  if (kind === 'failover') return redis.failOver();
  if (role === 'redis') return redis.restart(REDIS_ENDS[kind]);
  return kind === 'kill' ? members.replace(role, place) : members.pause(role, place);
}

function difference(after, before) {
  return Object.fromEntries(Object.entries(after).map(([role, count]) => [role, count - before[role]]));
}

/**
 * Waits until what waited during the fault has ended, each gateway has answered again and each process says that it is
 * ready, a new worker, if there is one of that `pid`, has answered, and a little longer. Returns how long after it they
 * all said that they are ready.
 */
async function whenOver(load, members, mendedMs, pid) {
  const isLate = () => performance.now() - mendedMs >= OVER_LIMIT_MS;
  while ((await members.unready()).length > 0 && !isLate()) await delay(LOOK_MS);
  const readyMs = isLate() ? Number.POSITIVE_INFINITY : performance.now() - mendedMs;
  const hasAnswered = () =>
    pid === undefined || load.requests.some((one) => one.outcome === 'right' && one.pid === pid);
  const isOver = () =>
    load.oldestSentMs() > mendedMs && answeringAfterMs(load.requests, mendedMs) < OVER_LIMIT_MS && hasAnswered();
  while (!isOver() && !isLate()) await delay(LOOK_MS);
  await delay(SETTLE_MS);
  return readyMs;
}

/** Waits until no role holds anything; returns what they hold all the same. */
async function whenQuiet(members) {
  let held = [];
  for (const start = performance.now(); performance.now() - start < QUIET_LIMIT_MS; await delay(LOOK_MS)) {
    held = await members.held();
    if (held.length === 0) break;
  }
  return held;
}
