/**
 * A process of its own with nothing of Nereid: a BullMQ producer that keeps so many jobs outstanding and hears of their
 * ends by QueueEvents. Its parent sends turns, `{ concurrency, seconds, warmUp, pids }`, and is sent the figures of each.
 *
 *   fork('job-producer.mjs', [JSON.stringify({ connection, name, prefix, data, kept })])
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { busySeconds, treeSeconds } from './proc-cpu.mjs';

const { connection, name, prefix, data, kept } = JSON.parse(process.argv[2]);
const queue = new Queue(name, { connection, prefix });
// Its readiness comes before its first read.
const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
/** Ends by job: who waits for it, or what came before anyone did. */
const waiting = new Map();
const early = new Map();

const ended = (id, end) => {
  const settle = waiting.get(id);
  if (settle === undefined) early.set(id, end);
  else {
    waiting.delete(id);
    settle(end);
  }
};
events.on('completed', ({ jobId, returnvalue }) => ended(jobId, { returnvalue }));
events.on('failed', ({ jobId, failedReason }) => ended(jobId, { failedReason }));

const endOf = (id) => {
  const known = early.get(id);
  if (known === undefined) return new Promise((resolve) => waiting.set(id, resolve));
  early.delete(id);
  return known;
};

const options = { removeOnComplete: { count: kept }, removeOnFail: { count: kept } };

async function one(index) {
  const which = index % data.length;
  const { id } = await queue.add('job', data[which].data, options);
  const { returnvalue, failedReason } = await endOf(id);
  if (failedReason !== undefined) throw new Error(failedReason);
  const outputs = new Map(returnvalue.outputs.map((tensor) => [tensor.name, tensor.data]));
  const wrong = data[which].outputs.find(({ name: output, values }) => `${outputs.get(output)}` !== `${values}`);
  if (wrong !== undefined) throw new Error(`wrong output: ${JSON.stringify(returnvalue)}`);
}

const ownSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const look = (pids) => ({ at: performance.now(), own: ownSeconds(), busy: busySeconds(), cpu: treeSeconds(pids) });

async function turn({ concurrency, seconds, warmUp, pids }) {
  const times = [];
  let phase = 'warm-up';
  let all = 0;
  let errors = 0;
  let lastError;
  const client = async (first) => {
    for (let index = first; phase !== 'over'; index += 1) {
      const start = performance.now();
      try {
        await one(index);
        if (phase === 'measured') times.push(performance.now() - start);
      } catch (error) {
        errors += 1;
        lastError = error.message;
      }
      all += 1;
    }
  };
  const clients = Array.from({ length: concurrency }, (_, first) => client(first));
  await delay(warmUp * 1000);
  const before = look(pids);
  phase = 'measured';
  await delay(seconds * 1000);
  phase = 'over';
  const after = look(pids);
  await Promise.all(clients);
  const secs = (after.at - before.at) / 1000;
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? -1;
  const cpu = Object.entries(after.cpu).map(([role, s]) => [role, s - before.cpu[role]]);
  const own = after.own - before.own;
  const others = after.busy - before.busy - own - cpu.reduce((sum, [, s]) => sum + s, 0);
  return {
    n: sorted.length,
    all,
    errors,
    last_error: lastError,
    rps: sorted.length / secs,
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    cpu_us: Object.fromEntries([...cpu, ['producer', own]].map(([role, s]) => [role, (s * 1e6) / sorted.length])),
    other_cpu: Math.max(0, others) / secs,
    steal: 0,
    checked: all,
  };
}

process.on('message', async (asked) => process.send(await turn(asked)));
await Promise.all([queue.waitUntilReady(), events.waitUntilReady()]);
process.send('ready');
