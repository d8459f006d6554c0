import { type ErrorInfo, JOB_STEPS, noVersions, STOPPING, sequenceNeedsStart } from '@nereid/protocol';
import type { TakenJob } from '@nereid/transport';
import type { JobVerdict } from './job-verdict.ts';
import type { OwnedModel } from './owned-model.ts';

/** What names a step towards its worker (docs/protocol.md R14). */
export interface StepIdentity {
  readonly id: string;
  readonly g: number;
  /** Answers to lower ones are not asked for again. */
  readonly low: number;
}

/** A numbered step waits so long for those before it, where its job has no deadline. */
const WAIT_US_MAX = 30_000_000;
/** Jobs of which is remembered that they have not run; one more takes the place of the oldest. */
const WAITING_MAX = 4_096;
/** A number that BullMQ gives: it counts the jobs of a queue as they are added. */
const COUNTED = /^[1-9][0-9]{0,15}$/;

/** Whether jobs of the model are steps of sequences. */
export function runsSteps({ signature }: Pick<OwnedModel, 'signature'>): boolean {
  return signature.sequence !== undefined && !signature.sequence.iterative;
}

/**
 * The identity of a job that is a step, the same whenever and by whomever it is taken: where BullMQ has counted it, as
 * its queue's step of that number, so that a worker tells one that it has applied from one that it has not. Of any
 * other id there is none, since ids without an order would be as many senders to remember.
 */
export function countedIdentity(model: string, jobId: string): StepIdentity | undefined {
  const g = COUNTED.test(jobId) ? Number(jobId) : Number.NaN;
  // Nobody knows which of the others are over.
  return Number.isSafeInteger(g) ? { id: `${JOB_STEPS}${model}:${jobId}`, g, low: 1 } : undefined;
}

/** What is known of jobs that were given back without having run. */
export interface JobSteps {
  /** A job is here. True where it was handed out before and nobody can tell whether it was applied. */
  taken(model: string, job: Pick<TakenJob, 'id' | 'starts'>, index: number): boolean;
  /** It goes back without having run. */
  waits(model: string, jobId: string, nowUs: number): void;
  over(model: string, jobId: string): void;
  /** Since it went back first. */
  waitedUs(model: string, jobId: string, nowUs: number): number;
}

interface Waiting {
  readonly sinceUs: number;
  /** It went back without having run, and was not taken since. */
  hasNotRun: boolean;
}

export function createJobSteps(): JobSteps {
  const waiting = new Map<string, Waiting>();
  const key = (model: string, jobId: string) => `${model}/${jobId}`;

  return {
    taken(model, { id, starts }, index) {
      const known = waiting.get(key(model, id));
      const hasNotRun = starts <= 1 || known?.hasNotRun === true;
      if (known !== undefined) known.hasNotRun = false;
      return !hasNotRun && index < 0 && countedIdentity(model, id) === undefined;
    },
    waits(model, jobId, nowUs) {
      const name = key(model, jobId);
      const known = waiting.get(name);
      const [oldest] = waiting.keys();
      if (known === undefined && waiting.size >= WAITING_MAX && oldest !== undefined) waiting.delete(oldest);
      waiting.set(name, { sinceUs: known?.sinceUs ?? nowUs, hasNotRun: true });
    },
    over: (model, jobId) => void waiting.delete(key(model, jobId)),
    waitedUs: (model, jobId, nowUs) => nowUs - (waiting.get(key(model, jobId))?.sinceUs ?? nowUs),
  };
}

export interface FailedStep {
  readonly model: string;
  readonly correlationId: bigint | string;
  /** -1 for none. */
  readonly index: number;
  readonly waitedUs: number;
  /** Its deadline is over. */
  readonly late: boolean;
}

/**
 * What a failure means for a job that is a step. A step that has run is not run again, whatever its model said; a
 * numbered one whose turn has not come is tried later, as is any while the model is not served.
 */
export function stepVerdict({ message, reason }: ErrorInfo, step: FailedStep): JobVerdict {
  const { model, correlationId, index, waitedUs, late } = step;
  if (late) return 'final';
  if (message.endsWith(noVersions(model).message) || message.endsWith(STOPPING.message)) return 'later';
  const isUnbegun = reason === undefined && message === sequenceNeedsStart(model, correlationId).message;
  const isEarly = reason === 'step_gap' || (isUnbegun && index > 0);
  return index >= 0 && isEarly && waitedUs < WAIT_US_MAX ? 'later' : 'final';
}
