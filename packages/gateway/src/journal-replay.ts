/**
 * Runs a recorded sequence, or a single request, again and compares what comes with what was recorded.
 *
 * Steps go one at a time, each once the one before is answered: those before `from` at once, to make the state, and
 * without being compared; the others at their pace. A step that took no effect is left out. The sequence has an id of
 * its own; the model is shown the recorded one, unless that is in use: it may keep states by it. At the end, however it comes, nothing of it is left.
 */
import type { CallMark } from '@nereid/caller';
import {
  compareStep,
  type ErrorInfo,
  errorInfo,
  type InferRequest,
  type Outcome,
  type RecordedAnswer,
  type RecordedStep,
  type Recording,
  type StepDifference,
  sequenceNeedsStart,
  type Tensor,
  type Tolerance,
} from '@nereid/protocol';
import { type Clock, pause } from '@nereid/runtime';
import type { Result } from './result.ts';

export interface ReplayParts {
  readonly clock: Clock;
  /** All answers to a request in their order. Never rejects; `mark` has its token once it is sent. */
  readonly infer: (request: InferRequest, signal: AbortSignal, mark: CallMark) => AsyncIterable<Outcome>;
  /** Why a request would be refused unsent; null where it would be sent. */
  readonly refusal: (request: InferRequest) => ErrorInfo | null;
  /** Ends the sequence of that name, if there is one. Never rejects. */
  readonly evict: (session: string) => Promise<void>;
}

export interface Replacement {
  readonly step: number;
  /** In place of the inputs of the same names. */
  readonly inputs: readonly Tensor[];
}

export interface ReplayPlan {
  readonly recording: Recording;
  /** From the first on. */
  readonly steps: AsyncIterable<RecordedStep>;
  readonly version: string;
  /** Of the new sequence, of the kind that was recorded. */
  readonly correlationId: bigint | string;
  /** The model is shown the new id, not the recorded one. */
  readonly showsOwnId: boolean;
  /** Times the recorded speed; 0 for as fast as it goes. */
  readonly pace: number;
  /** The first step that is compared. */
  readonly from: number;
  /** The first step that is not run. */
  readonly until: number;
  readonly replace: Replacement | undefined;
  readonly tolerance: Tolerance;
  /** Whether the run is recorded itself. */
  readonly record: boolean;
  /** No step behind the first that differs. */
  readonly stopAtFirst: boolean;
}

export interface ReplayedStep {
  readonly type: 'step';
  readonly step: number;
  readonly tookMs: number;
  /** Undefined where it is equal. */
  readonly difference: StepDifference | undefined;
}

export interface ReplayEnd {
  readonly type: 'end';
  /** `failed`: it could not be run to its end. */
  readonly result: 'equal' | 'differs' | 'failed';
  /** Those that ran. */
  readonly steps: number;
  readonly compared: number;
  readonly firstDifference: StepDifference | undefined;
  /** Why it failed, and at which step. */
  readonly failure: { readonly error: ErrorInfo; readonly step: number } | undefined;
  /** Token of its first request: the name of its session. '' where none was sent. */
  readonly session: string;
}

export type ReplayEvent = ReplayedStep | ReplayEnd;

/** Errors with these codes are the server's, not the model's answer. */
const SERVER_CODES: readonly ErrorInfo['code'][] = ['UNAVAILABLE', 'CANCELLED', 'NOT_FOUND'];

/** What has been done so far. */
interface Run {
  /** What the first compared step came with, and when it went. */
  begun: { readonly receivedMs: number; readonly atUs: number } | undefined;
  readonly first: CallMark;
  /** Its sequence is, or may be, there. */
  open: boolean;
  steps: number;
  compared: number;
  firstDifference: StepDifference | undefined;
}

/**
 * Each compared step as it is done, then the end, once nothing of it is left. Who returns early ends it as `signal` does,
 * whose reason is then why it failed.
 */
export async function* replay(parts: ReplayParts, plan: ReplayPlan, signal: AbortSignal): AsyncGenerator<ReplayEvent> {
  const run: Run = {
    begun: undefined,
    first: { door: 'inner', id: '' },
    open: false,
    steps: 0,
    compared: 0,
    firstDifference: undefined,
  };
  let failure: ReplayEnd['failure'];
  try {
    failure = yield* runSteps(parts, plan, run, signal);
  } finally {
    if (run.open) await parts.evict(run.first.id);
  }
  const { steps, compared, firstDifference } = run;
  const result = failure !== undefined ? 'failed' : firstDifference === undefined ? 'equal' : 'differs';
  yield { type: 'end', result, steps, compared, firstDifference, failure, session: run.first.id };
}

