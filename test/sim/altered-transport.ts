/** What a role sends and hears, changed on the way: how rules of docs/protocol.md are taken out from outside of the roles. */
import type { Message, ProcessId } from '@nereid/protocol';
import type { Mailbox, Transport } from '@nereid/transport';

export interface Alterations {
  readonly received: (message: Message) => readonly Message[];
  /** Undefined where nothing is to be sent. */
  readonly sent: (message: Message, to: ProcessId) => Message | undefined;
}

/**
 * A transport whose mailboxes see other messages than those that come, and send others than they are told to; `hand`
 * gives the role one that never came.
 */
export function altered(
  transport: Transport,
  alter: (mailbox: Mailbox, hand: (message: Message) => void) => Alterations,
): Transport {
  return {
    ...transport,
    open(id, receive) {
      const mailbox: Mailbox = transport.open(id, (messages) => {
        const seen = messages.flatMap((message) => alterations.received(message));
        if (seen.length > 0) receive(seen);
      });
      const alterations = alter(mailbox, (message) => receive([message]));
      return {
        ...mailbox,
        send(to, message, refused) {
          const sent = alterations.sent(message, to);
          if (sent !== undefined) mailbox.send(to, sent, refused);
        },
      };
    },
  };
}

export const UNALTERED = (message: Message): Message => message;
