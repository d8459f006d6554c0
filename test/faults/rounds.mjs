import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { leftOfTheDead } from './left-over.mjs';
import { LOAD_MODEL, LOAD_MODEL_CONFIG, LOAD_MODEL_SOURCE, startLoad } from './load.mjs';

const PLACES = 2;
const CLIENTS = 8;
const READY_LIMIT_MS = 60_000;
/** Load before the first fault, and between two looks at who works. */
const SETTLE_MS = 1_000;
/** A fault that clients still feel after so long is not over by itself. */
const OVER_LIMIT_MS = 60_000;
const LOOK_MS = 20;
const PAUSE_MS = 5_000;
const ROLES = ['worker', 'coordinator', 'gateway'];
/** What a round may consist of, by name: kinds of fault and whom they befall. */
export const FAULTS = {
  kill: ROLES.map((role) => ({ kind: 'kill', role })),
  pause: ROLES.map((role) => ({ kind: 'pause', role })),
  redis: [{ kind: 'restart', role: 'redis' }],
};

/**
 * So many rounds under steady load through both gateways; two of each role run. `kill` kills (SIGKILL) a worker, the
 * coordinator that owns the model, and a gateway, in turn, each replaced at once; `pause` stops the same (SIGSTOP) for
 * 5 s; `redis` restarts a Redis that keeps its data.
 */
