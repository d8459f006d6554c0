import { orderIn } from './order-model.mjs';

const READ_AT_ONCE = 500;

/**
 * What is wrong, in words, with jobs that were queued without a worker: each was run once and keeps its right answer,
 * the more urgent first, and of a priority the oldest first. `sent`: as their producers know them; `waiting`: their ids
 * in the order of the queue. Jobs of one execution have run at one moment.
 */
export async function auditBacklog(queue, { sent, waiting }) {
  const problems = [];
  const priorities = new Map(sent.map(({ id, priority }) => [id, priority]));
  const kept = new Map();
  for (let from = 0; ; from += READ_AT_ONCE) {
    const jobs = await queue.getCompleted(from, from + READ_AT_ONCE - 1);
    for (const { id, returnvalue, attemptsStarted } of jobs) kept.set(id, { ...orderIn(returnvalue), attemptsStarted });
    if (jobs.length < READ_AT_ONCE) break;
  }
  for (const { id, failedReason } of await queue.getFailed()) problems.push(`job ${id} failed: ${failedReason}`);
  if (waiting.length !== sent.length)
    problems.push(`${waiting.length} jobs wait, of ${sent.length} that were accepted`);
  for (const { id, value } of sent) {
    const job = kept.get(id);
    if (job === undefined) problems.push(`job ${id} (value ${value}) is not among the completed`);
    else if (job.value !== value) problems.push(`job ${id} (value ${value}) keeps the answer of ${job.value}`);
    else if (job.attemptsStarted !== 1) problems.push(`job ${id} was started ${job.attemptsStarted} times`);
  }
  // Each row that was run has a number, so one that was run twice leaves a gap.
  const rows = new Set([...kept.values()].map(({ row }) => row));
  const last = Math.max(...rows);
  if (rows.size !== kept.size || last !== kept.size - 1) {
    problems.push(`${kept.size} jobs were run as ${rows.size} rows of ${last + 1}`);
  }
  problems.push(...outOfTurn(waiting, kept, priorities), ...youngerFirst(sent, kept));
  return { problems, kept: kept.size };
}

/** By the order of the queue, which has the more urgent first. */
function outOfTurn(waiting, kept, priorities) {
  const problems = [];
  let before = { id: '', moment: 0 };
  let priority = 0;
  for (const id of waiting) {
    const moment = kept.get(id)?.moment ?? before.moment;
    if (moment < before.moment) {
      problems.push(`job ${id} was run at ${moment}, before ${before.id} at ${before.moment}, which waited before it`);
    }
    if (priorities.get(id) < priority)
      problems.push(`job ${id} of priority ${priorities.get(id)} waits behind ${priority}`);
    priority = priorities.get(id) ?? priority;
    if (moment >= before.moment) before = { id, moment };
  }
  return problems;
}

/** By what producers know: one that was accepted before another was sent is the older. */
function youngerFirst(sent, kept) {
  const problems = [];
  const ordered = sent
    .filter(({ id }) => kept.has(id))
    .map((job) => ({ ...job, moment: kept.get(job.id).moment }))
    .sort((one, other) => one.moment - other.moment);
  for (const priority of new Set(sent.map((job) => job.priority))) {
    const own = ordered.filter((job) => job.priority === priority);
    /** Of those of earlier moments, the one that was sent last; and the same with those of this moment. */
    let earlier;
    let youngest;
    for (const [index, job] of own.entries()) {
      if (job.moment !== own[index - 1]?.moment) earlier = youngest;
      if (earlier !== undefined && job.acceptedMs < earlier.sentMs) {
        problems.push(
          `job ${job.id} of priority ${priority} was accepted before ${earlier.id} was sent, and run later`,
        );
      }
      if (youngest === undefined || job.sentMs > youngest.sentMs) youngest = job;
    }
  }
  return problems;
}
