import { systemClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import type { BulkStore, NewBulk } from './bulk.ts';
import { createBulkStore } from './bulk-redis.ts';
import { newJobId } from './jobs-names.ts';
import { redisKeys } from './redis-keys.ts';
import { useRedisLane } from './redis-transport-fixture.ts';

const lane = useRedisLane();
let prefixes = 0;

function store(): BulkStore {
  return createBulkStore({
    connector: lane.connector('test:bulk'),
    prefix: `b${++prefixes}`,
    clock: systemClock(),
    waitsForDisk: false,
  });
}

let made = 0;
const newBulk = (more: Partial<NewBulk> = {}): NewBulk => {
  const createdMs = 1_000 + ++made;
  return {
    id: `m~${newJobId(createdMs)}`,
    model: 'm',
    version: '',
    createdMs,
    deadlineMs: 0,
    ttlS: 60,
    attempts: 3,
    ...more,
  };
};
const lines = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `{"line":${from + index}}`);
const result = (line: number, text = `"of ${line}"`, ok = true) => ({ line, ok, text });

/** A batch of ten lines in two chunks. */
async function uploaded(bulk: BulkStore, more: Partial<NewBulk> = {}): Promise<string> {
  const batch = newBulk(more);
  await bulk.open(batch);
  await bulk.put(batch.id, 0, 0, lines(7));
  await bulk.put(batch.id, 1, 7, lines(3, 7));
  await bulk.commit(batch.id, 10);
  return batch.id;
}

