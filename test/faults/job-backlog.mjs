import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { auditBacklog } from './backlog-audit.mjs';
import { requestOf } from './load-model.mjs';
import { ORDER_MODEL, writeOrderModel } from './order-model.mjs';

const MEMORY_HOOK = new URL('./memory-hook.mjs', import.meta.url).href;
/** Connections that submit; one job in so many is a BullMQ producer's. */
const CLIENTS = 8;
const PRODUCED_PARTS = 8;
/** In turn; 0 is the most urgent, which BullMQ keeps in a list of its own. */
const PRIORITIES = [100, 0, 7];
const LIMIT_MS = 60_000;
const LOOK_MS = 20;
/** Results that are read over HTTP too. */
const READ_OVER_HTTP = 40;
/** The drain may stand still for no longer. */
const STILL_MS_MAX = 30_000;

/**
 * Jobs that are queued while no worker lives, in three priorities, over HTTP and by a BullMQ producer, on a gateway, a
 * coordinator and a Redis. In the round `never` no worker has been there, in `left` one was there and left. Memory is
 * measured after the first `warmUp` of them, and after all, and Redis' commands for `idleMs` without and with them. Then a
 * worker joins. Tells of each round figures, and what is wrong in words.
 */
export async function runBacklog({ jobs, warmUp, idleMs, rounds = ['never', 'left'], tell = () => {} }) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-backlog-'));
  const models = join(folder, 'models');
  writeOrderModel(models);
  const redis = await startPrivateRedis(['--appendonly', 'yes', '--appendfsync', 'everysec']);
  const cluster = clusterOn(redis, {
    ...flagEnvironment([`--model-repository=${models}`]),
    NODE_OPTIONS: `--import=${MEMORY_HOOK}`,
    MEMORY_HOOK_FOLDER: folder,
  });
  const processes = [];
  const start = (role) => {
    const starting = cluster.start(role);
    processes.push(starting);
    return starting.started;
  };
  const connection = new Redis({ ...redis.connection, maxRetriesPerRequest: null });
  const queue = new Queue(`infer.${ORDER_MODEL}`, { connection, prefix: redis.jobPrefix });
  try {
    const [coordinator, gateway] = await Promise.all([start('coordinator'), start('gateway')]);
    const place = { folder, redis, client: connection, queue, coordinator, gateway, start };
    const known = async () => (await fetch(`${gateway.http}/v2/repository/index`, { method: 'POST' })).json();
    await until(async () => (await known()).length > 0, 'the model is known');
    const results = [];
    for (const name of rounds) {
      if (name === 'left' && results.length === 0) await comeAndGo(place);
      results.push({ name, ...(await round(place, { jobs, warmUp, idleMs })) });
      tell(results.at(-1));
    }
    const endings = [];
    for (const one of processes.toReversed()) endings.push(await one.stop());
    return { results, endings };
  } finally {
    for (const { process } of processes) process.kill('SIGKILL');
    await queue.close();
    connection.disconnect();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A worker that runs a job, and leaves. */
async function comeAndGo({ start, gateway }) {
  const worker = await start('worker');
  const infer = () =>
    fetch(`${gateway.http}/v2/models/${ORDER_MODEL}/infer`, { method: 'POST', body: JSON.stringify(requestOf(1)) });
  await until(async () => (await infer()).ok, 'the worker answers');
  await worker.stop();
}

async function round(place, { jobs, warmUp, idleMs }) {
  const { redis, client, queue, start } = place;
  const idleBefore = await idleCommands(redis, idleMs);
  const sent = [];
  const startMs = performance.now();
  await submit(place, sent, warmUp);
  const warm = await memories(place);
  await submit(place, sent, jobs);
  const submitMs = performance.now() - startMs;
  const full = await memories(place);
  const idleFull = await idleCommands(redis, idleMs);
  const [list, set] = await Promise.all([
    client.lrange(queue.toKey('wait'), 0, -1),
    client.zrange(queue.toKey('prioritized'), 0, -1),
  ]);
  const waiting = [...list.reverse(), ...set];

  const drainFromMs = performance.now();
  const worker = await start('worker');
  const stillAt = await drained(queue, jobs);
  const drainMs = performance.now() - drainFromMs;
  const { problems, kept } = await auditBacklog(queue, { sent, waiting });
  problems.push(...(await wrongOverHttp(place.gateway, sent)));
  if (stillAt !== undefined) problems.push(`the drain stands still at ${stillAt} of ${jobs} jobs`);
  await queue.obliterate({ force: true });
  await worker.stop();
  const growth = Object.fromEntries(
    Object.keys(warm).map((role) => [
      role,
      { rss: full[role].rss - warm[role].rss, heap: full[role].heapUsed - warm[role].heapUsed },
    ]),
  );
  return { submitMs, drainMs, kept, growth, full, idleBefore, idleFull, problems };
}

/** Submits until there are so many in all. What was accepted, and when, is put into `sent`. */
async function submit({ gateway, queue }, sent, upTo) {
  let next = sent.length;
  const client = async () => {
    while (next < upTo) {
      const value = next;
      next += 1;
      const priority = PRIORITIES[value % PRIORITIES.length];
      const sentMs = performance.now();
      const isProduced = value % PRODUCED_PARTS === 0;
      const id = await (isProduced ? produce(queue, value, priority) : post(gateway, value, priority));
      sent.push({ id, value, priority, sentMs, acceptedMs: performance.now() });
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

async function produce(queue, value, priority) {
  const kept = { age: 3_600 };
  const { id } = await queue.add('any', requestOf(value), { priority, removeOnComplete: kept, removeOnFail: kept });
  return id;
}

async function post({ http }, value, priority) {
  const response = await fetch(`${http}/v2/models/${ORDER_MODEL}/jobs`, {
    method: 'POST',
    headers: { 'Nereid-Priority': String(priority) },
    body: JSON.stringify(requestOf(value)),
  });
  const text = await response.text();
  if (response.status !== 202) throw new Error(`job ${value} is not accepted: ${response.status} ${text}`);
  const { id } = JSON.parse(text);
  return id.slice(id.indexOf('~') + 1);
}

/** Undefined once all are over; else where it stands still. */
async function drained(queue, jobs) {
  let over = 0;
  let movedMs = performance.now();
  while (over < jobs) {
    await delay(LOOK_MS * 5);
    const { completed, failed } = await queue.getJobCounts('completed', 'failed');
    if (completed + failed > over) movedMs = performance.now();
    else if (performance.now() - movedMs > STILL_MS_MAX) return over;
    over = completed + failed;
  }
  return undefined;
}

async function wrongOverHttp({ http }, sent) {
  const every = Math.max(1, Math.floor(sent.length / READ_OVER_HTTP));
  const some = sent.filter((_, index) => index % every === 0);
  const texts = await Promise.all(
    some.map(async ({ id, value }) => {
      const response = await fetch(`${http}/v2/jobs/${ORDER_MODEL}~${id}/result`);
      const text = await response.text();
      const isRight = response.status === 200 && JSON.parse(text).outputs[0].data[0] === value * 2 + 1;
      return isRight ? [] : [`job ${id} (value ${value}) over HTTP: ${response.status} ${text}`];
    }),
  );
  return texts.flat();
}

/** Of gateway and coordinator, once they have collected their garbage. */
async function memories({ folder, gateway, coordinator }) {
  const of = async ({ process: child }) => {
    const file = join(folder, String(child.pid));
    rmSync(file, { force: true });
    child.kill('SIGUSR2');
    let usage;
    await until(() => {
      try {
        usage = JSON.parse(readFileSync(file, 'utf8'));
      } catch {
        // Not written yet.
      }
      return usage !== undefined;
    }, 'a process tells its memory');
    return usage;
  };
  const [own, its] = await Promise.all([of(gateway), of(coordinator)]);
  return { gateway: own, coordinator: its };
}

/** Commands that Redis is sent a second, while nobody asks for anything. */
async function idleCommands(redis, ms) {
  const count = async () => Number(/total_commands_processed:(\d+)/.exec(await redis.ask('INFO', 'stats'))[1]);
  const before = await count();
  await delay(ms);
  return ((await count()) - before) / (ms / 1000);
}

async function until(isThere, what) {
  for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
    if (await isThere()) return;
  }
  throw new Error(`not within ${LIMIT_MS} ms: ${what}`);
}
