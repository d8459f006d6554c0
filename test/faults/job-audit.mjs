import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { bullmqConnection } from './bullmq-connection.mjs';
import { countVerdict, problemOfUnknown, twice, verdictOf } from './job-verdicts.mjs';

/** Jobs that were added and not told to their producer end too. */
const QUIET_LIMIT_MS = 40_000;
const LOOK_MS = 100;
const READ_AT_ONCE = 500;
/**
 * How much of what it had acknowledged a Redis that is killed may lose, by the kind of the fault: what it had not sent to
 * its replica, or not written to its file yet, since `everysec` puts that off while an fsync lasts (docs/redis.md).
 */
const LOST_MS_MAX = { failover: 1_000, kill: 2_000 };

/**
 * Watches queues' events from their first on, and in the end says what is wrong with their jobs: `check` takes the
 * accepted ones as their producers saw them end, and returns problems in words, those that a killed Redis excuses, how
 * many jobs were kept, and counts for each kind of accepted ones. `mayFail` tells of a job whether it may have failed;
 * `synced` that Redis acknowledges nothing that is not on its disk.
 */
export function auditJobs(queues, { synced = false } = {}) {
  const audits = new Map(queues.map((queue) => [queue.model, auditQueue(queue)]));
  return {
    async check(accepted, faults, mayFail = () => false) {
      const found = [];
      const counts = new Map();
      let kept = 0;
      for (const [model, audit] of audits) {
        const ended = await audit.ended();
        kept += ended.completed.size;
        const own = accepted.filter((job) => job.model === model);
        for (const job of own) {
          const verdict = verdictOf(job, ended, mayFail);
          countVerdict(counts, job.kind, verdict);
          found.push({ ...job, text: verdict.problem });
        }
        const known = new Set(own.map(({ id }) => id));
        for (const job of ended.completed.values()) {
          if (known.has(job.id)) continue;
          found.push({ ...times(job), text: problemOfUnknown(model, job, ended.ends.get(job.id)) });
        }
        found.push(...ended.stuck.map((text) => ({ sentMs: 0, endedMs: 0, text })), ...twice(model, own, ended));
      }
      const wrong = found.filter(({ text }) => text !== undefined);
      const excused = synced ? [] : wrong.filter((job) => mayBeLost(job, faults));
      return {
        kept,
        problems: wrong.filter((job) => !excused.includes(job)).map(({ text }) => text),
        excused: excused.map(({ text }) => text),
        counts: Object.fromEntries(counts),
      };
    },
    async close() {
      await Promise.all([...audits.values()].map((audit) => audit.close()));
    },
  };
}

function auditQueue({ connection, name, prefix }) {
  const connections = [bullmqConnection(connection), bullmqConnection(connection)];
  const queue = new Queue(name, { connection: connections[0], prefix });
  const events = new QueueEvents(name, { connection: connections[1], prefix, lastEventId: '0' });
  for (const each of [queue, events, ...connections]) each.on('error', () => {});
  /** How often each job was told to be over. */
  const ends = new Map();
  for (const event of ['completed', 'failed']) {
    events.on(event, ({ jobId }) => ends.set(jobId, (ends.get(jobId) ?? 0) + 1));
  }

  const quiet = async () => {
    let counts = {};
    for (const start = performance.now(); performance.now() - start < QUIET_LIMIT_MS; await delay(LOOK_MS)) {
      counts = await queue.getJobCounts();
      const { completed, failed, ...others } = counts;
      const isQuiet = Object.values(others).every((number) => number === 0);
      if (isQuiet && ends.size >= completed + failed) return { counts, stuck: [] };
    }
    return { counts, stuck: [`${name} is not quiet: ${JSON.stringify(counts)}, ${ends.size} ends were told`] };
  };
  const all = async (state, total) => {
    const jobs = new Map();
    for (let start = 0; start < total; start += READ_AT_ONCE) {
      for (const job of await queue.getJobs([state], start, start + READ_AT_ONCE - 1)) jobs.set(job.id, job);
    }
    return jobs;
  };

  return {
    /** Once the queue is quiet: its jobs that are over, how often each was told to be, and what goes on all the same. */
    async ended() {
      const { counts, stuck } = await quiet();
      const completed = await all('completed', counts.completed);
      return { completed, failed: await all('failed', counts.failed), ends, stuck };
    },
    async close() {
      await Promise.all([queue.close(), events.close()]);
      for (const each of connections) each.disconnect();
    },
  };
}

/** When a job was there, on this process' clock. */
function times(job) {
  return { sentMs: job.timestamp - performance.timeOrigin, endedMs: job.finishedOn - performance.timeOrigin };
}

function mayBeLost({ sentMs, endedMs }, faults) {
  return faults.some(
    ({ role, kind, atMs }) => role === 'redis' && sentMs <= atMs && endedMs >= atMs - LOST_MS_MAX[kind],
  );
}
