/**
 * A batch of steps of sequences: which of them run, what becomes of the others at once, and what their slots learn once
 * it is over. The rule is in session-slots.ts; here it meets messages.
 */
import {
  type DoneEntry,
  type EntryResult,
  type ErrorInfo,
  type ExecuteEntry,
  type ExecuteMessage,
  isWholeOutcome,
  type Outcome,
  type ProcessId,
  type ResponseMessage,
  type StepOrder,
  senderOf,
} from '@nereid/protocol';
import { type Mailbox, messageBytes } from '@nereid/transport';
import { isWhole, sendLast, type WholeEntry } from './batch-answers.ts';
import type { BatchSettlement } from './instance-batch.ts';
import type { AnswerPart, StepAnswer } from './kept-answers.ts';
import type { KeptOutputs } from './kept-outputs.ts';
import type { SessionSlots, Step, StepEnd } from './session-slots.ts';

/** A sequence model's slots and what its batches have to know of it. */
export interface StepSlots {
  readonly slots: SessionSlots;
  readonly iterative: boolean;
  /** An answer with more is not kept. */
  readonly answerBytesMax: number;
}

export interface StepBatchParts extends StepSlots {
  readonly message: ExecuteMessage;
  readonly mailbox: () => Mailbox;
  readonly nowUs: () => number;
  /** New sequences may begin. */
  readonly admits: boolean;
  /** Whether a request runs already, of whatever session it was. */
  readonly runs: (id: string) => boolean;
  /** Names the batch's execution. */
  readonly execution: string;
  /** Where an entry's answer goes. */
  readonly address: (entry: ExecuteEntry) => ProcessId;
  /** As of an AnsweredBatch. */
  readonly kept: KeptOutputs | undefined;
}

export interface StepBatch {
  /** Those that run, in order; the positions below are theirs. */
  readonly entries: readonly WholeEntry[];
  /** What became of the others. */
  readonly leftOut: readonly DoneEntry[];
  readonly slots: readonly number[];
  /** Runs of one request of an iterative sequence are one execution (docs/protocol.md R27). */
  execution(position: number): string;
  /** The number of the first chunk of this run. */
  firstChunk(position: number): number;
  /** Whether its sequence is over once it is answered. */
  ends(position: number): boolean;
  /** Whether it is to run on where nobody takes its answers: its client may ask for them by its number. */
  outlivesSender(entry: ExecuteEntry): boolean;
  /** A part of an answer was sent. */
  sent(position: number, response: ResponseMessage): void;
  /**
   * The batch is over; called once for each position, before its last answer is sent. What its owner is told where
   * nothing is answered. `nextChunk`: of this run's.
   */
  unanswered(
    position: number,
    settlement: BatchSettlement | null,
    nextChunk: number,
  ): 'again' | 'lost' | 'noslot' | undefined;
  /** Its last answer was sent, or it was cancelled. */
  answered(position: number, cancelled: boolean): void;
}

const NO_STEP: StepOrder = { bind: { epoch: 0, n: 0 }, g: 0, low: 0, prev: 0, number: -1 };

