import { encodeMessage, type Message } from '@nereid/protocol';
import { describe, expect, test } from 'vitest';
import type { MailboxLimits, RefusalReason } from './mailbox.ts';
import { mailboxContract } from './mailbox-contract.ts';
import { infoFields } from './redis-connection.ts';
import { mailboxScripts } from './redis-scripts.ts';
import type { RedisTransport } from './redis-transport.ts';
import { idOf, keys, messageSink, parcel, ROOMY, stale, useRedisLane } from './redis-transport-fixture.ts';
import { sampleInfer } from './sample-messages.ts';

const lane = useRedisLane();

mailboxContract('redis', (limits) => lane.makeTransport({ limits }));

const commandCalls = async (command: string) => {
  const stats = infoFields(String(await lane.admin.client.info('commandstats'))).get(`cmdstat_${command}`);
  return Number(/calls=(\d+)/.exec(stats ?? '')?.[1] ?? 0);
};

describe('redis transport: what travels', () => {
  test('a burst of 100,000 messages arrives whole and in order, by few commands', async () => {
    const transport = lane.makeTransport({ limits: { ...ROOMY, messages_max: 100_000 } });
    const got = messageSink();
    const from = transport.open('gw-1', () => {});
    lane.makeTransport({ name: 'test:b', limits: { ...ROOMY, messages_max: 100_000 } }).open('co-1', got.receive);
    await lane.admin.ready();
    await expect.poll(() => lane.admin.client.exists(keys.mailboxOpen('co-1'))).toBe(1);
    await lane.admin.client.call('CONFIG', 'RESETSTAT');
    const refused: RefusalReason[] = [];
    for (let index = 0; index < 100_000; index++)
      from.send('co-1', stale(`${index}`), (reason) => refused.push(reason));
    await got.until(() => got.messages.length === 100_000);
    expect(got.messages.every((message, index) => idOf(message) === `${index}`)).toBe(true);
    expect(refused).toEqual([]);
    expect(await commandCalls('blmpop')).toBeLessThan(1_000);
    expect((await commandCalls('evalsha')) + (await commandCalls('eval'))).toBeLessThan(1_000);
  });

  test('what is sent to one mailbox in one turn is one script call', async () => {
    const transport = lane.makeTransport();
    const got = messageSink();
    const from = transport.open('gw-1', () => {});
    lane.makeTransport({ name: 'test:b' }).open('co-1', got.receive);
    await expect.poll(() => lane.admin.client.exists(keys.mailboxOpen('co-1'))).toBe(1);
    from.send('co-1', stale('first'));
    await got.until(() => got.messages.length === 1);
    const before = await commandCalls('rpush');
    for (let index = 0; index < 50; index++) from.send('co-1', stale(`${index}`));
    await got.until(() => got.messages.length === 51);
    expect((await commandCalls('rpush')) - before).toBe(1);
  });

  test('a mailbox of this process gets what is sent to it right after it was opened', async () => {
    const transport = lane.makeTransport();
    const from = transport.open('gw-1', () => {});
    from.send('gw-1', stale('dials'));
    await transport.opened();
    await new Promise((resolve) => from.send('nobody', stale('asks'), resolve));
    const got = messageSink();
    transport.open('co-1', got.receive);
    from.send('co-1', stale('at once'));
    await got.until(() => got.messages.length === 1);
  });

  test('frames of 10 MB', async () => {
    const got = messageSink();
    const from = lane.makeTransport({ blobs: { inline_bytes_max: Number.POSITIVE_INFINITY } }).open('gw-1', () => {});
    const transport = lane.makeTransport({ name: 'test:b' });
    transport.open('co-1', got.receive);
    await transport.opened();
    const sent = sampleInfer(10_000_000);
    for (let index = 0; index < 4; index++) from.send('co-1', sent);
    await got.until(() => got.messages.length === 4);
    for (const message of got.messages) {
      expect(Buffer.compare(encodeMessage(message), encodeMessage(sent))).toBe(0);
    }
  });

  test('messages of two processes keep each its order', async () => {
    const got = messageSink();
    const receiver = lane.makeTransport({ name: 'test:c' });
    receiver.open('co-1', got.receive);
    await receiver.opened();
    const senders = ['gw-1', 'gw-2'].map((id) => lane.makeTransport({ name: `test:${id}` }).open(id, () => {}));
    for (let round = 0; round < 100; round++) {
      for (const from of senders) {
        for (let index = 0; index < 10; index++) from.send('co-1', stale(`${from.id}:${10 * round + index}`));
      }
      await new Promise(setImmediate);
    }
    await got.until(() => got.messages.length === 2_000);
    for (const { id } of senders) {
      const own = got.messages.map(idOf).filter((name) => name.startsWith(id));
      expect(own).toEqual(Array.from({ length: 1_000 }, (_, index) => `${id}:${index}`));
    }
  });

  test('a frame that cannot be read is dropped, those around it arrive', async () => {
    const got = messageSink();
    const transport = lane.makeTransport();
    transport.open('co-1', got.receive);
    await transport.opened();
    await lane.admin.client.rpush(
      keys.mailbox('co-1'),
      parcel(encodeMessage(stale('1')), Buffer.from('no frame at all'), encodeMessage(stale('2'))),
      Buffer.from('x'),
      Buffer.from('no parcel at all, but long'),
      Buffer.concat([parcel(encodeMessage(stale('3'))), Buffer.from('and more')]),
      parcel(encodeMessage(stale('4'))),
    );
    await got.until(() => got.messages.length === 4);
    expect(got.messages.map(idOf)).toEqual(['1', '2', '3', '4']);
  });

  test('a message that cannot be encoded is refused, and the next one arrives', async () => {
    const got = messageSink();
    const transport = lane.makeTransport();
    const box = transport.open('co-1', got.receive);
    const wide: Message = { ...sampleInfer(1), request: { ...sampleInfer(1).request, parameters: { n: 2n ** 70n } } };
    expect(await new Promise((resolve) => box.send('co-1', wide, resolve))).toBe('full');
    box.send('co-1', stale('next'));
    await got.until(() => got.messages.length === 1);
  });
});

