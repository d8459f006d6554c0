import { createLog, systemClock } from '@nereid/runtime';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { JobQueues, NewJob, StoredJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { connectRedis, type RedisConnector } from './redis-connection.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

let server: RedisServerFixture;
let connector: RedisConnector;
let queues: JobQueues;
let model: string;
let models = 0;
/** What waits for the disk, and how it is told of it. */
let waits: ((answer: readonly number[]) => void)[] = [];
/** Nothing is on the disk before the test says so. */
let isHeld = false;

const SYNCED = [1, 0];

/** As of a Redis with WAITAOF (7.2), on this one. */
function withWaits(dialled: RedisConnector): RedisConnector {
  return {
    ...dialled,
    connect(purpose, options) {
      const connection = dialled.connect(purpose, options);
      const { client } = connection;
      const call = client.call.bind(client) as (...args: readonly unknown[]) => Promise<unknown>;
      Object.assign(client, {
        call: (...args: readonly unknown[]) => {
          if (args[0] !== 'WAITAOF') return call(...args);
          return isHeld ? new Promise((resolve) => waits.push(resolve)) : Promise.resolve(SYNCED);
        },
      });
      return connection;
    },
  };
}

beforeAll(async () => {
  server = await startRedisServer();
  connector = connectRedis(server.url, { name: 'gateway:1' });
  queues = createJobQueues({
    connector: withWaits(connector),
    waitsForDisk: true,
    timing: timing(),
    clock: systemClock(),
    log: createLog({ level: 'silent' }),
  });
});
afterAll(async () => {
  await queues.close();
  connector.close();
  await server.stop();
});
beforeEach(() => {
  models++;
  model = `m${models}`;
  waits = [];
});

const job = (): NewJob => ({
  id: 'A1',
  createdMs: Date.now(),
  data: { webhook: 'http://127.0.0.1:9/' },
  priority: 0,
  delayMs: 0,
  attempts: 1,
  resultTtlS: 60,
});

async function failed(): Promise<void> {
  await queues.add(model, job());
  const taker = queues.take(model, {
    by: 'co-1',
    token: () => 'co-1:1',
    room: () => 1,
    taken({ id }) {
      void taker.fail(id, 'INTERNAL: x', false);
      return true;
    },
    lost: () => {},
  });
  await queues.wait(model, 'A1', 20_000);
  await taker.close();
}

const ended = { model: 'm', id: 'A1', state: 'failed', data: null } as unknown as StoredJob;

test.each<[what: string, before: () => Promise<unknown>, change: () => Promise<unknown>]>([
  ['a job is added', async () => {}, () => queues.add(model, job())],
  ['it is cancelled', () => queues.add(model, job()), () => queues.changes.cancel(model, 'A1')],
  ['it runs anew', failed, () => queues.changes.retry(model, 'A1')],
  ['it is removed', failed, () => queues.changes.remove(model, 'A1')],
  ['its dead letter is replayed', failed, () => queues.letters.replay(model, 'A1')],
  ['its dead letter is removed', failed, () => queues.letters.remove(model, 'A1')],
  ['its webhook is sent again', failed, () => queues.deliveries.resend(model, 'A1')],
  ['its webhook is put anew', failed, () => queues.deliveries.addAnew(model, 'A1', { url: 'http://x/', ended })],
  ['a tensor is kept', async () => {}, () => queues.payloads.put(Uint8Array.of(1), 60, Date.now())],
])('before it is told that %s, that is on the disk (R31)', async (_what, before, change) => {
  isHeld = false;
  await before();
  isHeld = true;
  let isTold = false;
  const told = change().then(() => {
    isTold = true;
  });
  await expect.poll(() => waits.length).toBe(1);
  await queues.find(model, 'A1');
  expect(isTold).toBe(false);
  waits[0]?.(SYNCED);
  await told;
});
