import {
  ANSWER_REFUSED,
  CANCELLED,
  type CarriedOutcome,
  type CarriedRequest,
  type CarriedTensor,
  type ErrorInfo,
  isBlobTensor,
  isRefused,
  isWholeOutcome,
  type MovedMessage,
  type ResponseMessage,
  SEQUENCE_TIMEOUT,
  sequenceLost,
} from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';
import type { Pending, PendingRequest } from './pending.ts';
import {
  type Chain,
  type ChainedStep,
  isHeld,
  isUnfinished,
  joinChain,
  leaveChain,
  movedStep,
  type StepEnd,
  stepBefore,
} from './sequence-chain.ts';
import { createSequenceChains } from './sequence-chains.ts';
import { hasBegun } from './streams.ts';

/** Inputs of numbered steps whose callers have left; one more is cancelled as any other step. */
const LEFT_BYTES_MAX = 268_435_456;

/** A pending request that is a step of a sequence. */
export interface SequenceStep extends ChainedStep {
  readonly chain: Chain<SequenceStep>;
  /** What came while it was held, to be handed out in its turn. */
  readonly answers: ResponseMessage[];
  /** What its execution gave as the last: whatever that is, the step took effect. */
  executed: CarriedOutcome | undefined;
  /** It is sent again in its turn: its owner did not know its session, or has it wait for a step that will not come. */
  repeat: boolean;
  /** It never left this process. */
  unsent: boolean;
  /** Its owner needs not be told that its session is over. */
  told: boolean;
  /** Its caller has left, and it goes on: the bytes of its inputs. */
  leftBytes: number;
}

export interface SequenceStepsParts {
  readonly pending: Pending;
  readonly mailbox: Mailbox;
  /** Answers kept of a step that is held. */
  readonly held_answers_max: number;
  /** See CallerParts. */
  readonly carries: boolean;
  /** Sends it to the owner known now; what has none is left to the sweep. */
  readonly sendAgain: (request: PendingRequest) => void;
  /** Takes an answer that was held. */
  readonly response: (message: ResponseMessage) => void;
  /** An answer that nobody gets. */
  readonly unwanted: (outcome: CarriedOutcome) => void;
}

/**
 * Steps of sequences at their gateway: sequence-chain.ts says what becomes of them, this does it.
 *
 * An answer that is a model's, an error too, leaves the sequence as it is. Every other failure (of an owner, of this
 * gateway, of a caller who left) ends it: later steps fail, and the owner is told unless it said so itself (R19).
 */
export interface SequenceSteps {
  join(request: CarriedRequest, token: { readonly id: string; readonly g: number }): SequenceStep;
  /** True where the answer has to wait for its turn. */
  holds(step: SequenceStep, message: ResponseMessage): boolean;
  moved(request: PendingRequest, step: SequenceStep, message: MovedMessage): void;
  /** Its caller has left. True where it goes on all the same: a numbered step is asked for again, of this gateway or another. */
  outlivesCaller(request: PendingRequest, step: SequenceStep): boolean;
  /** It has its outcome. */
  settled(request: PendingRequest, step: SequenceStep, outcome: CarriedOutcome): void;
}

/** What its message says of a step at each send. */
export function stepPlace(step: SequenceStep): { readonly session: string | null; readonly prev: number } {
  return { session: step.session, prev: stepBefore(step.chain, step) };
}

