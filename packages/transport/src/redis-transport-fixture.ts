/** What the suites of the Redis transport share: a Redis of their own, and transports that are closed after each test. */
import type { Message } from '@nereid/protocol';
import { type Clock, createLog, systemClock } from '@nereid/runtime';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { BlobOptions } from './blob-store.ts';
import type { MailboxLimits } from './mailbox.ts';
import { PARCEL_COUNTERS_BYTES, packParcels } from './mailbox-parcel.ts';
import { connectRedis, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { createRedisTransport, type RedisTransport } from './redis-transport.ts';
import { timing } from './timing.ts';

export const ROOMY: MailboxLimits = { messages_max: 65_536, bytes_max: 1_073_741_824 };
/** Blobs in Redis, of tensors of the default size. */
export const REDIS_BLOBS: BlobOptions = { name: 'bl-test', bytes_max: 1_073_741_824, filesReach: () => false };
export const keys = redisKeys('nereid');

interface TransportChoices {
  readonly limits?: MailboxLimits;
  /** Its connections are named `nereid:<name>:…`; 'test:t' by default. */
  readonly name?: string;
  readonly clock?: Clock;
  readonly connector?: RedisConnector;
  readonly blobs?: Partial<BlobOptions>;
}

export interface RedisLane {
  readonly redis: RedisServerFixture;
  /** A connection of the test's own. */
  readonly admin: RedisConnection;
  connector(name: string): RedisConnector;
  makeTransport(choices?: TransportChoices): RedisTransport;
  /** Called after the test, before what was made earlier is closed. */
  afterwards(close: () => unknown): void;
  /** Redis' own numbers of the connections that bear this name. */
  clientIds(name: string): Promise<readonly string[]>;
}

/** Starts a Redis for the file that calls it. */
export function useRedisLane(): RedisLane {
  let redis: RedisServerFixture | undefined;
  let admin: RedisConnection | undefined;
  let closers: (() => unknown)[] = [];
  const started = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('only within a test');
    return value;
  };
  beforeAll(async () => {
    redis = await startRedisServer();
    admin = connectRedis(redis.url, { name: 'test:admin' }).connect('admin');
    await admin.ready();
  });
  afterEach(async () => {
    for (const close of closers.reverse()) await close();
    closers = [];
  });
  afterAll(async () => {
    admin?.close();
    await redis?.stop();
  });

  const connector = (name: string): RedisConnector => {
    const made = connectRedis(started(redis).url, { name });
    closers.push(() => made.close());
    return made;
  };
  return {
    get redis() {
      return started(redis);
    },
    get admin() {
      return started(admin);
    },
    connector,
    makeTransport(choices = {}) {
      const transport = createRedisTransport({
        connector: choices.connector ?? connector(choices.name ?? 'test:t'),
        prefix: 'nereid',
        limits: choices.limits ?? ROOMY,
        log: createLog({ level: 'silent' }),
        clock: choices.clock ?? systemClock(),
        timing: timing(),
        blobs: { ...REDIS_BLOBS, ...choices.blobs },
      });
      closers.push(() => transport.close());
      return transport;
    },
    afterwards: (close) => void closers.push(close),
    async clientIds(name) {
      await started(admin).ready();
      const list = String(await started(admin).client.call('CLIENT', 'LIST'));
      return list
        .split('\n')
        .filter((line) => line.includes(` name=${name} `))
        .map((line) => /id=(\d+)/.exec(line)?.[1] ?? '');
    },
  };
}

/** Ends the one connection of that name from Redis' side. */
export async function killConnection(lane: RedisLane, name: string): Promise<void> {
  const ids = await lane.clientIds(name);
  expect(ids).toHaveLength(1);
  for (const id of ids) await lane.admin.client.call('CLIENT', 'KILL', 'ID', id);
}

export function stale(id: string): Message {
  return { kind: 'stale', model: 'm', id, known: null };
}

export function idOf(message: Message): string {
  return 'id' in message ? message.id : message.kind;
}

/** A receiver and how to wait for what it gets. */
export function messageSink() {
  const messages: Message[] = [];
  let wake = () => {};
  return {
    messages,
    receive(got: readonly Message[]) {
      messages.push(...got);
      wake();
    },
    async until(holds: () => boolean) {
      while (!holds()) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** What a mailbox's list holds of these few small frames. */
export function parcel(...frames: readonly Uint8Array[]): Buffer {
  const packed = packParcels(frames).filter((part) => typeof part !== 'number');
  return Buffer.concat([Buffer.alloc(PARCEL_COUNTERS_BYTES), ...packed]);
}
