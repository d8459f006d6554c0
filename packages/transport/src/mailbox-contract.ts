/** The suite that every transport passes: local, Redis, and any wrapper around one. */
import type { Message } from '@nereid/protocol';
import { afterEach, describe, expect, test } from 'vitest';
import type { MailboxLimits, RefusalReason, Transport } from './mailbox.ts';
import { withTensors } from './message-tensors.ts';
import { sampleMessages } from './sample-messages.ts';

export type MakeTransport = (limits: MailboxLimits) => Transport | Promise<Transport>;

const ROOMY: MailboxLimits = { messages_max: 65_536, bytes_max: 1_073_741_824 };

/** A receiver that says when it has got so many messages. */
interface Collector {
  readonly messages: Message[];
  /** Calls of `receive` so far. */
  calls: number;
  readonly receive: (messages: readonly Message[]) => void;
  got(count: number): Promise<readonly Message[]>;
}

function collector(): Collector {
  const waits: { count: number; resolve: () => void }[] = [];
  const self: Collector = {
    messages: [],
    calls: 0,
    receive(messages) {
      self.calls++;
      self.messages.push(...messages);
      for (const wait of waits) if (self.messages.length >= wait.count) wait.resolve();
    },
    async got(count) {
      if (self.messages.length < count) {
        await new Promise<void>((resolve) => waits.push({ count, resolve }));
      }
      return self.messages;
    },
  };
  return self;
}

/** Above what a lane sends within its frames. */
const LARGE_BYTES = 50_000;

const stale = (id: string): Message => ({ kind: 'stale', model: 'm', id, known: null });

const ids = (messages: readonly Message[]) => messages.map((message) => ('id' in message ? message.id : message.kind));

/** A request on its way to its owner, and an answer to another's request, may name tensors instead of holding them. */
function withoutRefs(message: Message): Message {
  if (message.kind !== 'infer' && message.kind !== 'response') return message;
  return withTensors(message, ({ name, datatype, shape, ...where }) => {
    const bytes = 'blob' in where ? where.blob.bytes : where.data.byteLength;
    return { name, datatype, shape, blob: { place: 'redis', id: '', bytes } };
  });
}

