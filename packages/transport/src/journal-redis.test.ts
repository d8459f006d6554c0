import { createLog, systemClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import type { JournalBounds, NewEnd, NewStep } from './journal.ts';
import { BOUNDS, recordedStep, recordedTensor, stepsOf } from './journal-fixture.ts';
import { recordingId } from './journal-names.ts';
import { createJournalStore } from './journal-redis.ts';
import { useRedisLane } from './redis-transport-fixture.ts';

const lane = useRedisLane();
let prefixes = 0;
let prefix = '';

function store(limits: Partial<JournalBounds> = {}) {
  prefix = `j${++prefixes}`;
  return another(limits);
}

/** On the same keys. */
const another = (limits: Partial<JournalBounds> = {}) =>
  createJournalStore({
    connector: lane.connector('test:journal'),
    prefix,
    clock: systemClock(),
    log: createLog({ level: 'silent' }),
    limits: { ...BOUNDS, ...limits },
  });

const idOf = (session: string) => recordingId('m', session);
const end = (session: string, state: NewEnd['state'], worker = 'wk-1'): NewEnd => ({
  id: idOf(session),
  model: 'm',
  kind: 'sequence',
  state,
  worker,
});
const keysLeft = async () => (await lane.admin.client.call('KEYS', `${prefix}:*`)) as string[];

describe('a recording', () => {
  test('is told with its steps as they came', async () => {
    const journal = store();
    const steps = stepsOf('gw-1:0', 0, 3);
    await journal.append(steps.slice(0, 2));
    expect(await journal.find('m~gw-1:0')).toEqual({
      id: 'm~gw-1:0',
      model: 'm',
      version: '1',
      kind: 'sequence',
      correlationId: 18446744073709551615n,
      requestId: 'c0',
      state: 'open',
      steps: 2,
      bytes: expect.any(Number),
      startedMs: 1_790_000_000_000.25,
      lastMs: 1_790_000_000_001.25,
      worker: 'wk-1',
      configSha256: 'c',
      contentHash: 'h',
      imported: false,
    });
    const last = { ...recordedStep(2), worker: 'wk-2', modelVersion: '2' };
    await journal.append([{ ...stepsOf('gw-1:0', 2, 3)[0], step: last, state: 'ended' } as NewStep]);
    expect(await journal.find('m%7Egw-1%3A0')).toMatchObject({
      state: 'ended',
      steps: 3,
      worker: 'wk-2',
      version: '2',
    });
    expect(await journal.steps('m~gw-1:0', 0, 10)).toEqual([...steps.slice(0, 2).map(({ step }) => step), last]);
    expect(await journal.steps('m~gw-1:0', 1, 1)).toEqual([steps[1]?.step]);
    expect(await journal.steps('m~gw-1:0', 3, 1)).toEqual([]);
    expect(journal.dropped).toBe(0);
    expect([await journal.find('m~none'), await journal.steps('m', 0, 1), await journal.remove('~')]).toEqual([
      undefined,
      [],
      false,
    ]);
  });

  test('has each large tensor once, whoever names it, and its data where it is read', async () => {
    const journal = store();
    const large = recordedTensor('A', 20_000, 7);
    const step = (index: number) => {
      const { request, ...rest } = recordedStep(index);
      const named = { name: 'D', datatype: 'UINT8' as const, shape: [4], digest: 'ab'.repeat(32) };
      return { ...rest, request: { ...request, inputs: [large, named, { ...large, name: 'SAME' }] } };
    };
    const [first, second] = stepsOf('s', 0, 2);
    await journal.append([{ ...first, step: step(0) } as NewStep]);
    const bytes = (await journal.find(idOf('s')))?.bytes ?? 0;
    expect(bytes).toBeGreaterThan(20_000);
    await journal.append([{ ...second, step: step(1) } as NewStep]);
    expect((await journal.find(idOf('s')))?.bytes).toBeLessThan(bytes + 2_000);
    const read = await journal.steps(idOf('s'), 0, 2);
    const digest = expect.stringMatching(/^[0-9a-f]{64}$/);
    for (const { request } of read) {
      const texts = request.inputs.map(({ data, ...rest }) => ({
        ...rest,
        data: data && Buffer.from(data).toString('hex'),
      }));
      const data = Buffer.alloc(20_000, 7).toString('hex');
      const { data: _, ...described } = large;
      const named = { name: 'D', datatype: 'UINT8', shape: [4], digest: 'ab'.repeat(32), data: undefined };
      expect(texts).toEqual([{ ...described, digest, data }, named, { ...described, name: 'SAME', digest, data }]);
    }
  });

  test.each<[rule: string, then: NewStep[], state: string, steps: number]>([
    ['whose next step is missing has a gap, and nothing behind it', stepsOf('s', 3, 5), 'gap', 2],
    ['that gets a step twice has a gap', stepsOf('s', 1, 2), 'gap', 2],
    ['that begins anew has the steps since', stepsOf('s', 0, 1), 'open', 1],
    ['that has as many steps as it may is capped', stepsOf('s', 2, 6), 'capped', 4],
    ['is ended by its last step', stepsOf('s', 2, 3, { state: 'ended' }), 'ended', 3],
  ])('%s', async (_rule, then, state, steps) => {
    const journal = store({ steps: 4 });
    await journal.append(stepsOf('s', 0, 2));
    await journal.append(then);
    await journal.append(stepsOf('s', 7, 8));
    if (state !== 'open') await journal.end([end('s', 'freed')]);
    const found = await journal.find(idOf('s'));
    expect(found).toMatchObject({ state: state === 'open' ? 'gap' : state, steps });
    expect(await journal.steps(idOf('s'), 0, 10)).toHaveLength(steps);
    expect(journal.isOver(idOf('s'))).toBe(true);
  });

  test('that is unknown takes no step but the first', async () => {
    const journal = store();
    await journal.append(stepsOf('s', 1, 3));
    expect(await journal.find(idOf('s'))).toBeUndefined();
    expect(journal.isOver(idOf('s'))).toBe(true);
    await journal.append(stepsOf('s', 0, 2));
    expect(await journal.find(idOf('s'))).toMatchObject({ steps: 2 });
    expect(journal.isOver(idOf('s'))).toBe(false);
  });

  test('is ended by its own worker alone, where it is open', async () => {
    const journal = store();
    await journal.append([...stepsOf('a', 0, 1), ...stepsOf('b', 0, 1, { state: 'ended' }), ...stepsOf('c', 0, 1)]);
    await journal.end([end('a', 'lost'), end('b', 'lost'), end('c', 'lost', 'wk-2'), end('none', 'lost')]);
    const states = await Promise.all(['a', 'b', 'c', 'none'].map((session) => journal.find(idOf(session))));
    expect(states.map((recording) => recording?.state)).toEqual(['lost', 'ended', 'open', undefined]);
    await journal.append(stepsOf('a', 1, 2));
    expect(await journal.find(idOf('a'))).toMatchObject({ state: 'lost', steps: 1 });
  });

  test('too large to begin is capped without a step', async () => {
    const journal = store({ recording_bytes: 300 });
    await journal.append(stepsOf('s', 0, 1));
    expect(await journal.find(idOf('s'))).toMatchObject({ state: 'capped', steps: 0, bytes: 0 });
    expect(await journal.steps(idOf('s'), 0, 1)).toEqual([]);
  });
});

describe('the recordings of a model', () => {
  test('are listed by pages, the newest first, each once whatever goes meanwhile', async () => {
    const journal = store();
    for (const session of ['a', 'b', 'c', 'd', 'e']) await journal.append(stepsOf(session, 0, 1));
    await journal.append([...stepsOf('f', 0, 1), ...stepsOf('g', 0, 1), ...stepsOf('h', 0, 1)]);
    const seen: string[][] = [];
    for (let after = ''; ; ) {
      const page = await journal.list({ model: 'm', limit: 2, after });
      seen.push(page.recordings.map(({ id }) => id));
      if (page.next === '') break;
      // The page goes on where the last one was.
      await journal.remove(page.recordings.at(-1)?.id ?? '');
      after = page.next;
    }
    expect(seen.flat().slice(0, 3).sort()).toEqual(['m~f', 'm~g', 'm~h']);
    expect(seen.flat().slice(3)).toEqual(['m~e', 'm~d', 'm~c', 'm~b', 'm~a']);
  });

  test.each(['x', '1', 'x~a', '~a', 'inf~a'])('are not listed behind %s, which is no place', async (after) => {
    await expect(store().list({ model: 'm', limit: 2, after })).rejects.toMatchObject({
      code: 'INVALID_ARG',
      field: 'after',
    });
  });

  test('beyond their number or their bytes go, the oldest first', async () => {
    const journal = store({ recordings: 3 });
    for (const session of ['a', 'b', 'c', 'd']) await journal.append(stepsOf(session, 0, 1));
    await journal.append(stepsOf('a', 1, 2));
    expect(journal.isOver(idOf('a'))).toBe(true);
    const ids = async () => (await journal.list({ model: 'm', limit: 10, after: '' })).recordings.map(({ id }) => id);
    expect(await ids()).toEqual(['m~d', 'm~c', 'm~b']);
    const bytes = (await journal.find('m~b'))?.bytes ?? 0;
    await another({ bytes: 2 * bytes }).append(stepsOf('e', 0, 1));
    expect(await ids()).toEqual(['m~e', 'm~d']);
  });

  test('are of models in order; one without any is forgotten', async () => {
    const journal = store();
    for (const model of ['z', 'a b', 'm']) await journal.append(stepsOf('s', 0, 1, { model }));
    expect(await journal.models()).toEqual(['a b', 'm', 'z']);
    await journal.remove('a%20b~s');
    expect(await journal.models()).toEqual(['m', 'z']);
    await journal.append(stepsOf('t', 0, 1, { model: 'a b' }));
    expect(await another().models()).toEqual(['a b', 'm', 'z']);
  });

  test('keep their bounds through ten thousand steps, and leave nothing behind', async () => {
    const limits = { steps: 60, recording_bytes: 40_000, recordings: 40, bytes: 600_000 };
    const journal = store(limits);
    for (let round = 0; round < 10; round++) {
      const sessions = Array.from({ length: 20 }, (_, index) => `${round}.${index}`);
      for (let step = 0; step < 50; step += 10) {
        await journal.append(sessions.flatMap((session) => stepsOf(session, step, step + 10)));
      }
      const { recordings } = await journal.list({ model: 'm', limit: 1_000, after: '' });
      expect(recordings.length).toBeLessThanOrEqual(limits.recordings);
      let bytes = 0;
      for (const recording of recordings) bytes += recording.bytes;
      expect(bytes).toBeLessThanOrEqual(limits.bytes);
      expect(await lane.admin.client.hget(`${prefix}:journal-bytes:{m}`, '')).toBe(String(bytes));
    }
    expect(journal.dropped).toBe(0);
    // Whatever nobody removes runs out.
    for (const key of await keysLeft()) expect(await lane.admin.client.pttl(key)).toBeGreaterThan(0);
    const { recordings } = await journal.list({ model: 'm', limit: 1_000, after: '' });
    for (const { id } of recordings) expect(await journal.remove(id)).toBe(true);
    expect(await journal.models()).toEqual([]);
    expect(await keysLeft()).toEqual([]);
  }, 30_000);
});

describe('age', () => {
  test('of all that a recording has begins anew with each step', async () => {
    const journal = store({ age_s: 1_000 });
    await journal.append(stepsOf('s', 0, 1));
    const { client } = lane.admin;
    const large = {
      ...recordedStep(1),
      answers: [{ ok: true, parameters: {}, outputs: [recordedTensor('B', 20_000)] }],
    };
    await journal.append([{ ...stepsOf('s', 1, 2)[0], step: large } as NewStep]);
    const keys = (await keysLeft()).filter((key) => !key.includes('journal-models'));
    expect(keys).toHaveLength(6);
    for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(1_000_000);
    // As if most of it were over.
    const recording = `${prefix}:journal-recording:{m}:s`;
    const soon = Date.now() + 60_000;
    for (const key of keys) await client.pexpireat(key, soon);
    await client.hset(recording, 'until', soon);
    await journal.append(stepsOf('s', 2, 3));
    for (const key of keys) {
      const left = await client.pttl(key);
      expect(left).toBeGreaterThan(1_000_000);
      expect(left).toBeLessThanOrEqual(1_000_000 * (65 / 64) + 1);
    }
  });

  test('takes recordings away, and those that begin later what is left of them', async () => {
    const journal = store();
    await journal.append([...stepsOf('a', 0, 1), ...stepsOf('b', 0, 1), ...stepsOf('c', 0, 1)]);
    const { client } = lane.admin;
    const runOut = async (session: string) => {
      for (const part of ['recording', 'steps']) await client.del(`${prefix}:journal-${part}:{m}:${session}`);
      await client.zadd(`${prefix}:journal-until:{m}`, 1, session);
    };
    await runOut('a');
    await runOut('b');
    expect((await journal.list({ model: 'm', limit: 1, after: '' })).recordings).toMatchObject([{ id: 'm~c' }]);
    await journal.append(stepsOf('d', 0, 1));
    expect(await client.zrange(`${prefix}:journal:{m}`, '0', '-1')).toEqual(['c', 'd']);
    const bytes = await client.hgetall(`${prefix}:journal-bytes:{m}`);
    expect(Object.keys(bytes).sort()).toEqual(['', 'c', 'd']);
    expect(Number(bytes[''])).toBe(Number(bytes.c) + Number(bytes.d));
    await runOut('c');
    await runOut('d');
    expect(await journal.list({ model: 'm', limit: 10, after: '' })).toEqual({ recordings: [], next: '' });
    expect(await journal.models()).toEqual([]);
    expect(await keysLeft()).toEqual([]);
  });
});

describe('a recording from a file', () => {
  test('is as it was, and is marked', async () => {
    const journal = store();
    await journal.append(stepsOf('s', 0, 3));
    const recording = await journal.find(idOf('s'));
    const steps = await journal.steps(idOf('s'), 0, 3);
    const put = { ...recording, id: 'm~import-1', state: 'freed', imported: true } as NonNullable<typeof recording>;
    expect(await journal.put(put, steps)).toEqual(put);
    expect(await journal.steps('m~import-1', 0, 3)).toEqual(steps);
    expect((await journal.list({ model: 'm', limit: 1, after: '' })).recordings).toEqual([put]);
  });

  test.each([
    ['more steps than one may have', stepsOf('s', 0, 6), 'it may have 5 steps and 20000 bytes'],
    ['more bytes', [{ ...stepsOf('s', 0, 1)[0], step: large() } as NewStep], 'it may have 5 steps and 20000 bytes'],
    ['none', [], 'no steps'],
    ['steps in a wrong order', [...stepsOf('s', 0, 1), ...stepsOf('s', 2, 3)], 'numbered 0, 1, 2'],
  ])('that has %s is refused, and nothing of it is left', async (_what, steps, why) => {
    const journal = store({ steps: 5, recording_bytes: 20_000 });
    await journal.append(stepsOf('s', 0, 1));
    const recording = await journal.find(idOf('s'));
    const put = { ...recording, id: 'm~import-1' } as NonNullable<typeof recording>;
    const given = steps.map(({ step }) => step);
    await expect(journal.put(put, given)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining(why),
    });
    await journal.remove(idOf('s'));
    expect(await journal.models()).toEqual([]);
    expect(await keysLeft()).toEqual([]);
  });
});

function large() {
  return {
    ...recordedStep(0),
    answers: [{ ok: true as const, parameters: {}, outputs: [recordedTensor('B', 20_000)] }],
  };
}