describe('a batch', () => {
  test('is seen once all of it is there, with its lines as they came', async () => {
    const bulk = store();
    const batch = newBulk();
    expect(await bulk.open(batch)).toBe('put');
    expect(await bulk.put(batch.id, 0, 0, lines(2))).toBe('put');
    expect(await bulk.find(batch.id)).toBeUndefined();
    // Looking for it does not make it forgotten.
    expect((await bulk.page('m', '', 10)).batches).toEqual([]);
    expect(await bulk.commit(batch.id, 2)).toMatchObject({
      state: 'waiting',
      lines: 2,
      completed: 0,
      failed: 0,
      ...batch,
    });
    expect(await bulk.commit(batch.id, 2)).toMatchObject({ state: 'waiting' });
    expect((await bulk.page('m', '', 10)).batches).toHaveLength(1);
    expect(await bulk.active()).toEqual([batch.id]);
    expect(await bulk.chunk(batch.id, 0)).toEqual({ from: 0, lines: lines(2), done: [false, false] });
    expect(await bulk.chunk(batch.id, 1)).toBeUndefined();
    expect(await bulk.put(batch.id, 1, 2, lines(1))).toBe('gone');
  });

  test('keeps the first result of each line, and ends with the last one', async () => {
    const bulk = store();
    const id = await uploaded(bulk);
    expect(await bulk.settle(id, [result(0), result(9, '"no"', false)])).toBe('running');
    expect(await bulk.settle(id, [result(9, '"late"')])).toBe('running');
    expect(await bulk.find(id)).toMatchObject({ completed: 1, failed: 1, finishedMs: undefined });
    expect((await bulk.chunk(id, 0))?.done).toEqual([true, ...Array(6).fill(false)]);
    expect((await bulk.chunk(id, 1))?.done).toEqual([false, false, true]);
    expect(
      await bulk.settle(
        id,
        lines(9).map((_, line) => result(line)),
      ),
    ).toBe('completed');
    const record = await bulk.find(id);
    expect(record).toMatchObject({ state: 'completed', completed: 9, failed: 1 });
    expect(record?.finishedMs).toBeGreaterThanOrEqual(record?.startedMs ?? Number.NaN);
    expect(await bulk.results(id, 8, 5)).toEqual([result(8), result(9, '"no"', false)]);
    expect(await bulk.chunk(id, 0)).toBeUndefined();
    expect(await bulk.settle(id, [result(3, '"later"')])).toBe('completed');
    expect(await bulk.results(id, 3, 1)).toEqual([result(3)]);
  });

  test('that is ended takes no more results, keeps those that it has for its time, and ends once', async () => {
    const bulk = store();
    const id = await uploaded(bulk, { ttlS: 77 });
    await bulk.settle(id, [result(1)]);
    expect(await bulk.end(id, 'cancelled')).toBe('cancelled');
    expect(await bulk.end(id, 'expired')).toBe('cancelled');
    expect(await bulk.settle(id, [result(2)])).toBe('cancelled');
    expect(await bulk.find(id)).toMatchObject({ state: 'cancelled', completed: 1, failed: 0, lines: 10 });
    expect(await bulk.results(id, 0, 10)).toEqual([result(1)]);
    const { client } = lane.admin;
    const left = await client.call('KEYS', `b${prefixes}:bulk:*`);
    expect(left).toHaveLength(2);
    for (const key of left as string[]) expect(await client.ttl(key)).toBeGreaterThan(70);
  });

  test('gives lines back whose chunk is through, and the chunks behind it stay', async () => {
    const bulk = store();
    const id = await uploaded(bulk);
    await bulk.clear(id, 0);
    await bulk.clear(id, 5);
    expect(await bulk.chunk(id, 0)).toEqual({ from: 0, lines: [], done: [] });
    expect((await bulk.chunk(id, 1))?.lines).toEqual(lines(3, 7));
    expect(await bulk.chunk(id, 5)).toBeUndefined();
  });

  test('that has failed says why', async () => {
    const bulk = store();
    const id = await uploaded(bulk);
    const error = { code: 'UNAVAILABLE', message: 'no room' } as const;
    expect(await bulk.end(id, 'failed', error)).toBe('failed');
    expect(await bulk.find(id)).toMatchObject({ state: 'failed', error });
  });

  test('that is accepted ends, with all its results, in a Redis that is full', async () => {
    const bulk = store();
    const id = await uploaded(bulk);
    const other = newBulk();
    await bulk.open(other);
    const { client } = lane.admin;
    await client.call('CONFIG', 'SET', 'maxmemory', '1');
    try {
      expect(await bulk.put(other.id, 0, 0, lines(1))).toBe('full');
      expect(await bulk.open(newBulk())).toBe('full');
      const results = lines(10).map((_, line) => result(line));
      expect(await bulk.settle(id, results.slice(0, 7))).toBe('running');
      await bulk.clear(id, 0);
      expect(await bulk.settle(id, results)).toBe('completed');
      expect(await bulk.results(id, 0, 10)).toEqual(results);
    } finally {
      await client.call('CONFIG', 'SET', 'maxmemory', '0');
    }
  });

  test('that was never uploaded in full, or is removed, is nowhere', async () => {
    const bulk = store();
    expect(await bulk.settle('m~none', [result(1)])).toBeUndefined();
    expect(await bulk.end('m~none', 'cancelled')).toBeUndefined();
    expect(await bulk.commit('m~none', 3)).toBeUndefined();
    expect(await bulk.find('m~none')).toBeUndefined();
    const id = await uploaded(bulk);
    await bulk.end(id, 'cancelled');
    await bulk.remove(id);
    await bulk.forgetActive(id);
    expect(await bulk.page('m', '', 10)).toEqual({ batches: [], next: '' });
    expect(await lane.admin.client.call('KEYS', `b${prefixes}:*`)).toEqual([]);
  });

  test('is listed with others of its model, the newest first, page by page; what is gone is left out', async () => {
    const bulk = store();
    const ids = [await uploaded(bulk), await uploaded(bulk), await uploaded(bulk)];
    await uploaded(bulk, { model: 'other', id: `other~${newJobId(5)}` });
    await lane.admin.client.del(redisKeys(`b${prefixes}`).bulk(ids[1] ?? ''));
    const first = await bulk.page('m', '', 2);
    expect(first.batches.map(({ id }) => id)).toEqual([ids[2]]);
    const second = await bulk.page('m', first.next, 2);
    expect(second.batches.map(({ id }) => id)).toEqual([ids[0]]);
    expect(second.next).toBe('');
  });
});
