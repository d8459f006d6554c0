/** Answers of steps that may be asked for again (docs/protocol.md R20, R22): a window for each sequence, one bound over all. */
import type { Outcome, ProcessId } from '@nereid/protocol';

/** An answer as it was sent: its parts in order, under the execution that gave them. */
export interface StepAnswer {
  readonly execution: string;
  readonly parts: readonly AnswerPart[];
  readonly bytes: number;
}

/** Holds bytes and never references to what others may delete. */
export interface AnswerPart {
  readonly outcome: Outcome;
  readonly chunk: number;
  readonly last: boolean;
}

export interface KeptStep {
  readonly sender: ProcessId;
  readonly g: number;
  /** Its place in the sequence, from 0. */
  readonly number: number;
  /** Its client numbers its steps, and may ask for this one by its number whatever its sender thinks of it. */
  readonly numbered: boolean;
  readonly answer: StepAnswer;
}

/** The last answers of one sequence. */
export interface AnswerWindow {
  keep(step: KeptStep): void;
  /** The sender waits for none below `low` any more: only those that its client numbers may be asked for again. */
  passed(sender: ProcessId, low: number): void;
  bySender(sender: ProcessId, g: number): StepAnswer | undefined;
  byNumber(number: number): StepAnswer | undefined;
  clear(): void;
}

export interface KeptAnswers {
  window(): AnswerWindow;
  /** Of all windows. */
  readonly bytes: number;
}

export interface KeptAnswersLimits {
  readonly sequence_answers_max: number;
  readonly sequence_answers_waited_max: number;
  readonly sequence_answer_bytes_max: number;
}

/** Of all windows, however small they are. */
const ANSWERS_MAX = 262_144;

/**
 * Beyond a bound the oldest goes, first of its window, then of all. One that is larger than the bound by itself is not
 * kept. A sender that is slow, or was told of nothing for a while, may have sent very many steps before it reads the
 * first answer: what it is not known to have is bounded apart from what it has.
 */
export function createKeptAnswers(limits: KeptAnswersLimits): KeptAnswers {
  /** In order of their arrival, each with how to drop it from its window. */
  const all = new Map<KeptStep, (step: KeptStep) => void>();
  let bytes = 0;

  const dropOldest = () => {
    for (const [step, drop] of all) {
      drop(step);
      return;
    }
  };

  const createWindow = (): AnswerWindow => {
    const kept = new Set<KeptStep>();
    /** Of these, those that their senders have. */
    const had = new Set<KeptStep>();

    const drop = (step: KeptStep) => {
      kept.delete(step);
      had.delete(step);
      if (all.delete(step)) bytes -= step.answer.bytes;
    };

    const dropBeyond = (steps: ReadonlySet<KeptStep>, most: number) => {
      for (const oldest of steps) {
        if (steps.size <= most) return;
        drop(oldest);
      }
    };

    const find = (wanted: (step: KeptStep) => boolean) => {
      for (const step of kept) if (wanted(step)) return step.answer;
      return undefined;
    };

    return {
      keep(step) {
        if (step.answer.bytes > limits.sequence_answer_bytes_max) return;
        kept.add(step);
        all.set(step, drop);
        bytes += step.answer.bytes;
        dropBeyond(kept, limits.sequence_answers_waited_max);
        while (bytes > limits.sequence_answer_bytes_max || all.size > ANSWERS_MAX) dropOldest();
      },
      passed(sender, low) {
        for (const step of kept) {
          if (step.sender !== sender || step.g >= low) continue;
          if (step.numbered) had.add(step);
          else drop(step);
        }
        dropBeyond(had, limits.sequence_answers_max);
      },
      bySender: (sender, g) => find((step) => step.sender === sender && step.g === g),
      byNumber: (number) => find((step) => step.number === number),
      clear() {
        for (const step of kept) drop(step);
      },
    };
  };

  return {
    window: createWindow,
    get bytes() {
      return bytes;
    },
  };
}