describe('redis transport: limits', () => {
  /** A mailbox that is open and that nobody reads. */
  const openUnread = async (limits: MailboxLimits) => {
    const connection = lane.connector('test:unread').connect('open');
    await connection.ready();
    await mailboxScripts(connection.client).open(
      [keys.mailbox('wk-1'), keys.mailboxOpen('wk-1')],
      [60_000, limits.messages_max, limits.bytes_max, '1'],
    );
    lane.afterwards(() => lane.admin.client.del(keys.mailbox('wk-1'), keys.mailboxOpen('wk-1')));
  };

  /** Sends one, and what became of it. */
  const outcome = async (transport: RedisTransport, message: Message): Promise<string> => {
    const before = await lane.admin.client.llen(keys.mailbox('wk-1'));
    const box = transport.open(`gw-${before}-${Math.random()}`, () => {});
    const refused = new Promise<string>((resolve) => box.send('wk-1', message, resolve));
    const taken = expect
      .poll(() => lane.admin.client.llen(keys.mailbox('wk-1')), { interval: 1 })
      .toBe(before + 1)
      .then(() => 'taken');
    taken.catch(() => {});
    return Promise.race([refused, taken]);
  };

  test('exactly as many messages as the limit says, from two processes, and again after a read', async () => {
    await openUnread({ ...ROOMY, messages_max: 3 });
    const one = lane.makeTransport();
    const two = lane.makeTransport({ name: 'test:b' });
    expect(await outcome(one, stale('1'))).toBe('taken');
    expect(await outcome(two, stale('2'))).toBe('taken');
    expect(await outcome(one, stale('3'))).toBe('taken');
    expect(await outcome(two, stale('4'))).toBe('full');
    expect(await outcome(one, stale('5'))).toBe('full');
    await lane.admin.client.lpop(keys.mailbox('wk-1'));
    expect(await outcome(two, stale('6'))).toBe('taken');
    expect(await outcome(one, stale('7'))).toBe('full');
  });

  test('within one burst: those that fit are taken, the others refused', async () => {
    await openUnread({ ...ROOMY, messages_max: 3 });
    const from = lane.makeTransport().open('gw-1', () => {});
    const full: string[] = [];
    await new Promise<void>((resolve) => {
      for (let index = 0; index < 5; index++) {
        from.send('wk-1', stale(`${index}`), (reason) => {
          full.push(`${index} ${reason}`);
          if (full.length === 2) resolve();
        });
      }
    });
    expect(full).toEqual(['3 full', '4 full']);
    expect(await lane.admin.client.llen(keys.mailbox('wk-1'))).toBe(3);
  });

  test('bytes are counted exactly, whatever was read of them', async () => {
    const message = sampleInfer(6_000);
    const bytes = encodeMessage(message).byteLength;
    await openUnread({ ...ROOMY, bytes_max: 3 * bytes });
    const transport = lane.makeTransport();
    for (const expected of ['taken', 'taken', 'taken', 'full'])
      expect(await outcome(transport, message)).toBe(expected);
    expect(await outcome(transport, stale('small'))).toBe('full');
    await lane.admin.client.lpop(keys.mailbox('wk-1'));
    expect(await outcome(transport, stale('small'))).toBe('taken');
    expect(await outcome(transport, message)).toBe('full');
    await lane.admin.client.lpop(keys.mailbox('wk-1'));
    expect(await outcome(transport, message)).toBe('taken');
    await lane.admin.client.del(keys.mailbox('wk-1'));
    for (const expected of ['taken', 'taken', 'taken', 'full'])
      expect(await outcome(transport, message)).toBe(expected);
  });

  test('one message over the byte limit goes into an empty mailbox, and nothing after it', async () => {
    await openUnread({ ...ROOMY, bytes_max: 1_000 });
    const transport = lane.makeTransport();
    expect(await outcome(transport, sampleInfer(6_000))).toBe('taken');
    expect(await outcome(transport, stale('small'))).toBe('full');
  });

  test("a Redis without memory refuses as 'full'", async () => {
    const transport = lane.makeTransport();
    const from = transport.open('co-1', () => {});
    await transport.opened();
    await lane.admin.client.config('SET', 'maxmemory', '1');
    const reason = await new Promise((resolve) => from.send('co-1', stale('1'), resolve));
    await lane.admin.client.config('SET', 'maxmemory', '0');
    expect(reason).toBe('full');
  });
});

