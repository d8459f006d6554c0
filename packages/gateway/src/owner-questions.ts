import type { ModelLookups } from '@nereid/caller';
import type { ModelRecord } from '@nereid/config';
import { compareEpochs, type Epoch, type Message, type ProcessId, type StaleMessage } from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';

/** A question is put again after this: it or its answer may be lost. */
const AGAIN_MS = 500;
/** The same where nobody owns the model now, or the one asked does not know yet. */
const OWNERLESS_AGAIN_MS = 100;

/** The messages that answer a question. */
export type OwnerAnswer = Extract<Message, { readonly kind: 'counted' | 'listed' | 'placed' }>;

/** What became of a question: nobody told in time, and the model has no READY version any more. */
export type Answered = OwnerAnswer | 'silent' | 'gone';

/** What gateways ask owners of models, beside requests. */
export interface OwnerQuestions {
  /**
   * Puts what `message` makes to the model's owner, again and again until it is answered or its time is over. Never
   * rejects. `unready`: also of a model without a READY version.
   */
  ask(
    model: string,
    untilUs: number,
    message: (epoch: Epoch, id: string) => Message,
    unready?: boolean,
  ): Promise<Answered>;
  answered(message: OwnerAnswer): void;
  /** Whether it answers one of these questions, no longer or not yet to be answered there. */
  stale(message: StaleMessage): boolean;
  /** Ends all that waits. */
  close(): void;
  readonly closed: boolean;
}

export interface OwnerQuestionsParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: Pick<ModelLookups, 'find'>;
}

interface Question {
  readonly model: string;
  readonly untilUs: number;
  readonly message: (epoch: Epoch, id: string) => Message;
  /** It is put whether or not the model has a version that is ready. */
  readonly unready: boolean;
  /** Of all its copies to one owner. */
  id: string;
  /** Under which it was asked last. */
  epoch: Epoch | undefined;
  timer: Timer | undefined;
  readonly resolve: (answer: Answered) => void;
}

export function createOwnerQuestions(parts: OwnerQuestionsParts): OwnerQuestions {
  const { clock, mailbox, directory, models } = parts;
  const questions = new Map<string, Question>();
  let ids = 0;
  let closed = false;

  const nextId = () => `${parts.id}:c${++ids}`;

  const end = (question: Question, answer: Answered) => {
    questions.delete(question.id);
    question.timer?.cancel();
    question.resolve(answer);
  };

  const put = (question: Question) => {
    const { model, untilUs } = question;
    if (closed || clock.nowUs() >= untilUs) {
      end(question, 'silent');
      return;
    }
    // Unloaded meanwhile.
    if (!question.unready && !models.find(model, '').ok) {
      end(question, 'gone');
      return;
    }
    const epoch = directory.owner(model);
    if (epoch !== undefined) {
      address(question, epoch);
      mailbox.send(epoch.owner, question.message(epoch, question.id));
    }
    putAgain(question, epoch === undefined ? OWNERLESS_AGAIN_MS : AGAIN_MS);
  };

  /** A new owner gets it under a new id: what the one before still answers is an older truth. */
  const address = (question: Question, epoch: Epoch) => {
    if (question.epoch !== undefined && compareEpochs(question.epoch, epoch) !== 0) {
      questions.delete(question.id);
      question.id = nextId();
      questions.set(question.id, question);
    }
    question.epoch = epoch;
  };

  const putAgain = (question: Question, afterMs: number) => {
    question.timer?.cancel();
    const atUs = Math.min(clock.nowUs() + afterMs * 1000, question.untilUs);
    question.timer = clock.at(atUs, () => put(question));
  };

  return {
    ask(model, untilUs, message, unready = false) {
      return new Promise((resolve) => {
        const question = {
          model,
          untilUs,
          message,
          unready,
          id: nextId(),
          epoch: undefined,
          timer: undefined,
          resolve,
        };
        questions.set(question.id, question);
        put(question);
      });
    },
    answered(message) {
      const question = questions.get(message.id);
      if (question !== undefined) end(question, message);
    },
    stale({ id }) {
      const question = questions.get(id);
      if (question !== undefined) putAgain(question, OWNERLESS_AGAIN_MS);
      return question !== undefined;
    },
    close() {
      closed = true;
      for (const question of [...questions.values()]) end(question, 'silent');
    },
    get closed() {
      return closed;
    },
  };
}
