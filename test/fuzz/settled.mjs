import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { leftOfTheDead } from '../faults/left-over.mjs';

/** What must be so once no request is under way any more. */

const LIMIT_MS = 15_000;
const LOOK_MS = 100;
/** Loosely: heaps grow by their load, and large bodies leave them large. */
const GROWTH_KIB_MAX = 400 * 1024;
/** Two connections to Redis for each model with jobs, and some to spare. */
const GROWTH_FILES_MAX = 60;
/** /proc/net/tcp's word for a connection that is open at both ends. */
const ESTABLISHED = '01';
/** Gauges that are 0 when nothing is going on. */
const HELD = /^(?:nereid_held|nv_inference_pending_request_count|nereid_\w*in_flight\w*)(?:\{[^}]*\})? (?!0$)/;
/** Lists of jobs that wait or run; those of ended ones are kept for a while. */
const JOBS_LEFT = /:(?:wait|paused|active|delayed|prioritized|waiting-children)$/;

/** What is still held, or left, after the limit; in words. `connections` were open before the run. */
export async function unsettled(deployment, blobs, connections) {
  const { gateways, processes, redis } = deployment;
  let held = [];
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
    const figures = await Promise.all(processes.map(heldBy));
    held = [...figures.flat(), ...opened(gateways, connections), ...filesIn(blobs)];
    if (held.length === 0) break;
  }
  if (redis === undefined) return held;
  const left = await leftOfTheDead(redis, { live: processes.length, blobs: undefined, queues: [] });
  const isOurs = (what) => !what.startsWith(`${redis.jobPrefix}:`) || JOBS_LEFT.test(what);
  return [...held, ...left.filter(isOurs).map((what) => `left in Redis: ${what}`)];
}

async function heldBy({ role, metrics }) {
  const response = await fetch(`${metrics}/metrics`);
  const lines = (await response.text()).split('\n').filter((line) => HELD.test(line));
  return lines.map((line) => `${role}: ${line}`);
}

/** How many connections to each gateway's ports are open. */
export function openConnections(gateways) {
  const rows = readFileSync('/proc/net/tcp', 'utf8').trim().split('\n').slice(1);
  const local = rows.flatMap((row) => {
    const [, address, , state] = row.trim().split(/\s+/);
    return state === ESTABLISHED ? [Number.parseInt(address.split(':')[1], 16)] : [];
  });
  return gateways.map(({ http, grpc }) => {
    const ports = [http, grpc].filter((at) => at !== undefined).map((at) => Number(at.split(':').at(-1)));
    return local.filter((port) => ports.includes(port)).length;
  });
}

/** More connections than there were before. */
function opened(gateways, before) {
  const more = openConnections(gateways).map((count, index) => count - before[index]);
  return more.flatMap((count, index) => (count > 0 ? [`${gateways[index].role}: ${count} connections are open`] : []));
}

function filesIn(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => `a file is left: ${join(parentPath, name)}`);
}

/** Resident memory and open files of each process. */
export function resourcesOf({ processes }) {
  return processes.map(({ process: { pid } }) => ({
    kib: Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]),
    files: readdirSync(`/proc/${pid}/fd`).length,
  }));
}

/** The processes that took more memory than heaps explain, or left files open. */
export function resourceGrowth(deployment, before, log) {
  const after = resourcesOf(deployment);
  const grown = deployment.processes.map(({ role }, index) => ({
    role,
    kib: after[index].kib - before[index].kib,
    files: after[index].files - before[index].files,
  }));
  const signed = (count) => `${count < 0 ? '' : '+'}${count}`;
  const each = grown.map(
    ({ role, kib, files }) => `${role} ${signed(Math.round(kib / 1024))} MiB, ${signed(files)} files`,
  );
  log(`growth: ${each.join('; ')}`);
  return grown.flatMap(({ role, kib, files }) => [
    ...(kib > GROWTH_KIB_MAX ? [`a ${role} has grown by ${kib} KiB`] : []),
    ...(files > GROWTH_FILES_MAX ? [`a ${role} has ${files} more files open`] : []),
  ]);
}
