import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { answeringAfterMs, withFigures } from './figures.mjs';
import { auditJobs } from './job-audit.mjs';
import { leftOfTheDead } from './left-over.mjs';
import { writeLoadModels } from './load-model.mjs';
import { createMembers, PLACES, ROLES } from './members.mjs';
import { JOB_MODELS, JOBS_AT_ONCE, startMixedLoad } from './mixed-load.mjs';
import { REDIS_FORMS } from './redis-forms.mjs';
import { writeSequenceModel } from './sequence-model.mjs';
import { sequenceProblems, stepMayFail, stepProblems } from './sequence-verdicts.mjs';

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
  'redis-restart': [{ kind: 'restart', role: 'redis' }],
  'redis-kill': [{ kind: 'kill', role: 'redis' }],
  failover: [{ kind: 'failover', role: 'redis' }],
};

/**
 * Rounds under a steady load (mixed-load.mjs); two of each role run. `plan` names for each round the faults that it
 * has, one after the other, spread over `roundMs` at least: `kill` kills (SIGKILL) a worker, the coordinator that owns
 * the model, and a gateway, in turn, each replaced at once; `pause` stops the same (SIGSTOP) for 5 s; `redis` ends a
 * Redis that keeps its data by SIGTERM and by SIGKILL, each time started again at once, then by SIGTERM for 6 s, and
 * `redis-restart` and `redis-kill` are the first two alone; `failover` kills the primary that a Sentinel watches. Each
 * form of Redis has the faults of REDIS_FORMS; with `fsync: 'always'` it syncs each write, and roles and audit rely on it.
 */
export async function runRounds({
  plan,
  form = 'single',
  timeScale = 1,
  roundMs = 0,
  fsync = 'everysec',
  mixed = false,
  light = false,
  python,
  tell = () => {},
}) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-faults-'));
  writeLoadModels(folder);
  if (mixed) writeSequenceModel(folder);
  const redis = await REDIS_FORMS[form].start(fsync);
  const { connection, jobPrefix } = redis;
  const blobs = REDIS_FORMS[form].blobsInFiles ? mkdtempSync(join(SHARED_MEMORY, 'nereid-faults-')) : undefined;
  const flags = [
    `--model-repository=${folder}`,
    `--time-scale=${timeScale}`,
    `--job-prefix=${jobPrefix}`,
    `--jobs-fsync=${fsync}`,
    `--blob-dir=${blobs ?? 'none'}`,
  ];
  const members = createMembers(clusterOn(redis, flagEnvironment(flags)));
  const queueOf = (model) => ({
    connection,
    name: `infer.${model}`,
    prefix: jobPrefix.replaceAll('%m', model),
    model,
  });
  const queues = JOB_MODELS.map(queueOf);
  const audit = auditJobs(queues, { synced: fsync === 'always' });
  let load;
  try {
    await members.startAll();
    load = startMixedLoad({ doors: members.door, places: PLACES, queueOf, url: redis.url, mixed, light, python });
    await delay(SETTLE_MS);
    const faults = await runPlan({ plan, roundMs, tell }, { members, redis, load });
    const { requests, jobs, sequences, stepSequences, producerCodes } = await load.stop();
    const lapsed = members.lapsedPids();
    const { kept, problems, excused, counts } = await audit.check(
      jobs,
      faults,
      stepMayFail(stepSequences, faults, lapsed),
    );
    const held = await whenQuiet(members);
    const inputs = faults.filter(({ kind }) => kind !== 'pause').length * JOBS_AT_ONCE;
    const look = { blobs, inputs, queues: queues.map(({ prefix, name }) => `${prefix}:${name}`) };
    const left = await leftOfTheDead(redis, { ...look, live: members.count });
    const endings = await members.stop();
    return {
      faults,
      requests,
      jobs,
      kept,
      jobCounts: counts,
      jobProblems: [...problems, ...stepProblems(stepSequences)],
      excusedJobs: excused,
      sequences,
      sequenceProblems: sequenceProblems(sequences, faults, lapsed),
      lapsed,
      producerCodes,
      held,
      left,
      leftAtEnd: await leftOfTheDead(redis, { ...look, live: 0 }),
      endings,
    };
  } finally {
    load?.kill();
    members.killAll();
    await audit.close();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
    if (blobs !== undefined) rmSync(blobs, { recursive: true, force: true });
  }
}

async function runPlan({ plan, roundMs, tell }, { members, redis, load }) {
  const seen = [];
  for (const [round, names] of plan.entries()) {
    const fromMs = performance.now();
    const faults = names.flatMap((name) => FAULTS[name]);
    for (const [index, fault] of faults.entries()) {
      await delay(Math.max(0, fromMs + (index * roundMs) / faults.length - performance.now()));
      const figures = withFigures(await befall({ ...fault, round }, { members, redis, load }), load.requests);
      seen.push(figures);
      tell(figures);
    }
    await delay(Math.max(0, fromMs + roundMs - performance.now()));
  }
  return seen;
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
