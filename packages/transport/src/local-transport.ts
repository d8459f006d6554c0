import { type Message, NereidError, type ProcessId } from '@nereid/protocol';
import type { Mailbox, MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
import { messageBytes } from './message-bytes.ts';

/** The receiving side of one mailbox. */
interface Inbox {
  readonly receive: (messages: readonly Message[]) => void;
  unread: Message[];
  unreadBytes: number;
}

/**
 * Mailboxes within one process: a message is passed by reference and delivered, with all others
 * that were sent meanwhile, in one microtask. So a burst is handled in one call, and nobody is
 * called from inside `send`.
 *
 * An inbox is *idle* while nothing is unread, *due* from the first unread message until its
 * microtask has handed all to the receiver, and *closed* once removed; a due microtask then finds
 * nothing to hand over.
 */
export function createLocalTransport(limits: MailboxLimits): Transport {
  const inboxes = new Map<ProcessId, Inbox>();

  const deliver = (inbox: Inbox) => {
    const messages = inbox.unread;
    inbox.unread = [];
    inbox.unreadBytes = 0;
    if (messages.length > 0) inbox.receive(messages);
  };

  const put = (to: ProcessId, message: Message): RefusalReason | undefined => {
    const inbox = inboxes.get(to);
    if (inbox === undefined) return 'gone';
    const bytes = messageBytes(message);
    // One message over the byte limit still goes into an empty mailbox, else it could never be sent.
    const overBytes = inbox.unreadBytes + bytes > limits.bytes_max && inbox.unread.length > 0;
    if (inbox.unread.length >= limits.messages_max || overBytes) return 'full';
    inbox.unreadBytes += bytes;
    if (inbox.unread.push(message) === 1) queueMicrotask(() => deliver(inbox));
    return undefined;
  };

  const drop = (id: ProcessId, inbox: Inbox) => {
    if (inboxes.get(id) !== inbox) return;
    inboxes.delete(id);
    inbox.unread = [];
    inbox.unreadBytes = 0;
  };

  return {
    open(id, receive): Mailbox {
      if (inboxes.has(id)) throw new NereidError('INTERNAL', `mailbox ${id} is open already`);
      const inbox: Inbox = { receive, unread: [], unreadBytes: 0 };
      inboxes.set(id, inbox);
      return {
        id,
        send(to, message, refused) {
          const reason = inboxes.get(id) === inbox ? put(to, message) : 'gone';
          if (reason !== undefined && refused !== undefined) queueMicrotask(() => refused(reason));
        },
        async close() {
          drop(id, inbox);
        },
      };
    },
    onInterruption: () => () => {},
    async close() {
      for (const [id, inbox] of inboxes) drop(id, inbox);
    },
  };
}