export function createStepBatch(parts: StepBatchParts): StepBatch {
  const { slots, iterative, message, mailbox, nowUs, execution } = parts;
  const entries: WholeEntry[] = [];
  const steps: Step[] = [];
  const leftOut: DoneEntry[] = [];
  const answers = createCollectedAnswers(parts.answerBytesMax);

  const send = (entry: ExecuteEntry, of: string, { outcome, chunk, last }: AnswerPart) => {
    const answer: ResponseMessage = {
      kind: 'response',
      model: message.model,
      id: entry.id,
      outcome: outcome.ok ? { ok: true, response: { ...outcome.response, id: entry.request.id } } : outcome,
      execution: of,
      chunk,
      last,
    };
    sendLast(mailbox(), parts.address(entry), answer, entry, parts.kept);
  };

  const leave = (entry: ExecuteEntry, result: EntryResult) => leftOut.push({ id: entry.id, result, error: null });

  const replay = (entry: ExecuteEntry, answer: StepAnswer | undefined) => {
    for (const part of answer?.parts ?? []) {
      // Whoever gets it, in this process too, may do with it what he likes.
      send(entry, answer?.execution ?? execution, { ...part, outcome: ownOutcome(part.outcome) });
    }
    leave(entry, 'replayed');
  };

  const refuse = (entry: ExecuteEntry, error: ErrorInfo) => {
    send(entry, execution, { outcome: { ok: false, error }, chunk: 0, last: true });
    leave(entry, 'refused');
  };

  for (const entry of message.entries) {
    if (parts.runs(entry.id)) {
      leave(entry, 'duplicate');
      continue;
    }
    const step = stepOf(message.instance, entry, iterative);
    const whole = isWhole(entry);
    const decision = slots.take(step, { whole, admits: parts.admits }, nowUs());
    if (decision.type === 'replay') replay(entry, decision.answer);
    else if (decision.type === 'refuse') refuse(entry, decision.error);
    else if (decision.type === 'leave') leave(entry, decision.result);
    else if (whole) {
      entries.push(entry);
      steps.push(step);
    }
  }

  const over = (position: number, end: StepEnd) => {
    const step = steps[position];
    return step === undefined ? undefined : slots.over(step, end, nowUs());
  };

  const nameOf = (position: number) => {
    const step = steps[position];
    return iterative && step !== undefined ? iterativeExecution(mailbox().id, step.session) : execution;
  };

  const ends = (position: number) => iterative || entries[position]?.request.sequenceEnd === true;

  return {
    entries,
    leftOut,
    slots: steps.map(({ slot }) => slot),
    execution: nameOf,
    firstChunk: (position) => slots.nextChunk(steps[position]?.session ?? ''),
    ends,
    outlivesSender: ({ step }) => step !== undefined && step.number >= 0,
    sent: answers.add,
    unanswered(position, settlement, nextChunk) {
      if (settlement?.lost !== undefined) return over(position, { type: settlement.lost });
      const outcome = settlement?.outcomes[position];
      if (outcome?.ok !== true || outcome.again !== true) return undefined;
      return over(position, { type: 'again', nextChunk });
    },
    answered(position, cancelled) {
      over(
        position,
        cancelled
          ? { type: 'cancelled' }
          : { type: 'applied', ends: ends(position), answer: answers.take(position, nameOf(position)) },
      );
    },
  };
}

export function iterativeExecution(worker: ProcessId, session: string): string {
  return `${worker}/${session}`;
}

function stepOf(instance: number, entry: ExecuteEntry, iterative: boolean): Step {
  const { id, request, session, slot, step } = entry;
  return {
    id,
    sender: senderOf(id),
    session: session ?? '',
    // Of a request that is a sequence by itself, as its owner names it.
    correlationId: iterative ? (session ?? '') : request.correlationId,
    start: request.sequenceStart,
    instance,
    slot: session === null ? -1 : slot,
    order: step ?? NO_STEP,
  };
}

interface Collected {
  readonly parts: AnswerPart[];
  bytes: number;
}

/** What has been sent of each answer, as it is kept. Of one that is larger than all that is kept nothing is. */
function createCollectedAnswers(bytes_max: number) {
  const answers = new Map<number, Collected>();
  return {
    add(position: number, response: ResponseMessage) {
      const { outcome, chunk, last } = response;
      if (!isWholeOutcome(outcome)) return;
      const answer = answers.get(position) ?? { parts: [], bytes: 0 };
      answers.set(position, answer);
      answer.bytes += messageBytes(response);
      if (answer.bytes > bytes_max) answer.parts.length = 0;
      else answer.parts.push({ outcome: ownOutcome(outcome), chunk, last });
    },
    take(position: number, execution: string): StepAnswer | undefined {
      const answer = answers.get(position);
      return answer === undefined || answer.parts.length === 0 ? undefined : { execution, ...answer };
    },
  };
}

/** With copies of its tensors: others may write to those that were sent, and a view of a batch's outputs would keep all of them. */
function ownOutcome(outcome: Outcome): Outcome {
  if (!outcome.ok) return outcome;
  const { response } = outcome;
  const outputs = response.outputs.map((tensor) => ({ ...tensor, data: new Uint8Array(tensor.data) }));
  return { ok: true, response: { ...response, outputs } };
}