export function mailboxContract(name: string, makeTransport: MakeTransport): void {
  describe(`mailbox contract: ${name}`, () => {
    let transport: Transport | undefined;
    const make = async (limits = ROOMY) => {
      transport = await makeTransport(limits);
      return transport;
    };
    afterEach(async () => {
      await transport?.close();
    });

    test('each kind of message arrives as it was sent', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      const sent = sampleMessages();
      for (const message of sent) from.send('b', message);
      expect((await sink.got(sent.length)).map(withoutRefs)).toEqual(sent.map(withoutRefs));
    });

    test('large tensors of batches and answers arrive with their data, in order with what is sent around them', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      const expected: Message[] = [];
      for (const [index, sample] of [...sampleMessages(), ...sampleMessages()].entries()) {
        if (sample.kind !== 'execute' && sample.kind !== 'response') continue;
        const data = new Uint8Array(LARGE_BYTES).fill(index);
        // Of an answer to another's request this process would be one that passes it on.
        const message = sample.kind === 'response' ? { ...sample, id: `b:${index}` } : sample;
        expected.push(
          stale(`before ${index}`),
          withTensors(message, ({ name }) => ({ name, datatype: 'UINT8', shape: [LARGE_BYTES], data })),
          stale(`after ${index}`),
        );
      }
      for (const message of expected) from.send('b', message);
      expect(await sink.got(expected.length)).toEqual(expected);
    });

    test('messages of one sender arrive in order and once', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      const expected: string[] = [];
      for (let index = 0; index < 1_000; index++) {
        expected.push(`${index}`);
        from.send('b', stale(`${index}`));
        if (index % 100 === 99) await sink.got(index - 50);
      }
      expect(ids(await sink.got(1_000))).toEqual(expected);
    });

    test('messages of two senders keep each its order', async () => {
      const made = await make();
      const sink = collector();
      const first = made.open('a', () => {});
      const second = made.open('c', () => {});
      made.open('b', sink.receive);
      for (let index = 0; index < 100; index++) {
        first.send('b', stale(`a${index}`));
        second.send('b', stale(`c${index}`));
      }
      const got = ids(await sink.got(200));
      for (const sender of ['a', 'c']) {
        const own = got.filter((id) => id.startsWith(sender));
        expect(own).toEqual(Array.from({ length: 100 }, (_, index) => `${sender}${index}`));
      }
    });

    test('the receiver is never called inside send, also when it answers itself', async () => {
      const made = await make();
      let sending = false;
      let reentered = false;
      const done = collector();
      const box = made.open('a', (messages) => {
        reentered ||= sending;
        done.receive(messages);
        sending = true;
        if (done.messages.length < 5) box.send('a', stale(`${done.messages.length}`));
        sending = false;
      });
      sending = true;
      box.send('a', stale('0'));
      sending = false;
      expect(done.messages).toEqual([]);
      expect(ids(await done.got(5))).toEqual(['0', '1', '2', '3', '4']);
      expect(reentered).toBe(false);
    });

    test('what is sent in one go may come in one call', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      for (let index = 0; index < 100; index++) from.send('b', stale(`${index}`));
      await sink.got(100);
      expect(sink.calls).toBeLessThan(100);
    });

    test("an unknown receiver is refused as 'gone', later and once", async () => {
      const made = await make();
      const from = made.open('a', () => {});
      const reasons: RefusalReason[] = [];
      const refused = new Promise<void>((resolve) => {
        from.send('nobody', stale('1'), (reason) => {
          reasons.push(reason);
          resolve();
        });
      });
      expect(reasons).toEqual([]);
      await refused;
      expect(reasons).toEqual(['gone']);
    });

    test('a send without a callback to an unknown receiver is dropped', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      from.send('nobody', stale('1'));
      from.send('b', stale('2'));
      expect(ids(await sink.got(1))).toEqual(['2']);
    });

    test('a burst over the limit: each message is delivered or refused, never both, never neither', async () => {
      const limit = 10;
      const made = await make({ ...ROOMY, messages_max: limit });
      const from = made.open('a', () => {});
      const outcomes = new Map<string, string>();
      const sent = 4 * limit;
      await new Promise<void>((resolve) => {
        const note = (id: string, outcome: string) => {
          expect(outcomes.has(id)).toBe(false);
          outcomes.set(id, outcome);
          if (outcomes.size === sent) resolve();
        };
        made.open('b', (messages) => {
          for (const id of ids(messages)) note(id, 'delivered');
        });
        for (let index = 0; index < sent; index++) {
          from.send('b', stale(`${index}`), (reason) => note(`${index}`, reason));
        }
      });
      const delivered = [...outcomes.values()].filter((outcome) => outcome === 'delivered');
      expect(delivered.length).toBeGreaterThanOrEqual(limit);
      expect(new Set(outcomes.values()).has('gone')).toBe(false);
    });

    test('a mailbox that was full takes messages again once it was read', async () => {
      const made = await make({ ...ROOMY, messages_max: 2 });
      const sink = collector();
      const from = made.open('a', () => {});
      made.open('b', sink.receive);
      for (const id of ['1', '2']) from.send('b', stale(id));
      await sink.got(2);
      for (const id of ['3', '4']) from.send('b', stale(id));
      expect(ids(await sink.got(4))).toEqual(['1', '2', '3', '4']);
    });

    test('a closed mailbox gets nothing more, and its senders hear of it', async () => {
      const made = await make();
      const sink = collector();
      const from = made.open('a', () => {});
      const box = made.open('b', sink.receive);
      await box.close();
      await box.close();
      const reason = await new Promise((resolve) => from.send('b', stale('1'), resolve));
      expect(reason).toBe('gone');
      expect(sink.messages).toEqual([]);
    });

    test('an id that is open is not opened twice', async () => {
      const made = await make();
      made.open('a', () => {});
      expect(() => made.open('a', () => {})).toThrow('a');
    });
  });
}
