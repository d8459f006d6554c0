/**
 * Whose an answer is. What a model gives, errors too, is an execution's: its worker names it. What an owner answers in a
 * worker's place has a name that no execution has, so that a gateway never takes it for a chunk of one, and knows that an
 * error of it ends the request's sequence, which a model's own error does not (docs/protocol.md R19).
 */
import type { ProcessId, ResponseMessage } from './message.ts';

const REFUSED = '/refused';

/** The `execution` of what an owner answers itself. */
export function refusedExecution(owner: ProcessId): string {
  return owner + REFUSED;
}

/** Whether an owner answered, and no execution. */
export function isRefused({ execution }: Pick<ResponseMessage, 'execution'>): boolean {
  return execution.endsWith(REFUSED);
}
