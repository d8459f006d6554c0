/** Sequences as clients of a simulation see them, and what must hold of their answers (S3). */
import type { ErrorInfo, Outcome } from '@nereid/protocol';
import { type SimModel, valuesOf } from './sim-models.ts';

/**
 * How a client sends: one step after the other by one gateway, or by any; several without waiting
 * for answers; or numbered, and again by another gateway where it cannot know the outcome.
 */
export type SequenceKind = 'single' | 'roaming' | 'pipelined' | 'numbered';

/** All that a client sends under one correlation id, one START after the other. */
export interface SimSequence {
  readonly model: SimModel;
  readonly version: string;
  readonly correlationId: bigint | string;
  readonly kind: SequenceKind;
  /** Its first is a START. */
  readonly plan: readonly PlannedStep[];
  /** Those sent, by their place in the plan. */
  readonly steps: SimStep[];
  /** Steps without a fate. */
  open: number;
  /** Nothing more is sent. */
  over: boolean;
}

export interface PlannedStep {
  readonly start: boolean;
  readonly end: boolean;
  /** What the client waits for before it. */
  readonly pauseUs: number;
  /** After what time it gives up, if it has not been answered. */
  readonly cancelUs: number | undefined;
  /** It says so when it sends it. */
  readonly saysCancel: boolean;
  /** How long it may wait for a slot; 0 for as long as it takes. */
  readonly timeoutUs: bigint;
}

export type StepFate = 'applied' | 'failed' | 'refused' | 'lost' | 'unknown';

export interface SimStep extends PlannedStep {
  readonly sequence: SimSequence;
  readonly index: number;
  /** Also when it is sent again. */
  readonly token: number;
  readonly firstSentUs: number;
  lastSentUs: number;
  answeredUs: number | undefined;
  sends: number;
  /** Its client did not wait for the answer. */
  gaveUp: boolean;
  /** How often it was not possible, or in vain. */
  tries: number;
  /**
   * `applied`: answered with a state; `failed`: by the model itself, which leaves the state as it was; `refused` by
   * its gateway, which took nothing of it; `lost`: the sequence is reported to be over; `unknown`: it may have had its
   * effect or not.
   */
  fate: 'open' | StepFate;
}

export interface StepVerdict {
  readonly fate: StepFate;
  /** What must not be, in words. */
  readonly wrong?: { readonly check: 'S2' | 'S3' | 'S6' | 'order'; readonly text: string };
}

export const MODEL_THREW = 'the model threw';
const NEEDS_START = 'must specify the START flag on the first request of the sequence';
const TIMED_OUT = 'timeout of the corresponding sequence has been expired';
/** Of when a step arrives and when its idle time is found to be over. */
const IDLE_SLACK_US = 100_000;

/** What may go wrong. */
export interface StepRules {
  /** Nothing but by the model or the clients. */
  readonly healthy: boolean;
  /** Nothing that ends sequences. */
  readonly keeps: boolean;
  /** Errors that any request may end with. */
  readonly allowed: (code: string, text: string) => boolean;
}

export function judgeStep(
  step: SimStep,
  request: { readonly refused: boolean; readonly cancelled: boolean },
  outcome: Outcome,
  rules: StepRules,
): StepVerdict {
  const { healthy, allowed } = rules;
  if (outcome.ok) return judgeState(step, outcome, healthy);
  const { error } = outcome;
  const { model, kind } = step.sequence;
  const told = { check: 'S2', text: `got ${error.code} ${error.reason ?? ''}: ${error.message}` } as const;
  if (error.code === 'INTERNAL' && error.message.includes(MODEL_THREW)) {
    return model.throwShare > 0 ? { fate: 'failed' } : { fate: 'failed', wrong: told };
  }
  if (request.refused)
    return allowed(error.code, error.message) ? { fate: 'refused' } : { fate: 'refused', wrong: told };
  if (isReportedLost(error)) {
    return mayBeLost(step, rules) ? { fate: 'lost' } : { fate: 'lost', wrong: told };
  }
  // A number that is not due: what the client was told of is not in the state.
  if (error.reason === 'step_gap' && kind === 'numbered') {
    const before = step.sequence.steps.slice(0, step.index);
    const lost = before.every(({ fate }) => fate === 'applied' || fate === 'failed');
    return lost ? { fate: 'lost', wrong: { check: 'S3', text: `got ${error.message}` } } : { fate: 'lost' };
  }
  step.gaveUp = request.cancelled;
  const own = request.cancelled && error.code === 'CANCELLED';
  const timedOut = error.message.endsWith(TIMED_OUT) && runOf(step).some(({ timeoutUs }) => timeoutUs > 0n);
  const fails = own || timedOut || isClosed(step, error, rules);
  if (fails) return { fate: 'lost' };
  return allowed(error.code, error.message) ? { fate: 'unknown' } : { fate: 'unknown', wrong: told };
}

