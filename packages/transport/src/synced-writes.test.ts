import { expect, test } from 'vitest';
import type { RedisConnection } from './redis-connection.ts';
import { createSyncedWrites } from './synced-writes.ts';

/** A connection whose waits end when the test says so. */
function fakeConnection() {
  let listener: (event: 'lost' | 'ready') => void = () => {};
  const waits: { end(synced: number): void; break(): void }[] = [];
  const connection = {
    client: {
      eval: async () => null,
      call: (command: string) =>
        new Promise((resolve, reject) => {
          expect(command).toBe('WAITAOF');
          waits.push({
            end: (synced) => resolve([synced, 0]),
            break: () => reject(new Error('Connection is closed.')),
          });
        }),
    },
    watch(given: typeof listener) {
      listener = given;
      return () => {};
    },
  } as unknown as RedisConnection;
  return { connection, waits, lose: () => listener('lost') };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test('a write counts once the disk has it', async () => {
  const { connection, waits } = fakeConnection();
  let isDone = false;
  const done = createSyncedWrites(connection, 'mark')
    .run(async () => 7)
    .finally(() => {
      isDone = true;
    });
  await turn();
  expect({ isDone, waits: waits.length }).toEqual({ isDone: false, waits: 1 });
  waits[0]?.end(1);
  expect(await done).toBe(7);
});

test('what comes during a wait begins after it, and shares the next', async () => {
  const { connection, waits } = fakeConnection();
  const writes = createSyncedWrites(connection, 'mark');
  const begun: number[] = [];
  const write = (index: number) =>
    writes.run(async () => {
      begun.push(index);
      return index;
    });
  const first = write(0);
  const others = [write(1), write(2), write(3)];
  await turn();
  expect(begun).toEqual([0]);
  waits[0]?.end(1);
  await first;
  await turn();
  expect(begun).toEqual([0, 1, 2, 3]);
  expect(waits).toHaveLength(2);
  waits[1]?.end(1);
  expect(await Promise.all(others)).toEqual([1, 2, 3]);
});

test('one that fails fails alone', async () => {
  const { connection, waits } = fakeConnection();
  const writes = createSyncedWrites(connection, 'mark');
  const first = writes.run(async () => 0);
  const wrong = writes.run(() => Promise.reject(new Error('OOM')));
  const right = writes.run(async () => 1);
  const failed = expect(wrong).rejects.toThrow('OOM');
  await turn();
  waits[0]?.end(1);
  await first;
  await turn();
  waits[1]?.end(1);
  await failed;
  expect(await right).toBe(1);
});

test.each<[rule: string, end: (fake: ReturnType<typeof fakeConnection>) => void, text: string]>([
  ['a disk that does not come in time', ({ waits }) => waits[0]?.end(0), 'not on disk after 4000 ms'],
  ['a connection that breaks', ({ waits }) => waits[0]?.break(), 'Connection is closed.'],
  [
    // Redis says yes at once to a connection that has written nothing.
    'a connection that was new when it was asked',
    ({ waits, lose }) => {
      lose();
      waits[0]?.end(1);
    },
    'the connection was lost before the disk had it',
  ],
])('%s tells nothing of the write', async (_rule, end, text) => {
  const fake = fakeConnection();
  const done = createSyncedWrites(fake.connection, 'mark').run(async () => 7);
  const failed = expect(done).rejects.toThrow(text);
  await turn();
  end(fake);
  await failed;
});