describe('redis transport: what it leaves', () => {
  test('no key is left after close, and none without a TTL before', async () => {
    await lane.admin.ready();
    await lane.admin.client.flushall();
    const transport = lane.makeTransport();
    transport.open('co-1', () => {});
    const box = transport.open('gw-1', () => {});
    box.send('co-1', stale('1'));
    await transport.opened();
    const open = await lane.admin.client.keys('*');
    expect(open.length).toBeGreaterThanOrEqual(2);
    for (const key of open) {
      const ttl = await lane.admin.client.pttl(key);
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(12_000);
    }
    await box.close();
    expect(await lane.admin.client.exists(keys.mailboxOpen('gw-1'), keys.mailbox('gw-1'))).toBe(0);
    await transport.close();
    expect(await lane.admin.client.keys('*')).toEqual([]);
    await expect.poll(() => lane.clientIds('nereid:test:t:push')).toEqual([]);
  });

  test('a mailbox opened and closed at once leaves nothing', async () => {
    await lane.admin.client.flushall();
    const transport = lane.makeTransport();
    for (let index = 0; index < 20; index++) {
      const box = transport.open(`gw-${index}`, () => {});
      if (index % 2 === 1) await new Promise(setImmediate);
      await box.close();
    }
    await transport.close();
    expect(await lane.admin.client.keys('*')).toEqual([]);
  });

  test('what was sent before a close is pushed still', async () => {
    const got = messageSink();
    const receiver = lane.makeTransport({ name: 'test:b' });
    receiver.open('co-1', got.receive);
    await receiver.opened();
    const sender = lane.makeTransport();
    const box = sender.open('gw-1', () => {});
    await sender.opened();
    box.send('co-1', stale('warm'));
    await got.until(() => got.messages.length === 1);
    box.send('co-1', stale('last words'));
    await box.close();
    await sender.close();
    await got.until(() => got.messages.length === 2);
  });

  test('the list of a dead reader has a TTL too', async () => {
    const connection = lane.connector('test:dead').connect('open');
    await connection.ready();
    const pair = [keys.mailbox('wk-9'), keys.mailboxOpen('wk-9')] as const;
    await mailboxScripts(connection.client).open(pair, [5_000, 10, 1_000, '1']);
    lane
      .makeTransport()
      .open('gw-1', () => {})
      .send('wk-9', stale('1'));
    await expect.poll(() => lane.admin.client.pttl(pair[0])).toBeGreaterThan(0);
    expect(await lane.admin.client.pttl(pair[0])).toBeLessThanOrEqual(12_000);
    expect(await lane.admin.client.pttl(pair[1])).toBeLessThanOrEqual(5_000);
    await lane.admin.client.del(...pair);
  });
});
