import type { Mailbox, Transport } from './mailbox.ts';
import type { RedisTransport } from './redis-transport.ts';

/**
 * Mailboxes of a process that is part of a cluster and runs several roles: a message to a mailbox of
 * this process is passed by reference, any other goes through `remote`. Each mailbox is open on
 * both, so that other processes reach it. What a role here passes on by reference may have come from
 * another process without its data, which are then fetched on the way.
 */
export function createCombinedTransport(local: Transport, remote: RedisTransport): Transport {
  const here = new Set<string>();
  return {
    open(id, receive, options): Mailbox {
      const collect = remote.collector(id, receive, options);
      const near = local.open(id, (messages) => void collect(messages));
      const far = remote.open(id, receive, options);
      here.add(id);
      return {
        id,
        // What it sends to itself comes behind what others have sent to it.
        send: (to, message, refused) => (to !== id && here.has(to) ? near : far).send(to, message, refused),
        async close() {
          here.delete(id);
          await near.close();
          await far.close();
        },
      };
    },
    largeTensors: remote.largeTensors,
    onInterruption: (listener) => remote.onInterruption(listener),
    async close() {
      here.clear();
      await local.close();
      await remote.close();
    },
  };
}