function isReportedLost({ code, message, reason }: ErrorInfo): boolean {
  return code === 'INVALID_ARG' && (reason === 'sequence_lost' || message.endsWith(NEEDS_START));
}

/** A cancelled step takes with it all others that wait; so does one that finds no room. */
function isClosed({ sequence }: SimStep, { code }: ErrorInfo, { healthy, keeps }: StepRules): boolean {
  if (code === 'CANCELLED' && sequence.kind === 'pipelined' && !healthy && !keeps) return true;
  return code === 'CANCELLED' && sequence.steps.some(({ cancelUs, gaveUp }) => cancelUs !== undefined || gaveUp);
}

/** The steps from the last START up to this one. */
function runOf(step: SimStep): readonly SimStep[] {
  const upTo = step.sequence.steps.slice(0, step.index + 1);
  return upTo.slice(upTo.findLastIndex(({ start }) => start));
}

/** There is a reason that the client knows of, or its model loses sequences. */
function mayBeLost(step: SimStep, { keeps, healthy }: StepRules): boolean {
  const { model, steps, kind } = step.sequence;
  if (!keeps || model.crashShare > 0) return true;
  if (gapBefore(step, -IDLE_SLACK_US, () => true)) return true;
  // A gateway names the sequence before it, and can only go on with the right one where it sent the step once (R15).
  if (!healthy && kind === 'roaming' && runOf(step).length <= step.index) return true;
  // Also one that comes after: it may be over before this one. What its gateway gave up, no owner in time, ends all.
  return steps.some(
    ({ fate, cancelUs, timeoutUs, gaveUp }) =>
      fate === 'lost' || fate === 'unknown' || cancelUs !== undefined || timeoutUs > 0n || gaveUp,
  );
}

/** Between two of its run's steps that count is more time than its sequence may be idle, by more than so much. */
function gapBefore(step: SimStep, slackUs: number, counts: (before: SimStep, after: SimStep) => boolean): boolean {
  const { idleUs = 0 } = step.sequence.model;
  // The time of a sequence begins with its slot, for which its START may have waited.
  const begunUs = ({ start, lastSentUs, answeredUs }: SimStep) =>
    start && slackUs > 0 ? (answeredUs ?? lastSentUs) : lastSentUs;
  const run = runOf(step);
  return run.some((after, at) => {
    const before = run[at - 1];
    if (before === undefined || !counts(before, after)) return false;
    return after.firstSentUs - begunUs(before) > idleUs + slackUs;
  });
}

/** S3: of all steps since the START exactly those that were taken, once and in their order. */
function judgeState(step: SimStep, outcome: Extract<Outcome, { ok: true }>, healthy: boolean): StepVerdict {
  const run = runOf(step);
  const before = run.slice(0, -1);
  const lost = before.find(({ fate }) => fate === 'lost' || fate === 'unknown');
  const counted = [...before.filter(({ fate }) => fate === 'applied' || fate === 'open'), step];
  const output = outcome.response.outputs.find(({ name }) => name === 'STATE');
  const state = [...valuesOf(output?.data ?? new Uint8Array())].join(',');
  const due = counted.map(({ token }) => token).join(',');
  const wrong = (check: 'S3' | 'S6' | 'order', text: string): StepVerdict => ({
    fate: 'applied',
    wrong: { check, text },
  });
  if (state !== due) return wrong('S3', `was answered with state [${state}] in place of [${due}]`);
  if (lost !== undefined) return wrong('S3', `goes on though step ${lost.token} was reported ${lost.fate}`);
  const waiting = before.find(({ fate }) => fate === 'open');
  if (waiting !== undefined) return wrong('order', `was answered before step ${waiting.token}`);
  const wasOver = ({ answeredUs }: SimStep, { firstSentUs }: SimStep) =>
    answeredUs !== undefined && answeredUs < firstSentUs;
  if (healthy && gapBefore(step, IDLE_SLACK_US, wasOver)) {
    return wrong('S6', 'goes on after the time in which its sequence should have been ended');
  }
  return { fate: 'applied' };
}

export function describeStep({ sequence, index, token, start, end, sends }: SimStep): string {
  const flags = `${start ? ' START' : ''}${end ? ' END' : ''}`;
  const id = `${sequence.correlationId}`;
  return `step ${index}${flags} (${token}, sent ${sends} times) of ${sequence.kind} sequence ${id} of ${sequence.model.name}`;
}
