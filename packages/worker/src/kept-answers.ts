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
  /** The sender waits for none below `low` any more. */
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
  readonly sequence_answer_bytes_max: number;
}

/** Beyond a bound the oldest goes, first of its window, then of all. One that is larger than the bound by itself is not kept. */
export function createKeptAnswers(limits: KeptAnswersLimits): KeptAnswers {
  /** In order of their arrival, each with the window that has it. */
  const all = new Map<KeptStep, KeptStep[]>();
  let bytes = 0;

  const forget = (step: KeptStep) => {
    if (all.delete(step)) bytes -= step.answer.bytes;
  };

  const forgetOldest = () => {
    for (const [step, window] of all) {
      window.splice(window.indexOf(step), 1);
      forget(step);
      return;
    }
  };

  return {
    window() {
      const kept: KeptStep[] = [];
      return {
        keep(step) {
          if (step.answer.bytes > limits.sequence_answer_bytes_max) return;
          kept.push(step);
          all.set(step, kept);
          bytes += step.answer.bytes;
          if (kept.length > limits.sequence_answers_max) for (const oldest of kept.splice(0, 1)) forget(oldest);
          while (bytes > limits.sequence_answer_bytes_max) forgetOldest();
        },
        passed(sender, low) {
          for (let i = kept.length - 1; i >= 0; i--) {
            const step = kept[i];
            if (step === undefined || step.numbered || step.sender !== sender || step.g >= low) continue;
            kept.splice(i, 1);
            forget(step);
          }
        },
        bySender: (sender, g) => kept.find((step) => step.sender === sender && step.g === g)?.answer,
        byNumber: (number) => kept.find((step) => step.number === number)?.answer,
        clear() {
          for (const step of kept.splice(0)) forget(step);
        },
      };
    },
    get bytes() {
      return bytes;
    },
  };
}
