/** A gateway for simulations: sends requests, gives up on some, sends some twice, and keeps each outcome. */
import type { ModelRecord } from '@nereid/config';
import type { CarriedOutcome, InferMessage, InferRequest, ProcessId } from '@nereid/protocol';
import type { Directory, Mailbox, Transport } from '@nereid/transport';

export interface SimSent {
  readonly message: InferMessage;
  sends: number;
  /** Nobody waits any more. */
  cancelled: boolean;
  readonly outcomes: CarriedOutcome[];
}

export interface SimGateway {
  readonly sent: ReadonlyMap<string, SimSent>;
  send(request: InferRequest, msLeft: number): string;
  /** Sends the same message once more, if it has no outcome yet. */
  resend(id: string): void;
  cancel(id: string): void;
  /** Requests that somebody still waits for. */
  readonly waiting: number;
}

export function createSimGateway(id: ProcessId, transport: Transport, directory: Directory<ModelRecord>): SimGateway {
  const sent = new Map<string, SimSent>();
  const mailbox: Mailbox = transport.open(id, (messages) => {
    for (const message of messages) {
      if (message.kind !== 'response') throw new Error(`${id} got ${message.kind}`);
      sent.get(message.id)?.outcomes.push(message.outcome);
    }
  });
  const epochOf = (model: string) => {
    const epoch = directory.owner(model);
    if (epoch === undefined) throw new Error(`nobody owns ${model}`);
    return epoch;
  };
  return {
    sent,
    send(request, msLeft) {
      const g = sent.size + 1;
      const epoch = epochOf(request.modelName);
      const message: InferMessage = {
        kind: 'infer',
        model: request.modelName,
        epoch,
        id: `${id}:${g}`,
        g,
        low: 1,
        prev: 0,
        session: null,
        step: -1,
        sends: 1,
        msLeft,
        replyTo: id,
        request,
      };
      sent.set(message.id, { message, sends: 1, cancelled: false, outcomes: [] });
      mailbox.send(epoch.owner, message);
      return message.id;
    },
    resend(requestId) {
      const entry = sent.get(requestId);
      if (entry === undefined || entry.outcomes.length > 0) return;
      entry.sends++;
      mailbox.send(entry.message.epoch.owner, { ...entry.message, sends: entry.sends });
    },
    cancel(requestId) {
      const entry = sent.get(requestId);
      if (entry === undefined || entry.outcomes.length > 0) return;
      entry.cancelled = true;
      const { model, epoch, g } = entry.message;
      mailbox.send(epoch.owner, { kind: 'cancel', model, epoch, id: requestId, g, low: 1, session: null });
    },
    get waiting() {
      return [...sent.values()].filter(({ outcomes, cancelled }) => outcomes.length === 0 && !cancelled).length;
    },
  };
}