export function createSequenceSteps(parts: SequenceStepsParts): SequenceSteps {
  const { pending, mailbox } = parts;
  const chains = createSequenceChains<SequenceStep>();
  /** Those whose turn has come, in order: handing out one may release the next. */
  const ready: SequenceStep[] = [];
  let handingOut = false;
  let leftBytes = 0;

  const tellClosed = ({ message }: PendingRequest, session: string) => {
    const { model, epoch, id, g } = message;
    mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id, g, low: pending.low, session });
  };

  const again = (step: SequenceStep) => {
    const request = pending.find(step.id);
    if (request !== undefined) parts.sendAgain(request);
  };

  const handOut = () => {
    if (handingOut) return;
    handingOut = true;
    for (let step = ready.shift(); step !== undefined; step = ready.shift()) {
      const answers = step.answers.splice(0);
      for (const message of answers) parts.response(message);
      if (answers.length === 0 && step.repeat) again(step);
    }
    handingOut = false;
  };

  /** Those that end with another: what becomes of the chain is settled with that one. */
  const fail = (steps: readonly SequenceStep[], cause: ErrorInfo) => {
    for (const { chain, id } of steps) pending.settle(id, { ok: false, error: afterFailure(chain, cause) });
  };

  return {
    join(request, { id, g }) {
      const chain = chains.take(request.modelName, request.correlationId);
      const { sequenceStart: start, sequenceEnd: end, sequenceStep: number = -1 } = request;
      const step: SequenceStep = {
        ...{ chain, id, g, start, end, number, session: null, sends: 0 },
        ...{ answers: [], executed: undefined, repeat: false, unsent: false, told: false, leftBytes: 0 },
      };
      joinChain(chain, step);
      return step;
    },

    holds(step, message) {
      if (isHeld(step.chain, step)) {
        // A stream misses one that is left out, and breaks off at it.
        if (step.answers.length < parts.held_answers_max) step.answers.push(message);
        else parts.unwanted(message.outcome);
        return true;
      }
      const { outcome } = message;
      if (message.last && !isRefused(message) && (parts.carries || isWholeOutcome(outcome))) step.executed = outcome;
      return false;
    },

    moved(request, step, { sent, current }) {
      if (hasBegun(request) || step.session !== sent) return;
      if (isHeld(step.chain, step)) {
        // Its START may not have come there yet, or the answer of the step that ended the session is on its way.
        step.repeat = true;
        return;
      }
      const verdict = movedStep(step.chain, step, sent, current);
      if (verdict.type === 'adopt') verdict.steps.forEach(again);
      else if (verdict.type === 'fail') {
        step.told = true;
        if (verdict.close !== null) tellClosed(request, verdict.close);
        pending.settle(step.id, { ok: false, error: verdict.error });
      }
    },

    outlivesCaller({ message, stream }, step) {
      if (step.number < 0 || stream !== undefined) return false;
      const bytes = message.request.inputs.reduce((sum, tensor) => sum + bytesHere(tensor), 0);
      if (leftBytes + bytes > LEFT_BYTES_MAX) return false;
      step.leftBytes = bytes;
      leftBytes += bytes;
      return true;
    },

    settled(request, step, outcome) {
      const { chain } = step;
      leftBytes -= step.leftBytes;
      for (const message of step.answers.splice(0)) parts.unwanted(message.outcome);
      // It failed with an earlier one.
      if (!isUnfinished(chain, step)) return;
      const end = stepEnd(step, outcome);
      const { failed, released, again: repeats } = leaveChain(chain, step, end);
      if (!outcome.ok) fail(failed, outcome.error);
      const { session, sends } = request.message;
      if (end === 'closed' && step.number < 0 && !step.told && sends > 0 && session !== null)
        tellClosed(request, session);
      chains.left(chain);
      if (released !== undefined) {
        if (repeats) released.repeat = true;
        ready.push(released);
      }
      handOut();
    },
  };
}

function bytesHere(tensor: CarriedTensor): number {
  return isBlobTensor(tensor) ? 0 : tensor.data.byteLength;
}

function stepEnd(step: SequenceStep, outcome: CarriedOutcome): StepEnd {
  if (outcome.ok) return 'done';
  const { code, reason, message } = outcome.error;
  if (code === 'CANCELLED') return 'closed';
  if (reason === 'step_gap' || reason === 'answer_expired') return 'done';
  if (step.unsent && !step.start && step.chain.unfinished.at(-1) === step) return 'done';
  // What it did is done, but nobody has its answer.
  if (message === ANSWER_REFUSED.message || reason === 'sequence_lost') return 'closed';
  return outcome === step.executed ? 'done' : 'closed';
}

/** Of a step behind one that failed; a cancel, and a time-out in the backlog, are those of all, as in Triton (sequence_batch_scheduler.cc). */
function afterFailure({ model, correlationId }: Chain, { code, message }: ErrorInfo): ErrorInfo {
  if (message === SEQUENCE_TIMEOUT.message) return SEQUENCE_TIMEOUT;
  const lost = sequenceLost(model, correlationId);
  return code === 'CANCELLED' ? { ...CANCELLED, reason: 'sequence_lost' } : lost;
}
