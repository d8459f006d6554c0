/** One turn of load on one server, and what it cost: CPU by process, Redis commands. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const WARM_UP_S = 0.5;
/** Of the kernel's process times. */
const TICKS_PER_S = 100;
/** What the lanes call themselves; every other command of a turn is called by a script of theirs, or rare. */
const CALLED_BY_CLIENTS = ['evalsha', 'eval', 'blmpop'];

export function buildLoadGenerator() {
  const folder = join(here, 'loadgen');
  const built = spawnSync('go', ['build', '-o', 'loadgen', '.'], { cwd: folder, stdio: 'inherit' });
  if (built.status !== 0) throw new Error('the load generator did not build: install Go 1.22 or later');
  return join(folder, 'loadgen');
}

/**
 * Loads a server for so long. Answers the generator's figures, `cpu_us` per request by process, `others_cpu` (cores that
 * others used), and per request the Redis commands by name. Commands and CPU are counted over the warm-up too, so they
 * are divided by an estimate of all requests: those counted, stretched by the warm-up.
 */
export async function turn({ loadgen, server, request, concurrency, seconds }) {
  const commandsBefore = await commandCalls(server.redis);
  const cpuBefore = cpuTicks(server.pids);
  const args = ['-mode', 'http', '-addr', `127.0.0.1:${server.port}`, '-path', request.path, '-body', request.body];
  args.push(...request.headers.flatMap((header) => ['-H', header]), '-expect', request.expect);
  args.push('-c', `${concurrency}`, '-d', `${seconds}`, '-w', `${WARM_UP_S}`);
  args.push(...Object.values(server.pids).flatMap((pid) => ['-pid', `${pid}`]));
  const run = spawnSync(loadgen, args, { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(run.stderr);
  const figures = JSON.parse(run.stdout);
  const cpuAfter = cpuTicks(server.pids);
  const commandsAfter = await commandCalls(server.redis);
  const requests = (figures.n * (seconds + WARM_UP_S)) / seconds;
  const perRequest = (before, after, factor) =>
    Object.fromEntries(
      Object.keys(after).map((name) => [name, ((after[name] - (before[name] ?? 0)) * factor) / requests]),
    );
  return {
    ...figures,
    cpu_us: perRequest(cpuBefore, cpuAfter, 1e6 / TICKS_PER_S),
    ...(server.redis === undefined ? {} : { commands: summed(perRequest(commandsBefore, commandsAfter, 1)) }),
  };
}

/** `all`, `called` (by clients) and each by name; names seldom called are left out. */
function summed(byName) {
  const all = Object.values(byName).reduce((sum, calls) => sum + calls, 0);
  const called = CALLED_BY_CLIENTS.reduce((sum, name) => sum + (byName[name] ?? 0), 0);
  const often = Object.entries(byName).filter(([, calls]) => calls >= 0.01);
  return { all, called, by_name: Object.fromEntries(often) };
}

/** INFO commandstats counts what a script calls as well as the call of the script. */
async function commandCalls(redis) {
  if (redis === undefined) return {};
  const lines = (await redis.ask('INFO', 'commandstats')).matchAll(/cmdstat_([^:]+):calls=(\d+)/g);
  return Object.fromEntries([...lines].map(([, name, calls]) => [name, Number(calls)]));
}

/** User and system time of each process with its children. */
function cpuTicks(pids) {
  const children = new Map();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const parent = processFields(entry)?.[1];
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), entry]);
  }
  const ticks = (pid) => {
    const fields = processFields(pid);
    if (fields === undefined) return 0;
    return (children.get(`${pid}`) ?? []).reduce(
      (sum, child) => sum + ticks(child),
      Number(fields[11]) + Number(fields[12]),
    );
  };
  return Object.fromEntries(Object.entries(pids).map(([role, pid]) => [role, ticks(pid)]));
}

/** The fields of /proc/<pid>/stat after the name: state, parent, …; undefined once it has ended. */
function processFields(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
