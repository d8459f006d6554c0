import { createLog, systemClock } from '@nereid/runtime';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobNews, JobQueues, TakenJob } from './jobs.ts';
import { createJobQueues } from './jobs-bullmq.ts';
import { sweepOnce } from './jobs-payload-sweep.ts';
import { connectRedis } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { type RedisServerFixture, startRedisServer } from './redis-server-fixture.ts';
import { timing } from './timing.ts';

/** As docs/redis.md gives it. */
const RULES = 'resetkeys ~nereid:* ~bull:* resetchannels &nereid:* &bull:* +@all -@dangerous +info';

let server: RedisServerFixture;

beforeAll(async () => {
  server = await startRedisServer(['--user', 'nereid', 'on', '>pw', ...RULES.split(' ')]);
});
afterAll(() => server.stop());

/** Until a job is over. */
async function newsOf(queues: JobQueues, model: string, id: string): Promise<string[]> {
  const kinds: string[] = [];
  const abort = new AbortController();
  for await (const news of queues.follow(model, id, undefined, abort.signal) as AsyncIterable<JobNews>) {
    kinds.push(news.kind);
    if (news.kind === 'end') break;
  }
  return kinds;
}

test.each([true, false])(
  'the permissions of docs/redis.md suffice for all of jobs, by our scripts: %s',
  async (scripts) => {
    const model = `m-${scripts}`;
    const connector = connectRedis(server.url.replace('unix://', 'unix://nereid:pw@'), { name: 'test:1' });
    const clock = systemClock();
    const log = createLog({ level: 'silent' });
    const queues = createJobQueues({ connector, timing: timing(), clock, log, scripts });
    const add = (id: string, data: unknown, more = {}) =>
      queues.add(model, {
        id,
        createdMs: Date.now(),
        data,
        priority: 0,
        delayMs: 0,
        attempts: 1,
        resultTtlS: 60,
        ...more,
      });
    const end = async ({ id, data }: TakenJob) => {
      const { act } = data as { readonly act: string };
      if (act === 'later' && later.delete(id)) return taker.putBack(id, 1);
      taker.progress(id, { n: 1 }, 5);
      return act === 'fail' ? taker.fail(id, 'INTERNAL: x', true, '{}') : taker.complete(id, 1, '{}');
    };
    const later = new Set(['later']);
    const taker = queues.take(model, {
      by: 'co-1',
      token: () => 'co-1:1',
      room: () => 8,
      taken(job) {
        void end(job);
        return true;
      },
      lost: () => {},
    });
    try {
      const ref = queues.payloads.inputRef(model, 'ok', 0);
      await queues.keys.claim(model, 'key', { id: 'ok', requestHash: 'h' });
      const inputs = [{ name: 'A', blob: { ref, byte_size: 1 } }];
      await add('ok', { act: 'ok', inputs }, { blobs: new Map([[ref, Uint8Array.of(1)]]), priority: 3 });
      expect(await newsOf(queues, model, 'ok')).toContain('end');
      await add('fail', { act: 'fail', webhook: 'http://a.example/' }, { attempts: 2 });
      await add('later', { act: 'later' });
      for (const [id, state] of [
        ['fail', 'failed'],
        ['later', 'completed'],
      ] as const) {
        expect(await queues.wait(model, id, 20_000)).toMatchObject({ state });
      }
      const step = (index: number) => ({ act: 'ok', sequence_index: index, parameters: { sequence_id: 7 } });
      for (const index of [0, 2, 1]) await add(`s${index}`, step(index));
      for (const index of [1, 2])
        expect(await queues.wait(model, `s${index}`, 20_000)).toMatchObject({ state: 'completed' });
      expect(await queues.letters.list(model, undefined, 10)).toMatchObject([{ id: 'fail' }]);
      expect(await queues.letters.replay(model, 'fail')).toBe('replayed');
      expect(await queues.wait(model, 'fail', 20_000)).toMatchObject({ state: 'failed' });
      expect(await queues.changes.retry(model, 'fail')).toBeDefined();
      expect(await queues.wait(model, 'fail', 20_000)).toMatchObject({ state: 'failed' });
      expect(await queues.deliveries.resend(model, 'fail')).toBe(true);
      await add('d1', { act: 'ok' }, { delayMs: 60_000 });
      expect(await queues.changes.cancel(model, 'd1')).toMatchObject({ data: { cancelled: true } });
      await queues.wait(model, 'd1', 20_000);
      expect(await queues.changes.remove(model, 'd1')).toBe(true);
      const states = new Set(['completed', 'failed'] as const);
      const listed = await queues.list({ models: [model], states, matches: () => true, limit: 10, after: undefined });
      expect(listed.jobs.length).toBeGreaterThan(3);
      expect(await queues.notes(model, 'fail')).not.toEqual([]);
      expect(await queues.counts(model)).toMatchObject({ failed: 1 });
      await queues.memory();
      const put = await queues.payloads.put(Uint8Array.of(1), 60, Date.now());
      expect((await queues.payloads.read([put])).size).toBe(1);
      const { client, ready } = connector.connect('sweep');
      await ready();
      const { signal } = new AbortController();
      const keys = redisKeys('nereid');
      await sweepOnce({ clock, log, client: () => client, keys, isNeeded: async () => true, signal });
    } finally {
      await taker.close();
      await queues.close();
      connector.close();
    }
  },
  30_000,
);
