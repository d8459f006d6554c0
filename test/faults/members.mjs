import { setTimeout as delay } from 'node:timers/promises';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { LOAD_MODEL } from './load-model.mjs';

export const ROLES = ['worker', 'coordinator', 'gateway'];
export const PLACES = 2;
const READY_LIMIT_MS = 60_000;
const PAUSE_MS = 5_000;
/** A worker's own word, in its log, that it was cut off for longer than its registration lasts. */
const LAPSED = /registration lapsed; going on under a new id/;
/** Between two looks at who works. */
const SHARE_MS = 1_000;

/** The processes of a cluster: two of each role, by place. `model`: of what is asked most. */
export function createMembers(cluster, model = LOAD_MODEL) {
  const members = { worker: [], coordinator: [], gateway: [] };
  const deadWorkers = [];
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
    count: ROLES.length * PLACES,
    startAll: () =>
      Promise.all(ROLES.flatMap((role) => Array.from({ length: PLACES }, (_, place) => start(role, place)))),
    /** The address of the gateway there, once it is ready. */
    door: (place) => members.gateway[place]?.http,
    /** The coordinator that has batches run now. */
    async ownerPlace() {
      const executed = () => Promise.all(members.coordinator.map((one) => executionCount(one, model)));
      const before = await executed();
      await delay(SHARE_MS);
      const moved = (await executed()).map((count, place) => count - before[place]);
      return moved.indexOf(Math.max(...moved));
    },
    /** Kills the process there and starts another. Returns once that works; `pid` is its, `deadPid` the other's. */
    async replace(role, place) {
      const victim = members[role][place];
      members[role][place] = undefined;
      victim.process.kill('SIGKILL');
      if (role === 'worker') deadWorkers.push(victim);
      await start(role, place);
      return { pid: members[role][place].process.pid, deadPid: victim.process.pid };
    },
    /** Asks the process there to stop (SIGTERM), and starts another once it has. Returns how it ended. */
    async drain(role, place) {
      const leaving = members[role][place];
      const { pid } = leaving.process;
      const ending = await leaving.stop();
      members[role][place] = undefined;
      const endedMs = performance.now();
      await start(role, place);
      return { pid, ending, endedMs };
    },
    pid: (role, place) => members[role][place].process.pid,
    async pause(role, place) {
      members[role][place].process.kill('SIGSTOP');
      await delay(PAUSE_MS);
      members[role][place].process.kill('SIGCONT');
    },
    /** Workers that were cut off, as a machine that stands still does it: what they had is lost, as with their death. */
    lapsedPids: () =>
      [...deadWorkers, ...members.worker].filter((one) => LAPSED.test(one.output())).map((one) => one.process.pid),
    /** Those that do not say that they are ready, on any of their ports. */
    async unready() {
      const ports = all().flatMap(({ role, http, metrics }) =>
        [http, metrics].flatMap((at) => (at ? [{ role, at }] : [])),
      );
      const answers = await Promise.all(
        ports.map(async ({ role, at }) => ((await isReady(at)) ? [] : [`${role} at ${at}`])),
      );
      return answers.flat();
    },
    /** What the roles hold, in words: nothing once all is quiet. */
    async held() {
      const texts = await Promise.all(
        all().map(async ({ role, metrics }) => samples(await scrape(metrics), 'nereid_held', role)),
      );
      return texts
        .flat()
        .flatMap(({ role, labels, value }) => (value === 0 ? [] : [`${value} held by a ${role}: ${labels}`]));
    },
    /** Messages refused so far, by role. */
    async refused() {
      const counts = Object.fromEntries(ROLES.map((role) => [role, 0]));
      await Promise.all(
        all().map(async ({ role, metrics }) => {
          for (const { value } of samples(await scrape(metrics), 'nereid_refused_messages_total', role))
            counts[role] += value;
        }),
      );
      return counts;
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

async function isReady(at) {
  try {
    return (await fetch(`${at}/v2/health/ready`)).ok;
  } catch {
    return false;
  }
}

async function scrape(metrics) {
  return (await fetch(`${metrics}/metrics`)).text();
}

function samples(text, name, role) {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`));
  return lines.map((line) => ({
    role,
    labels: line.slice(line.indexOf('{') + 1, line.lastIndexOf('}')),
    value: Number(line.slice(line.lastIndexOf(' ') + 1)),
  }));
}

async function executionCount({ metrics }, model) {
  const [sample] = samples(await scrape(metrics), 'nv_inference_exec_count').filter(({ labels }) =>
    labels.startsWith(`model="${model}"`),
  );
  return sample?.value ?? 0;
}
