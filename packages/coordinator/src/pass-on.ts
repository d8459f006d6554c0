import { ANSWER_REFUSED, isAnswerFor, type ProcessId, type ResponseMessage, senderOf } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';
import type { JobIntake } from './job-intake.ts';

/**
 * Hands an answer that came through its model's owner to whoever sent the request: a gateway, or the
 * jobs of this process. `undelivered`: a part of an answer was not taken, so the rest is for nobody.
 */
export type PassOn = (message: ResponseMessage, undelivered?: () => void) => void;

export function createPassOn(mailbox: Mailbox, jobs: () => Pick<JobIntake, 'response'> | undefined): PassOn {
  return (message, undelivered) => {
    if (isAnswerFor(message.id, mailbox.id)) {
      // In a turn of its own, as by a mailbox: it may lead to the next request.
      queueMicrotask(() => jobs()?.response(message));
      return;
    }
    const to: ProcessId = senderOf(message.id);
    mailbox.send(to, message, (reason) => {
      if (!message.last) undelivered?.();
      // As a worker does it (worker/batch-answers): on the local lane nobody would ask again.
      else if (reason === 'full') mailbox.send(to, { ...message, outcome: { ok: false, error: ANSWER_REFUSED } });
    });
  };
}
