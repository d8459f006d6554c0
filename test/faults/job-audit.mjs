import { setTimeout as delay } from 'node:timers/promises';
import { Queue, QueueEvents } from 'bullmq';
import { answerIn, isRight, numberIn } from './load-model.mjs';

/** Jobs that were added and not told to their producer end too. */
const QUIET_LIMIT_MS = 30_000;
const LOOK_MS = 100;
const READ_AT_ONCE = 500;

/**
 * Watches a queue's events from its first on, and in the end says what is wrong with its jobs: `check` takes the
 * accepted ones as their producers saw them end, and returns problems in words and how many jobs there were in all.
 */
export function auditJobs({ connection, name, prefix }) {
  const options = { connection, prefix };
  const queue = new Queue(name, options);
  const events = new QueueEvents(name, { ...options, lastEventId: '0' });
  queue.on('error', () => {});
  events.on('error', () => {});
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
    async check(accepted) {
      const { completed, stuck } = await quiet();
      const kept = new Map();
      for (let start = 0; start < completed; start += READ_AT_ONCE) {
        for (const job of await queue.getCompleted(start, start + READ_AT_ONCE - 1)) kept.set(job.id, job);
      }
      const problems = [
        ...stuck,
        ...accepted.flatMap((job) => problemOf(job, kept.get(job.id), completions.get(job.id) ?? 0)),
        ...[...kept.values()].flatMap((job) => problemOfKept(job, completions.get(job.id) ?? 0)),
        ...[...failures].map(([id, reason]) => `job ${id} failed: ${reason}`),
      ];
      return { kept: kept.size, problems };
    },
    async close() {
      await Promise.all([queue.close(), events.close()]);
    },
  };
}

/** An accepted job: it is kept, ended once, and its producer saw the result that is kept. */
function problemOf({ by, id, value, outcome, pid, text }, kept) {
  const which = `job ${id} (${by}, value ${value})`;
  if (kept === undefined) return [`${which} is not among the completed ones: ${outcome} ${text ?? ''}`];
  if (outcome !== 'right') return [`${which} ended for its producer as ${outcome}: ${text}`];
  // A second result would be of another run, which mostly is another process's.
  const answer = answerIn(kept.returnvalue);
  return pid === answer?.pid
    ? []
    : [`${which}: its producer read the result of ${pid}, that of ${answer?.pid} is kept`];
}

function problemOfKept(job, completions) {
  const value = numberIn(job.data.inputs[0]);
  const problems = isRight(answerIn(job.returnvalue), value)
    ? []
    : [`job ${job.id} (value ${value}) keeps a wrong result`];
  return completions === 1 ? problems : [...problems, `job ${job.id} was completed ${completions} times`];
}
