import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { bullmqConnection } from './bullmq-connection.mjs';
import { answerIn, isRight, numberIn } from './load-model.mjs';

/** Jobs that were added and not told to their producer end too. */
const QUIET_LIMIT_MS = 30_000;
const LOOK_MS = 100;
const READ_AT_ONCE = 500;
/**
 * How much of what it had acknowledged a Redis that is killed may lose, by the kind of the fault: what it had not sent to
 * its replica, or not written to its file yet, since `everysec` puts that off while an fsync lasts (docs/redis.md).
 */
const LOST_MS_MAX = { failover: 1_000, kill: 2_000 };

/**
 * Watches a queue's events from its first on, and in the end says what is wrong with its jobs: `check` takes the
 * accepted ones as their producers saw them end, and returns problems in words, those that a killed Redis excuses, and
 * how many jobs were kept.
 */
export function auditJobs({ connection, name, prefix }) {
  const connections = [bullmqConnection(connection), bullmqConnection(connection)];
  const queue = new Queue(name, { connection: connections[0], prefix });
  const events = new QueueEvents(name, { connection: connections[1], prefix, lastEventId: '0' });
  for (const each of [queue, events, ...connections]) each.on('error', () => {});
  const completions = new Map();
  const failures = new Map();
  events.on('completed', ({ jobId }) => completions.set(jobId, (completions.get(jobId) ?? 0) + 1));
  events.on('failed', ({ jobId, failedReason }) => failures.set(jobId, failedReason));

  const quiet = async () => {
    let counts = {};
    for (const start = performance.now(); performance.now() - start < QUIET_LIMIT_MS; await delay(LOOK_MS)) {
      counts = await queue.getJobCounts();
      const { completed, ...others } = counts;
      const isQuiet = Object.values(others).every((count) => count === 0);
      if (isQuiet && completions.size >= completed) return { completed, stuck: [] };
    }
    return {
      completed: counts.completed,
      stuck: [`the queue is not quiet: ${JSON.stringify(counts)}, ${completions.size} completions were told`],
    };
  };

  return {
    async check(accepted, faults) {
      const { completed, stuck } = await quiet();
      const kept = new Map();
      for (let start = 0; start < completed; start += READ_AT_ONCE) {
        for (const job of await queue.getCompleted(start, start + READ_AT_ONCE - 1)) kept.set(job.id, job);
      }
      const found = [
        ...accepted.map((job) => ({ ...job, text: problemOf(job, kept.get(job.id)) })),
        ...[...kept.values()].map((job) => ({ ...times(job), text: problemOfKept(job, completions.get(job.id) ?? 0) })),
      ].filter(({ text }) => text !== undefined);
      const excused = found.filter((job) => mayBeLost(job, faults));
      const problems = found.filter((job) => !excused.includes(job)).map(({ text }) => text);
      const failed = [...failures].map(([id, reason]) => `job ${id} failed: ${reason}`);
      return {
        kept: kept.size,
        problems: [...stuck, ...problems, ...failed],
        excused: excused.map(({ text }) => text),
      };
    },
    async close() {
      await Promise.all([queue.close(), events.close()]);
      for (const each of connections) each.disconnect();
    },
  };
}

/** What an accepted job lacks: to be kept, and that its producer saw the result that is kept. */
function problemOf({ by, id, value, outcome, pid, text }, kept) {
  const which = `job ${id} (${by}, value ${value})`;
  if (kept === undefined) return `${which} is not among the completed ones: ${outcome} ${text ?? ''}`;
  if (outcome !== 'right') return `${which} ended for its producer as ${outcome}: ${text}`;
  // A second result would be of another run, which mostly is another process's.
  const answer = answerIn(kept.returnvalue);
  return pid === answer?.pid
    ? undefined
    : `${which}: its producer read the result of ${pid}, not that of ${answer?.pid}`;
}

function problemOfKept(job, completions) {
  const value = numberIn(job.data.inputs[0]);
  if (!isRight(answerIn(job.returnvalue), value)) return `job ${job.id} (value ${value}) keeps a wrong result`;
  return completions === 1 ? undefined : `job ${job.id} was completed ${completions} times`;
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