export async function runRounds({ rounds, faults: names = ['kill'], tell = () => {} }) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-faults-'));
  writeModel(folder);
  const redis = await startPrivateRedis(['--appendonly', 'yes', '--appendfsync', 'everysec']);
  const environment = flagEnvironment([`--model-repository=${folder}`]);
  const places = createPlaces(clusterOn(redis, environment));
  const befall = { kill: places.replace, pause: places.pause, restart: () => redis.restart() };
  try {
    await places.startAll();
    const load = startLoad({ doors: places.door, places: PLACES, clients: CLIENTS });
    await delay(SETTLE_MS);
    const faults = [];
    for (let round = 0; round < rounds; round += 1) {
      for (const { kind, role } of names.flatMap((name) => FAULTS[name])) {
        const place = role === 'coordinator' ? await places.ownerPlace() : round % PLACES;
        const atMs = performance.now();
        const during = await befall[kind](role, place);
        const mendedMs = performance.now();
        await whenOver(load, mendedMs);
        const fault = { round, kind, role, place, atMs, mendedMs, endMs: performance.now(), ...during };
        faults.push(withFigures(fault, load.requests));
        tell(faults.at(-1));
      }
    }
    const requests = await load.stop();
    const left = await leftOfTheDead(redis, ROLES.length * PLACES);
    const endings = await places.stop();
    return { faults, requests, left, leftAtEnd: await leftOfTheDead(redis, 0), endings };
  } finally {
    places.killAll();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function writeModel(folder) {
  mkdirSync(join(folder, LOAD_MODEL, '1'), { recursive: true });
  writeFileSync(join(folder, LOAD_MODEL, 'config.pbtxt'), LOAD_MODEL_CONFIG);
  writeFileSync(join(folder, LOAD_MODEL, '1', 'model.mjs'), LOAD_MODEL_SOURCE);
}

/** The processes of each role by place. */
function createPlaces(cluster) {
  const members = { worker: [], coordinator: [], gateway: [] };
  const all = () => Object.values(members).flat();
  const start = async (role, place) => {
    const starting = cluster.start(role);
    members[role][place] = starting;
    const started = await starting.started;
    if (role === 'gateway' && !(await becomesReady(started.http, () => hasEnded(started), READY_LIMIT_MS))) {
      throw new Error(`the gateway is not ready:\n${started.output()}`);
    }
    members[role][place] = started;
  };
  return {
    startAll: () =>
      Promise.all(ROLES.flatMap((role) => Array.from({ length: PLACES }, (_, place) => start(role, place)))),
    /** The address of the gateway there, once it is ready. */
    door: (place) => members.gateway[place]?.http,
    async ownerPlace() {
      const executed = () => Promise.all(members.coordinator.map(({ metrics }) => executionCount(metrics)));
      const before = await executed();
      await delay(SETTLE_MS);
      const moved = (await executed()).map((count, place) => count - before[place]);
      return moved.indexOf(Math.max(...moved));
    },
    /** Kills the process there and starts another. Returns once that works. */
    async replace(role, place) {
      const victim = members[role][place];
      members[role][place] = undefined;
      victim.process.kill('SIGKILL');
      await start(role, place);
      return { pid: members[role][place].process.pid };
    },
    async pause(role, place) {
      members[role][place].process.kill('SIGSTOP');
      await delay(PAUSE_MS);
      members[role][place].process.kill('SIGCONT');
    },
    async stop() {
      const endings = [];
      for (const role of ROLES.toReversed()) {
        endings.push(...(await Promise.all(members[role].map((one) => one.stop()))));
      }
      return endings;
    },
    killAll() {
      for (const one of all()) if (one !== undefined && !hasEnded(one)) one.process.kill('SIGKILL');
    },
  };
}

function hasEnded({ process }) {
  return process.exitCode !== null || process.signalCode !== null;
}

/** Waits until what waited during the fault has ended and each gateway has answered again, and a little longer. */
async function whenOver(load, mendedMs) {
  const isOver = () => load.oldestSentMs() > mendedMs && healthyAfterMs(load.requests, mendedMs) < OVER_LIMIT_MS;
  while (!isOver() && performance.now() - mendedMs < OVER_LIMIT_MS) await delay(LOOK_MS);
  await delay(SETTLE_MS);
}

/** How long after that time each gateway had given a right answer to a request of after it. */
function healthyAfterMs(requests, mendedMs) {
  const first = Array.from({ length: PLACES }, (_, place) =>
    requests.find((one) => one.place === place && one.sentMs >= mendedMs && one.outcome === 'right'),
  );
  return Math.max(...first.map((one) => (one?.endedMs ?? Number.POSITIVE_INFINITY) - mendedMs));
}

async function executionCount(metrics) {
  const text = await (await fetch(`${metrics}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`nv_inference_exec_count{model="${LOAD_MODEL}"`));
  return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ') + 1));
}

/** What the load saw of a fault: outcomes, the longest time without an answer, when the new worker first answered. */
function withFigures(fault, requests) {
  const during = requests.filter(({ endedMs }) => endedMs >= fault.atMs && endedMs <= fault.endMs);
  const right = during.filter(({ outcome }) => outcome === 'right');
  const times = [fault.atMs, ...right.map(({ endedMs }) => endedMs).sort((a, b) => a - b), fault.endMs];
  const gapMs = Math.max(...times.slice(1).map((time, index) => time - times[index]));
  const first = right.find(({ pid }) => pid === fault.pid);
  const waits = right.map(({ sentMs, endedMs }) => endedMs - sentMs);
  const countOf = (outcome) => during.filter((one) => one.outcome === outcome).length;
  return {
    ...fault,
    gapMs: Math.round(gapMs),
    slowestMs: Math.round(Math.max(0, ...waits)),
    joinMs: first === undefined ? undefined : Math.round(first.endedMs - fault.mendedMs),
    healthyMs: Math.round(healthyAfterMs(requests, fault.mendedMs)),
    right: right.length,
    wrong: countOf('wrong'),
    refused: countOf('refused'),
    broken: countOf('broken'),
  };
}

/**
 * What no fault excuses: a wrong answer, or a connection that broke though its gateway was not killed while it waited.
 */
export function unexcused({ faults, requests }) {
  const ofDeadGateway = ({ place, sentMs, endedMs }) =>
    faults.some(
      (one) =>
        one.kind === 'kill' &&
        one.role === 'gateway' &&
        one.place === place &&
        sentMs <= one.atMs &&
        one.atMs <= endedMs,
    );
  return requests.filter(
    (request) => request.outcome === 'wrong' || (request.outcome === 'broken' && !ofDeadGateway(request)),
  );
}

/** The middle of the longest gaps after the deaths of a role. */
export function medianGapMs(faults, role) {
  const gaps = faults.filter((one) => one.kind === 'kill' && one.role === role).map(({ gapMs }) => gapMs);
  return gaps.sort((a, b) => a - b)[Math.floor((gaps.length - 1) / 2)];
}
