import { decodeMessage, encodeMessage, type Message } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import { createLocalTransport } from './local-transport.ts';
import type { MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
import { mailboxContract } from './mailbox-contract.ts';
import { sampleInfer } from './sample-messages.ts';

/** The local transport with every message sent as a frame, as between processes: the two forms cannot drift apart. */
function createEncodedTransport(limits: MailboxLimits): Transport {
  const transport = createLocalTransport(limits);
  return {
    open(id, receive) {
      const mailbox = transport.open(id, receive);
      return {
        ...mailbox,
        send: (to, message, refused) => mailbox.send(to, decodeMessage(encodeMessage(message)), refused),
      };
    },
    onInterruption: (listener) => transport.onInterruption(listener),
    close: () => transport.close(),
  };
}

mailboxContract('local', createLocalTransport);
mailboxContract('local, through the codec', createEncodedTransport);

const stale: Message = { kind: 'stale', model: 'm', id: '1', known: null };

/** Sends all in one go and says, in order, what became of each. */
async function burst(limits: { messages_max: number; bytes_max: number }, messages: readonly Message[]) {
  const transport = createLocalTransport(limits);
  const outcomes: ('delivered' | RefusalReason)[] = messages.map(() => 'delivered');
  let received = 0;
  const from = transport.open('a', () => {});
  transport.open('b', (got) => {
    received += got.length;
  });
  for (const [index, message] of messages.entries()) {
    from.send('b', message, (reason) => {
      outcomes[index] = reason;
    });
  }
  await new Promise((resolve) => setImmediate(resolve));
  expect(received).toBe(outcomes.filter((outcome) => outcome === 'delivered').length);
  return outcomes;
}

describe('local transport', () => {
  test('takes exactly as many messages as the limit says', async () => {
    const outcomes = await burst({ messages_max: 2, bytes_max: 1_000_000 }, [stale, stale, stale, stale]);
    expect(outcomes).toEqual(['delivered', 'delivered', 'full', 'full']);
  });

  test('bounds the bytes of tensors; a small message still fits', async () => {
    const outcomes = await burst({ messages_max: 100, bytes_max: 10_000 }, [
      sampleInfer(6_000),
      sampleInfer(6_000),
      stale,
    ]);
    expect(outcomes).toEqual(['delivered', 'full', 'delivered']);
  });

  test('one message over the byte limit goes into an empty mailbox', async () => {
    const outcomes = await burst({ messages_max: 100, bytes_max: 10_000 }, [sampleInfer(20_000), stale]);
    expect(outcomes).toEqual(['delivered', 'full']);
  });

  test('room for bytes comes back with each delivery', async () => {
    const transport = createLocalTransport({ messages_max: 100, bytes_max: 10_000 });
    let received = 0;
    transport.open('b', (messages) => {
      received += messages.length;
    });
    const from = transport.open('a', () => {});
    for (let round = 0; round < 3; round++) {
      from.send('b', stale);
      from.send('b', sampleInfer(6_000));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(received).toBe(6);
  });

  test('passes messages by reference', async () => {
    const transport = createLocalTransport({ messages_max: 10, bytes_max: 10_000 });
    const got = new Promise<Message | undefined>((resolve) => {
      transport.open('b', ([message]) => resolve(message));
    });
    transport.open('a', () => {}).send('b', stale);
    expect(await got).toBe(stale);
  });

  test('what is unread when a mailbox closes is dropped; nothing is sent from a closed one', async () => {
    const transport = createLocalTransport({ messages_max: 10, bytes_max: 10_000 });
    let received = 0;
    const from = transport.open('a', () => {});
    const box = transport.open('b', () => {
      received++;
    });
    from.send('b', stale);
    await box.close();
    expect(await new Promise((resolve) => box.send('a', stale, resolve))).toBe('gone');
    expect(received).toBe(0);
  });
});
