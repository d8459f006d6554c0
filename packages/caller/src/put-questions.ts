/** Asks workers to put down elsewhere what they keep (docs/protocol.md R40). */
import type { ModelRecord } from '@nereid/config';
import type { BlobRef, KeptMessage, ProcessId, PutMessage } from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { ResendTimes } from './resend.ts';

export interface PutQuestionsParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Pick<Directory<ModelRecord>, 'processes'>;
  readonly times: Pick<ResendTimes, 'resend_ms' | 'ownerless_wait_ms'>;
}

/**
 * A question is asked again until it is answered. The keeper is gone where its mailbox is, where it is not registered
 * any more, and where it has not answered for as long as a request waits for an owner.
 */
export interface PutQuestions {
  /** Resolves with what there is now of each; those that are not in it are lost. Of one worker; never rejects. */
  ask(
    keeper: ProcessId,
    model: string,
    action: 'put' | 'rewrite',
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, BlobRef>>;
  /** False where nobody waits for the answer. */
  take(message: PutMessage): boolean;
  /** Answers all with nothing. */
  close(): void;
}

interface Question {
  readonly resolve: (found: ReadonlyMap<string, BlobRef>) => void;
  timer: Timer | undefined;
}

const NOTHING: ReadonlyMap<string, BlobRef> = new Map();

export function createPutQuestions(parts: PutQuestionsParts): PutQuestions {
  const { id: replyTo, clock, mailbox, directory, times } = parts;
  const open = new Map<string, Question>();
  let asked = 0;

  const end = (id: string, found: ReadonlyMap<string, BlobRef>): boolean => {
    const question = open.get(id);
    if (question === undefined) return false;
    open.delete(id);
    question.timer?.cancel();
    question.resolve(found);
    return true;
  };

  const send = (keeper: ProcessId, message: KeptMessage, untilUs: number) => {
    const question = open.get(message.id);
    if (question === undefined) return;
    const isThere = directory.processes('worker').some(({ id }) => id === keeper);
    if (!isThere || clock.nowUs() >= untilUs) {
      end(message.id, NOTHING);
      return;
    }
    question.timer = clock.at(clock.nowUs() + times.resend_ms * 1000, () => send(keeper, message, untilUs));
    // A full mailbox has room by the next time.
    mailbox.send(keeper, message, (reason) => {
      if (reason === 'gone') end(message.id, NOTHING);
    });
  };

  return {
    ask(keeper, model, action, ids) {
      const message: KeptMessage = { kind: 'kept', model, id: `${replyTo}:p${++asked}`, action, ids, replyTo };
      return new Promise((resolve) => {
        open.set(message.id, { resolve, timer: undefined });
        send(keeper, message, clock.nowUs() + times.ownerless_wait_ms * 1000);
      });
    },
    take({ id, tensors }) {
      return end(id, new Map(tensors.flatMap(({ id: of, blob }) => (blob === null ? [] : [[of, blob]]))));
    },
    close() {
      for (const id of [...open.keys()]) end(id, NOTHING);
    },
  };
}