async function* runSteps(
  parts: ReplayParts,
  plan: ReplayPlan,
  run: Run,
  signal: AbortSignal,
): AsyncGenerator<ReplayEvent, ReplayEnd['failure']> {
  const { from, until } = plan;
  let next = 0;
  for await (const step of plan.steps) {
    if (step.step >= until) break;
    next = step.step + 1;
    if (step.effect !== 'applied') continue;
    const request = requestOf(plan, step);
    if (!request.ok) return { error: request.error, step: step.step };
    if (step.step >= from) await inTime(parts.clock, plan, run, step, signal);
    if (signal.aborted) return { error: whyEnded(signal), step: step.step };
    const refusal = parts.refusal(request.value);
    if (refusal !== null) return { error: refusal, step: step.step };
    const sentUs = parts.clock.nowUs();
    const answered = await send(parts, run, step, request.value, signal);
    if (!answered.ok) return { error: signal.aborted ? whyEnded(signal) : answered.error, step: step.step };
    run.steps++;
    if (step.step < from) continue;
    run.compared++;
    const difference = compareStep(step, answered.value, plan.tolerance);
    run.firstDifference ??= difference;
    yield { type: 'step', step: step.step, tookMs: (parts.clock.nowUs() - sentUs) / 1000, difference };
    if (difference !== undefined && plan.stopAtFirst) return undefined;
  }
  if (next < until) return { error: cut(plan.recording, next), step: next };
  return run.compared === 0 ? { error: nothing(plan), step: from } : undefined;
}

/** Waits until it is the step's turn by the recorded times. One that is late goes at once. */
async function inTime(clock: Clock, plan: ReplayPlan, run: Run, step: RecordedStep, signal: AbortSignal) {
  run.begun ??= { receivedMs: step.receivedMs, atUs: clock.nowUs() };
  if (plan.pace === 0) return;
  const dueUs = run.begun.atUs + ((step.receivedMs - run.begun.receivedMs) * 1000) / plan.pace;
  const waitMs = (dueUs - clock.nowUs()) / 1000;
  if (waitMs > 0) await pause(clock, waitMs, signal);
}

/** The step's answers, or the error of the server that came in place of one. */
async function send(
  { infer }: ReplayParts,
  run: Run,
  { answers: recorded }: RecordedStep,
  request: InferRequest,
  signal: AbortSignal,
): Promise<Result<readonly Outcome[]>> {
  const mark: CallMark = run.first.id === '' ? run.first : { door: 'inner', id: '' };
  run.open ||= request.sequenceStart;
  const answers: Outcome[] = [];
  for await (const outcome of infer(request, signal, mark)) {
    const expected = recorded[answers.length];
    // One more than was recorded shows that there are more.
    if (answers.length <= recorded.length) answers.push(outcome);
    if (!outcome.ok && isServers(outcome.error, request) && !isSame(outcome.error, expected)) return outcome;
  }
  if (request.sequenceEnd) run.open = false;
  return { ok: true, value: answers };
}

function isServers({ code, reason, message }: ErrorInfo, { modelName, correlationId }: InferRequest): boolean {
  if (reason !== undefined || SERVER_CODES.includes(code)) return true;
  // It was evicted, or idle for too long.
  return message === sequenceNeedsStart(modelName, correlationId).message;
}

function isSame(error: ErrorInfo, recorded: RecordedAnswer | undefined): boolean {
  if (recorded === undefined || recorded.ok) return false;
  return recorded.error.code === error.code && recorded.error.message === error.message;
}

function requestOf(plan: ReplayPlan, { step, request }: RecordedStep): Result<InferRequest> {
  const inputs: Tensor[] = [];
  const given = plan.replace?.step === step ? plan.replace.inputs : [];
  for (const { name, datatype, shape, data, redacted } of request.inputs) {
    const other = given.find((each) => each.name === name);
    if (other !== undefined) inputs.push(other);
    else if (data !== undefined) inputs.push({ name, datatype, shape, data });
    else return { ok: false, error: withoutData(name, step, redacted === true) };
  }
  const { recording, version, record } = plan;
  const { id, correlationId, sequenceStart, sequenceEnd, priority, parameters, requestedOutputs } = request;
  const isStep = recording.kind === 'sequence' && correlationId !== 0n && correlationId !== '';
  // Its own number (`nereid_step`) is left out: steps that took no effect are, too.
  const value: InferRequest = {
    modelName: recording.model,
    modelVersion: version,
    id,
    correlationId: isStep ? plan.correlationId : correlationId,
    shownId: isStep && plan.showsOwnId ? plan.correlationId : correlationId,
    sequenceStart,
    sequenceEnd,
    priority,
    // Its time-out in the queue was for that load; it may have been in time since others filled its batch.
    timeoutUs: 0n,
    journal: record,
    parameters,
    inputs,
    requestedOutputs,
  };
  return { ok: true, value };
}

function whyEnded({ reason }: AbortSignal): ErrorInfo {
  return errorInfo(reason, 'CANCELLED');
}

function withoutData(name: string, step: number, redacted: boolean): ErrorInfo {
  const why = redacted ? 'is redacted' : 'is not kept';
  const more = redacted ? ', or record again without its name in nereid.journal_redact' : '';
  const message = `input '${name}' of step ${step} ${why}: give another one in 'replace'${more}`;
  return { code: 'INVALID_ARG', message, field: 'replace' };
}

function cut({ id }: Recording, step: number): ErrorInfo {
  return { code: 'NOT_FOUND', message: `step ${step} of recording '${id}' is not there any more`, field: 'id' };
}

function nothing({ recording, from, until }: ReplayPlan): ErrorInfo {
  const message = `of recording '${recording.id}' no step from ${from} on before ${until} took effect: there is nothing to compare`;
  return { code: 'INVALID_ARG', message, field: 'from' };
}
