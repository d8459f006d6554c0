import { answerOf, askedValue, isAnswerRight } from './job-answers.mjs';

/** A code, and what is wrong. */
const CLEAR = /^([A-Z_]+): ./;

/** What became of an accepted job, in one word, with the code of one that failed, and what is wrong with that. */
export function verdictOf(job, { completed, failed, ends }, mayFail) {
  const { by, id, value, outcome, pid, text } = job;
  const which = `job ${id} (${by}, value ${value})`;
  const kept = completed.get(id);
  const failure = failed.get(id);
  if (kept === undefined && failure === undefined) {
    return { end: 'missing', problem: `${which} is neither completed nor failed: ${outcome} ${text ?? ''}` };
  }
  const told = ends.get(id) ?? 0;
  if (told !== 1) return { end: 'doubled', problem: `${which} was told to be over ${told} times` };
  if (failure !== undefined) {
    const reason = failure.failedReason;
    const [, code] = CLEAR.exec(reason) ?? [];
    if (code === undefined) return { end: 'wrong', problem: `${which} failed without a code: ${reason}` };
    if (mayFail(job, reason)) return { end: 'lost' };
    return { end: 'failed', code, problem: `${which} failed: ${reason}` };
  }
  const answer = answerOf(job.model, kept.returnvalue);
  if (!isAnswerRight(job.model, answer, value)) return { end: 'wrong', problem: `${which} keeps a wrong result` };
  if (outcome !== 'right') return { end: 'wrong', problem: `${which} ended for its producer as ${outcome}: ${text}` };
  // A second result would be of another run, which mostly is another process's.
  if (pid !== undefined && pid !== answer.pid) {
    return { end: 'wrong', problem: `${which}: its producer read the result of ${pid}, not that of ${answer.pid}` };
  }
  return { end: 'completed' };
}

/** Added, and not told to who did: it is as right as any, once. */
export function problemOfUnknown(model, job, told) {
  const answer = answerOf(model, job.returnvalue);
  const value = askedValue(model, job);
  if (value !== undefined && !isAnswerRight(model, answer, value)) {
    return `job ${job.id} (value ${value}) keeps a wrong result`;
  }
  return told === 1 ? undefined : `job ${job.id} was told to be over ${told} times`;
}

/** Values that came over HTTP and are in the queue in more than one job: a submission that was sent again is one. */
export function twice(model, accepted, { completed }) {
  const numbers = new Map();
  for (const job of completed.values()) {
    const value = askedValue(model, job);
    if (value !== undefined) numbers.set(value, (numbers.get(value) ?? 0) + 1);
  }
  return accepted
    .filter(({ by, value }) => by === 'http' && numbers.get(value) > 1)
    .map((job) => ({ ...job, text: `value ${job.value} is in ${numbers.get(job.value)} jobs (${job.kind})` }));
}

/** One more of its kind. */
export function countVerdict(counts, kind, { end, code }) {
  const own = counts.get(kind) ?? { accepted: 0, completed: 0, lost: 0, failed: {}, wrong: 0, doubled: 0, missing: 0 };
  counts.set(kind, own);
  own.accepted += 1;
  if (end === 'failed') own.failed[code] = (own.failed[code] ?? 0) + 1;
  else own[end] += 1;
}
