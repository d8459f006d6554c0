import type { ExplainedJobJson, ExplainedRunJson } from '@nereid/protocol';
import { publicJobId, type StoredJob } from '@nereid/transport';
import type { Jobs } from './jobs.ts';

/** What stays with a job when the processes that ran it have forgotten it. */
export interface StoredRuns {
  readonly job: ExplainedJobJson;
  /** Of its last runs, the newest first. */
  readonly runs: readonly ExplainedRunJson[];
}

/** Undefined where there is no such job. Rejects with UNAVAILABLE where Redis does not answer. */
export async function explainedJob(jobs: Jobs, publicId: string): Promise<StoredRuns | undefined> {
  const job = await jobs.find(publicId, 0);
  if (job === undefined) return undefined;
  const rows = await jobs.notes(publicId);
  return { job: jobJson(job), runs: rows.flatMap(readRun) };
}

/** The newest run among the rows of a job's log, the newest first. */
export function lastRun(rows: readonly string[]): ExplainedRunJson | undefined {
  return rows.flatMap(readRun)[0];
}

function jobJson(job: StoredJob): ExplainedJobJson {
  const { model, id, state, attemptsMade, createdMs, startedMs, finishedMs, failedReason } = job;
  const time = (ms: number) => new Date(ms).toISOString();
  return {
    id: publicJobId(model, id),
    state,
    attempts: attemptsMade,
    created: time(createdMs),
    ...(startedMs === undefined ? {} : { started: time(startedMs) }),
    ...(finishedMs === undefined ? {} : { finished: time(finishedMs) }),
    ...(failedReason === undefined || failedReason === '' ? {} : { failed_reason: failedReason }),
  };
}

/** A row of the job's log, where an owner wrote it: its producer may write rows of its own. */
function readRun(row: string): readonly ExplainedRunJson[] {
  let value: unknown;
  try {
    value = JSON.parse(row);
  } catch {
    return [];
  }
  return isRun(value) ? [value] : [];
}

function isRun(value: unknown): value is ExplainedRunJson {
  if (typeof value !== 'object' || value === null) return false;
  const { id, model, version, process, arrived, took_ms, state, found, queued_ms } = value as Record<string, unknown>;
  const texts = [id, model, version, process, arrived, state];
  const numbers = [took_ms, queued_ms];
  const isFound = typeof found === 'object' && found !== null;
  return (
    isFound && texts.every((each) => typeof each === 'string') && numbers.every((each) => typeof each === 'number')
  );
}
