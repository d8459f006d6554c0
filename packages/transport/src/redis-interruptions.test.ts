import { encodeMessage } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import type { RedisConnection, RedisConnector } from './redis-connection.ts';
import type { RedisTransport } from './redis-transport.ts';
import { idOf, keys, killConnection, messageSink, parcel, stale, useRedisLane } from './redis-transport-fixture.ts';

const lane = useRedisLane();

const interruption = (transport: RedisTransport) =>
  new Promise<void>((resolve) => {
    const stop = transport.onInterruption(() => {
      stop();
      resolve();
    });
  });

describe('redis transport: interruptions', () => {
  test('CLIENT KILL of a blocked pop is told, and later messages arrive', async () => {
    const got = messageSink();
    const transport = lane.makeTransport();
    const box = transport.open('co-1', got.receive);
    await transport.opened();
    const told = interruption(transport);
    await killConnection(lane, 'nereid:test:t:pop:co-1');
    await told;
    box.send('co-1', stale('later'));
    await got.until(() => got.messages.length === 1);
    expect(got.messages.map(idOf)).toEqual(['later']);
  });

  test('a lost command connection is told; what is sent meanwhile waits and arrives in order', async () => {
    const got = messageSink();
    const transport = lane.makeTransport();
    const from = transport.open('gw-1', () => {});
    const receiver = lane.makeTransport({ name: 'test:b' });
    receiver.open('co-1', got.receive);
    await receiver.opened();
    from.send('co-1', stale('before'));
    await got.until(() => got.messages.length === 1);
    const told = interruption(transport);
    const lost = new Promise<void>((resolve) => setImmediate(resolve));
    await killConnection(lane, 'nereid:test:t:push');
    await lost;
    const sent = ['before'];
    // From the first moment on when the loss may be known here until the connection is back.
    let over = false;
    void told.then(() => {
      over = true;
    });
    for (let index = 0; !over; index++) {
      sent.push(`${index}`);
      from.send('co-1', stale(`${index}`));
      await new Promise(setImmediate);
    }
    from.send('co-1', stale('end'));
    await got.until(() => got.messages.some((message) => idOf(message) === 'end'));
    // At most what was under way in that moment is missing, nothing twice, nothing out of order.
    const arrived = got.messages.map(idOf).slice(0, -1);
    expect(arrived).toEqual(sent.filter((id) => arrived.includes(id)));
    expect(arrived.length).toBeGreaterThan(1);
  });

  test('SIGKILL and restart without a data set: told, mailboxes open again, nobody counts as gone', async () => {
    const clock = virtualClock();
    const got = messageSink();
    const transport = lane.makeTransport({ clock });
    const from = transport.open('gw-1', () => {});
    const receiver = lane.makeTransport({ name: 'test:b' });
    receiver.open('co-1', got.receive);
    await receiver.opened();
    from.send('co-1', stale('before'));
    await got.until(() => got.messages.length === 1);
    const told = Promise.all([interruption(transport), interruption(receiver)]);
    await lane.redis.kill('SIGKILL');
    await lane.redis.start();
    await told;
    const refused: string[] = [];
    from.send('nobody', stale('1'), (reason) => refused.push(reason));
    from.send('co-1', stale('after'));
    await got.until(() => got.messages.length === 2);
    expect(got.messages.map(idOf)).toEqual(['before', 'after']);
    expect(refused).toEqual([]);
    clock.advanceUs(10_000_000);
    expect(await new Promise((resolve) => from.send('nobody', stale('2'), resolve))).toBe('gone');
    expect(refused).toEqual([]);
  });

  test('what waited too long for Redis is dropped, the younger ones arrive', async () => {
    const clock = virtualClock();
    const got = messageSink();
    const inner = lane.connector('test:t');
    let noteLost = () => {};
    const lost = new Promise<void>((resolve) => {
      noteLost = resolve;
    });
    const watched: RedisConnector = {
      ...inner,
      connect(purpose, options) {
        const connection = inner.connect(purpose, options);
        connection.watch((event) => {
          if (purpose === 'push' && event === 'lost') noteLost();
        });
        return connection;
      },
    };
    const transport = lane.makeTransport({ clock, connector: watched });
    const box = transport.open('co-1', got.receive);
    box.send('co-1', stale('first'));
    await got.until(() => got.messages.length === 1);
    await lane.redis.kill('SIGKILL');
    await lost;
    box.send('co-1', stale('old'));
    clock.advanceUs(2_500_000);
    box.send('co-1', stale('young'));
    await lane.redis.start();
    await got.until(() => got.messages.length === 2);
    box.send('co-1', stale('end'));
    await got.until(() => got.messages.length === 3);
    expect(got.messages.map(idOf)).toEqual(['first', 'young', 'end']);
  });

  test('a wiped Redis is noticed by the heartbeat, which opens the mailbox again', async () => {
    const clock = virtualClock();
    const got = messageSink();
    const transport = lane.makeTransport({ clock });
    const box = transport.open('co-1', got.receive);
    await transport.opened();
    box.send('co-1', stale('1'));
    await got.until(() => got.messages.length === 1);
    await lane.admin.ready();
    await lane.admin.client.flushall();
    const told = interruption(transport);
    clock.advanceUs(500_000);
    await told;
    expect(await new Promise((resolve) => box.send('nobody', stale('x'), resolve))).toBe('gone');
    box.send('co-1', stale('2'));
    await got.until(() => got.messages.length === 2);
  });

  /** Kills the blocked pop and, before it is back, leaves a frame in the list. */
  const interruptedWithFrame = async (runIdOf: (connection: RedisConnection) => string | undefined) => {
    const inner = lane.connector('test:t');
    const wrapped: RedisConnector = {
      ...inner,
      connect(purpose, options) {
        const connection = inner.connect(purpose, options);
        return Object.defineProperty(Object.create(connection), 'runId', { get: () => runIdOf(connection) });
      },
    };
    const got = messageSink();
    const transport = lane.makeTransport({ connector: wrapped });
    const box = transport.open('co-1', got.receive);
    await transport.opened();
    const told = interruption(transport);
    const [id = ''] = await lane.clientIds('nereid:test:t:pop:co-1');
    const frame = parcel(encodeMessage(stale('left')));
    await lane.admin.client.multi().call('CLIENT', 'KILL', 'ID', id).rpush(keys.mailbox('co-1'), frame).exec();
    await told;
    box.send('co-1', stale('later'));
    await got.until(() => got.messages.some((message) => idOf(message) === 'later'));
    return got.messages.map(idOf);
  };

  test('the same Redis: what it holds unread arrives', async () => {
    expect(await interruptedWithFrame((connection) => connection.runId)).toEqual(['left', 'later']);
  });

  test('a Redis that began anew: what it holds may have been read already, and is dropped', async () => {
    let run = 0;
    expect(await interruptedWithFrame(() => `${run++}`)).toEqual(['later']);
  });
});
