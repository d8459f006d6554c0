/** What is recorded where Redis is away, slow or full. */
import { type Clock, createLog, systemClock, virtualClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import type { NewEnd, NewStep } from './journal.ts';
import { BOUNDS, recordedStep, stepsOf } from './journal-fixture.ts';
import { createJournalStore } from './journal-redis.ts';
import { connectRedis, type RedisConnection, type RedisConnector } from './redis-connection.ts';
import { useRedisLane } from './redis-transport-fixture.ts';

const lane = useRedisLane();
let prefixes = 0;
let prefix = '';

/** A store whose writing connection the test holds. */
function store(clock: Clock = systemClock()) {
  prefix = `a${++prefixes}`;
  return another(clock);
}

function another(clock: Clock = systemClock()) {
  const inner = lane.connector('test:journal');
  const listeners: ((event: 'lost' | 'ready') => void)[] = [];
  const lines: { readonly steps: number; readonly msg: string }[] = [];
  const control = { isAway: false, listeners, connection: undefined as RedisConnection | undefined };
  const connector: RedisConnector = {
    ...inner,
    connect(purpose, options) {
      const connection = inner.connect(purpose, options);
      if (purpose !== 'journal') return connection;
      control.connection = connection;
      return Object.defineProperties(Object.create(connection), {
        isReady: { get: () => !control.isAway && connection.isReady },
        watch: { value: (listener: () => void) => void listeners.push(listener) },
        isHandedOver: { get: () => connection.isHandedOver },
      });
    },
  };
  const log = createLog({ level: 'warn', destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const journal = createJournalStore({ connector, prefix, clock, log, limits: BOUNDS });
  const back = () => {
    control.isAway = false;
    for (const listener of listeners) listener('ready');
  };
  /** The next answer to an append is lost, after it was done. */
  const loseAnswer = () => {
    const client = control.connection?.client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const { nereidJournalAppend: append } = client;
    client.nereidJournalAppend = async (...args) => {
      if (append !== undefined) client.nereidJournalAppend = append;
      await append?.apply(client, args);
      throw new Error('Connection is closed.');
    };
  };
  return { journal, control, back, loseAnswer, lines };
}

const large = { name: 'A', datatype: 'UINT8', shape: [1], digest: 'd', data: new Uint8Array(67_108_864) } as const;
const end: NewEnd = { id: 'm~s', model: 'm', kind: 'sequence', state: 'freed', worker: 'wk-1' };

describe('where Redis is away', () => {
  test('steps are dropped at once, and their recording has a gap once Redis is back', async () => {
    const { journal, control, back } = store();
    await journal.append([...stepsOf('s', 0, 2), ...stepsOf('other', 0, 1)]);
    control.isAway = true;
    await journal.append([...stepsOf('s', 2, 3), ...stepsOf('new', 0, 1)]);
    await journal.append(stepsOf('s', 3, 4, { state: 'ended' }));
    await journal.end([end, { ...end, id: 'm~other' }]);
    expect(journal.dropped).toBe(3);
    back();
    await expect.poll(() => journal.find('m~s')).toMatchObject({ state: 'gap', steps: 2 });
    await expect.poll(() => journal.find('m~other')).toMatchObject({ state: 'freed', steps: 1 });
    await expect.poll(() => journal.isOver('m~s')).toBe(true);
    await journal.append([...stepsOf('new', 1, 2), ...stepsOf('s', 4, 5), ...stepsOf('fresh', 0, 1)]);
    expect(await journal.find('m~new')).toBeUndefined();
    expect(await journal.find('m~s')).toMatchObject({ state: 'gap', steps: 2 });
    expect(await journal.find('m~fresh')).toMatchObject({ state: 'open', steps: 1 });
    expect(journal.dropped).toBe(3);
  });

  test('a recording that has begun anew meanwhile, here or at another worker, has no gap', async () => {
    const { journal, control, back } = store();
    await journal.append([...stepsOf('s', 0, 2), ...stepsOf('t', 0, 2)]);
    control.isAway = true;
    await journal.append([...stepsOf('s', 2, 3), ...stepsOf('t', 2, 3)]);
    const elsewhere = { ...recordedStep(0), worker: 'wk-2' };
    await another().journal.append([{ ...stepsOf('t', 0, 1)[0], step: elsewhere } as NewStep]);
    control.isAway = false;
    await journal.append(stepsOf('s', 0, 1));
    back();
    await expect.poll(() => journal.isOver('m~t')).toBe(true);
    await journal.append(stepsOf('s', 1, 2));
    expect(await journal.find('m~s')).toMatchObject({ state: 'open', steps: 2 });
    expect(await journal.find('m~t')).toMatchObject({ state: 'open', steps: 1, worker: 'wk-2' });
  });

  test('a step that was kept though its answer was lost is no gap', async () => {
    const { journal, loseAnswer } = store();
    await journal.append(stepsOf('s', 0, 1));
    loseAnswer();
    await journal.append(stepsOf('s', 1, 2));
    expect(journal.dropped).toBe(1);
    // Until it is known, steps would be left out.
    await journal.end([]);
    await journal.append(stepsOf('s', 2, 3));
    expect(await journal.find('m~s')).toMatchObject({ state: 'open', steps: 3 });
  });

  test('is told once in ten seconds, with how many steps', async () => {
    const clock = virtualClock();
    const { journal, control, lines } = store(clock);
    await journal.append(stepsOf('s', 0, 1));
    control.isAway = true;
    for (let step = 1; step < 4; step++) await journal.append(stepsOf(`s${step}`, 0, 2));
    expect(lines).toMatchObject([{ steps: 2, msg: 'journal: steps not recorded: Redis is away' }]);
    clock.advanceUs(10_000_001);
    await journal.append(stepsOf('t', 0, 1));
    expect(lines).toMatchObject([{ steps: 2 }, { steps: 5 }]);
  });
});

describe('where Redis is slow', () => {
  test('one batch waits for a moment, those behind it not at all, and all are recorded', async () => {
    const clock = virtualClock();
    const { journal } = store(clock);
    await journal.append(stepsOf('s', 0, 1));
    process.kill(lane.redis.pid, 'SIGSTOP');
    try {
      let isOver = false;
      const waiting = journal.append(stepsOf('s', 1, 2)).then(() => {
        isOver = true;
      });
      clock.advanceUs(240_000);
      await new Promise(setImmediate);
      expect(isOver).toBe(false);
      clock.advanceUs(10_000);
      await waiting;
      await journal.append(stepsOf('s', 2, 3));
    } finally {
      process.kill(lane.redis.pid, 'SIGCONT');
    }
    await expect.poll(() => journal.find('m~s')).toMatchObject({ state: 'open', steps: 3 });
    await journal.append(stepsOf('s', 3, 4, { state: 'ended' }));
    expect(await journal.find('m~s')).toMatchObject({ state: 'ended', steps: 4 });
    expect(journal.dropped).toBe(0);
    expect(clock.liveTimers).toBe(0);
  });

  test('who sends waits for the first answer, and then only for what the system has not taken', async () => {
    const clock = virtualClock();
    const { journal, control } = store(clock);
    const first = journal.send(stepsOf('s', 0, 1));
    expect(first).toBeInstanceOf(Promise);
    await first;
    expect(journal.send(stepsOf('s', 1, 2))).toBeUndefined();
    await expect.poll(() => journal.find('m~s')).toMatchObject({ steps: 2 });
    const [step] = stepsOf('s', 2, 3);
    process.kill(lane.redis.pid, 'SIGSTOP');
    try {
      const answers = [{ ok: true as const, parameters: {}, outputs: [large] }];
      const waiting = journal.send([{ ...step, step: { ...recordedStep(2), answers } } as NewStep]);
      expect(waiting).toBeInstanceOf(Promise);
      clock.advanceUs(300_000);
      await waiting;
    } finally {
      process.kill(lane.redis.pid, 'SIGCONT');
    }
    await expect.poll(() => journal.find('m~s')).toMatchObject({ state: 'capped', steps: 2 });
    // A Redis that is new may not know the script.
    for (const listener of control.listeners) listener('lost');
    const again = journal.send(stepsOf('t', 0, 1));
    expect(again).toBeInstanceOf(Promise);
    await again;
    expect(journal.send(stepsOf('t', 1, 2))).toBeUndefined();
  });

  test('what waits for it is bounded', async () => {
    const clock = virtualClock();
    const { journal } = store(clock);
    const [step] = stepsOf('s', 1, 2);
    await journal.append(stepsOf('s', 0, 1));
    process.kill(lane.redis.pid, 'SIGSTOP');
    let waiting: Promise<void>;
    try {
      const answers = [{ ok: true as const, parameters: {}, outputs: [large] }];
      waiting = journal.append([{ ...step, step: { ...recordedStep(1), answers } } as NewStep]);
      await journal.append(stepsOf('t', 0, 1));
      expect(journal.dropped).toBe(1);
    } finally {
      process.kill(lane.redis.pid, 'SIGCONT');
    }
    await waiting;
    await journal.append(stepsOf('u', 0, 1));
    expect(await journal.find('m~u')).toMatchObject({ steps: 1 });
    expect(await journal.find('m~s')).toMatchObject({ state: 'capped', steps: 1 });
    expect(await journal.find('m~t')).toBeUndefined();
  });
});

describe('where Redis is full', () => {
  const memory = async (share: number) => {
    const { client } = lane.admin;
    const [, used] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? [];
    await client.call('CONFIG', 'SET', 'maxmemory', share === 0 ? '0' : String(Math.ceil(Number(used) / share)));
  };

  test('steps are dropped, and their recording has a gap', async () => {
    const { journal } = store();
    await journal.append(stepsOf('s', 0, 1));
    await memory(2);
    try {
      await journal.append(stepsOf('s', 1, 2));
      expect(journal.dropped).toBe(1);
      await expect.poll(() => journal.find('m~s')).toMatchObject({ state: 'gap', steps: 1 });
    } finally {
      await memory(0);
    }
  });

  test('or nearly so, no recording begins, the others go on', async () => {
    await store().journal.append([...stepsOf('s', 0, 1), ...stepsOf('t', 0, 2)]);
    await memory(0.95);
    try {
      const { journal } = another();
      await journal.append([...stepsOf('s', 1, 2), ...stepsOf('t', 0, 1), ...stepsOf('u', 0, 2)]);
      expect(await journal.find('m~s')).toMatchObject({ state: 'open', steps: 2 });
      // Its steps were of a sequence that is none any more.
      expect(await journal.find('m~t')).toBeUndefined();
      expect(await journal.find('m~u')).toBeUndefined();
      expect(journal.dropped).toBe(2);
      const recording = await journal.find('m~s');
      const put = { ...recording, id: 'm~import' } as NonNullable<typeof recording>;
      await expect(journal.put(put, [recordedStep(0)])).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      expect(await journal.find('m~import')).toBeUndefined();
    } finally {
      await memory(0);
    }
  });
});

test('the permissions of docs/redis.md suffice', async () => {
  const rules = 'resetkeys ~nereid:* ~bull:* resetchannels &nereid:* &bull:* +@all -@dangerous +info';
  await lane.admin.client.call('ACL', 'SETUSER', 'journal', 'on', '>pw', ...rules.split(' '));
  const connector = connectRedis(lane.redis.url.replace('unix://', 'unix://journal:pw@'), { name: 'test:acl' });
  lane.afterwards(() => connector.close());
  const log = createLog({ level: 'silent' });
  const journal = createJournalStore({ connector, prefix: 'nereid', clock: systemClock(), log, limits: BOUNDS });
  await journal.append(stepsOf('s', 0, 2));
  await journal.end([end]);
  expect(journal.dropped).toBe(0);
  expect(await journal.models()).toEqual(['m']);
  const { recordings } = await journal.list({ model: 'm', limit: 1, after: '' });
  expect(recordings).toMatchObject([{ state: 'freed', steps: 2 }]);
  expect(await journal.steps('m~s', 0, 2)).toHaveLength(2);
  expect(await journal.remove('m~s')).toBe(true);
  expect(await journal.models()).toEqual([]);
});
