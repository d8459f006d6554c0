import type { DescribedMessage, Epoch } from '@nereid/protocol';
import { createLog } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import {
  createHarness,
  EPOCH,
  eachWithHarness,
  errorOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const model = (answer: string) =>
  `export const execute = () => [{ outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(${answer}) } } }];`;
const x = request([int32('X', [1], [1])]);

describe('fencing', () => {
  const higher: Epoch = { number: 2, owner: 'co-test' };
  it.each([
    ['a lower number', { number: 1, owner: 'co-test' }],
    ['the same number from a lower owner', { number: 2, owner: 'co-aaa' }],
  ])('refuses %s and tells the highest', async (_, sent) => {
    await harness.javascript('m', model('1'));
    await harness.load('m', { epoch: higher });
    const old = sent.owner === 'co-test' ? harness.owner : undefined;
    const refused = old === undefined ? undefined : harness.next('refused');
    harness.owner.send('wk-test', {
      kind: 'execute',
      model: 'm',
      epoch: sent,
      version: '1',
      batch: 7,
      instance: 0,
      entries: [{ id: 'gw-test:1', replyTo: 'gw-test', request: x, session: null, slot: -1 }],
    });
    if (refused !== undefined)
      expect(await refused).toEqual({ kind: 'refused', model: 'm', batch: 7, sent, highest: higher });
    // Nothing of it was executed: the next answer is that of the next batch.
    const { done } = await harness.execute('m', [x], 0, higher);
    expect(harness.received.filter(({ kind }) => kind === 'done')).toEqual([done]);
    expect(harness.worker.refusedMessages).toBe(1);
  });

  it('lets a higher epoch take over', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [x], 0, higher);
    expect(outcomes[0]?.ok).toBe(true);
  });
});

describe('R29: a request whose data were gone', () => {
  it('does not run, and only its owner hears of it; the others of its batch run', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    const lost = {
      ...x,
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1], blob: { place: 'file', id: 'gone', bytes: 4 } }],
    } as const;
    const entry = { replyTo: 'gw-test', session: null, slot: -1 };
    const done = harness.next('done', ({ batch }) => batch === 70);
    harness.owner.send('wk-test', {
      kind: 'execute',
      model: 'm',
      epoch: EPOCH,
      version: '1',
      batch: 70,
      instance: 0,
      entries: [
        { ...entry, id: 'gw-test:1', request: lost },
        { ...entry, id: 'gw-test:2', request: x },
      ],
    });
    expect((await done).entries).toEqual([
      { id: 'gw-test:2', result: 'ok', error: null },
      { id: 'gw-test:1', result: 'blob', error: null },
    ]);
    const alone = harness.next('done', ({ batch }) => batch === 71);
    harness.owner.send('wk-test', {
      kind: 'execute',
      model: 'm',
      epoch: EPOCH,
      version: '1',
      batch: 71,
      instance: 0,
      entries: [{ ...entry, id: 'gw-test:3', request: lost }],
    });
    expect(await alone).toMatchObject({ executed: false, entries: [{ id: 'gw-test:3', result: 'blob' }] });
    expect(harness.received.flatMap((message) => (message.kind === 'response' ? [message.id] : []))).toEqual([
      'gw-test:2',
    ]);
  });
});

describe('describing', () => {
  it('answers with what it holds, also where that is nothing', async () => {
    const answer = harness.next('described', ({ askedAt }) => askedAt === 5);
    harness.owner.send('wk-test', { kind: 'describe', model: 'unknown', epoch: EPOCH, askedAt: 5 });
    expect(await answer).toMatchObject({ model: 'unknown', worker: 'wk-test', versions: [], draining: false });
  });

  it('lists instances, batches and running requests', async () => {
    await harness.javascript(
      'm',
      `export async function execute([{ inputs }]) { await new Promise((go) => setTimeout(go, 50)); return [{ outputs: { Y: inputs.get('X') } }]; }`,
      'instance_group { count: 2 kind: KIND_CPU }',
    );
    await harness.load('m');
    const running = harness.execute('m', [x], 1);
    const answer = harness.next('described', ({ askedAt }) => askedAt === 6);
    harness.owner.send('wk-test', { kind: 'describe', model: 'm', epoch: EPOCH, askedAt: 6 });
    expect((await answer).versions).toEqual([
      {
        version: '1',
        state: 'READY',
        reason: '',
        contentHash: 'hash',
        instances: [
          { index: 0, name: 'm_0_0', ready: true, passive: false, batches: [] },
          { index: 1, name: 'm_0_1', ready: true, passive: false, batches: [1] },
        ],
        running: ['gw-test:1'],
      },
    ]);
    await running;
  });
});

describe('loading', () => {
  it.each([
    ['a model that throws', `throw new Error('no luck');`, /^Internal: model 'm': cannot import model.mjs: no luck$/],
    [
      'a model without execute',
      'export {};',
      /^Invalid argument: model 'm': model.mjs must export a function 'execute'$/,
    ],
    [
      'a thread that ends',
      'process.exit(3);',
      /^Internal: instance 'm_0' of model 'm' ended: its thread ended with exit code 3$/,
    ],
  ])('%s is UNAVAILABLE with the reason', async (_, source, reason) => {
    await harness.javascript('m', source);
    const { versions } = await harness.load('m');
    expect(versions[0]).toMatchObject({ version: '1', state: 'UNAVAILABLE', reason: expect.stringMatching(reason) });
  });

  it('refuses a config whose backend is unknown, by name', async () => {
    await harness.javascript('m', model('1'));
    const { config } = await harness.control('m');
    const { versions } = await harness.load('m', { config: config.replace('"javascript"', '"nothing"') });
    expect(versions[0]?.reason).toMatch(/unable to find backend 'nothing'/);
  });

  it('refuses a config that cannot be read', async () => {
    await harness.javascript('m', model('1'));
    const { versions } = await harness.load('m', { config: '{"no_such_field": 1}' });
    expect(versions[0]).toMatchObject({
      state: 'UNAVAILABLE',
      reason: expect.stringMatching(/^Invalid argument: the model configuration cannot be read/),
    });
  });

  it('writes what a model logs to its own log, with the instance', async () => {
    const lines: string[] = [];
    const log = createLog({ level: 'info', destination: { write: (line) => void lines.push(line) } });
    const logging = await createHarness({ log });
    await logging.javascript(
      'm',
      `export function initialize({ context }) { context.log.warn('mind the gap'); } export const execute = () => [];`,
    );
    await logging.load('m');
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ instance: 'm_0', msg: 'mind the gap' }),
    );
    await logging.close();
  });

  it('refuses files that its owner did not read', async () => {
    await harness.javascript('m', model('1'));
    const { versions } = await harness.load('m', { contentHash: 'other' });
    expect(versions[0]).toMatchObject({
      state: 'UNAVAILABLE',
      reason: expect.stringMatching(
        /^Unavailable: the files of model 'm' on this worker \(hash\) are not those that its owner read \(other\)/,
      ),
    });
  });

  const stateOf = ({ versions }: DescribedMessage, load: number) =>
    versions.find((held) => (held.load ?? 0) === load)?.state;
  const answerOf = async (load: number) => {
    const { outcomes } = await harness.execute('m', [x], 0, EPOCH, load);
    return int32Values(responseOf(outcomes[0]).outputs[0])[0];
  };

  it('keeps a version that is held already', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    await harness.load('m');
    expect(harness.threads).toHaveLength(1);
  });

  it('holds a later load beside those that it is to keep, and drops the others', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    await harness.javascript('m', model('2'));
    harness.files.contentHash = 'second';
    const ready = harness.described('m', (message) => stateOf(message, 1) === 'READY');
    harness.owner.send('wk-test', await harness.control('m', { contentHash: 'second', load: 1, keep: [0] }));
    await ready;
    expect([await answerOf(0), await answerOf(1)]).toEqual([1, 2]);
    const dropped = harness.described('m', (message) => stateOf(message, 0) === undefined);
    harness.owner.send('wk-test', await harness.control('m', { contentHash: 'second', load: 1 }));
    await dropped;
    expect(harness.worker.counters().threads).toBe(1);
    expect(await answerOf(1)).toBe(2);
  });

  it('a later load that fails leaves those that it is to keep as they are', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    await harness.javascript('m', 'export const execute = (;');
    harness.files.contentHash = 'broken';
    const told = harness.described('m', (message) => stateOf(message, 1) === 'UNAVAILABLE');
    harness.owner.send('wk-test', await harness.control('m', { contentHash: 'broken', load: 1, keep: [0] }));
    expect((await told).versions).toMatchObject([
      { state: 'READY' },
      { load: 1, reason: expect.stringMatching(/^Internal: model 'm': cannot import/) },
    ]);
    expect(await answerOf(0)).toBe(1);
  });

  const instances = ({ versions }: DescribedMessage) =>
    (versions[0]?.instances ?? []).map(({ index, name, ready }) => `${index} ${name} ${ready}`);
  /** The same files with so many instances, as the worker says that it has them. */
  const change = async (count: number, contentHash: string, source = model('1')) => {
    await harness.javascript('m', source, `instance_group { count: ${count} kind: KIND_CPU }`);
    harness.files.contentHash = contentHash;
    const changed = harness.described(
      'm',
      ({ versions }) => versions[0]?.contentHash === contentHash || versions[0]?.reason !== '',
    );
    harness.owner.send('wk-test', await harness.control('m', { contentHash }));
    return changed;
  };

  it('adds and removes instances of the same files beside those that go on', async () => {
    await harness.javascript('m', model('1'), 'instance_group { count: 1 kind: KIND_CPU }');
    await harness.load('m');
    const [first] = harness.threads;
    expect(instances(await change(3, 'three'))).toEqual(['0 m_0_0 true', '1 m_0_1 true', '2 m_0_2 true']);
    const alone = harness.described('m', (message) => instances(message).length === 1);
    const { versions } = await change(1, 'one');
    expect(versions[0]?.state).toBe('READY');
    expect(instances(await alone)).toEqual(['0 m_0_0 true']);
    expect(harness.threads).toHaveLength(3);
    expect(harness.threads[0]).toBe(first);
    // Sent before its owner had heard of it: to be run elsewhere, and told anew what there is.
    const told = harness.described('m', () => true);
    harness.owner.send('wk-test', {
      ...{ kind: 'execute', model: 'm', epoch: EPOCH, version: '1', batch: 99, instance: 2 },
      entries: [{ id: 'gw-test:99', replyTo: 'gw-test', request: x, session: null, slot: -1 }],
    });
    const { entries } = await harness.next('done', ({ batch }) => batch === 99);
    expect(entries.map(({ result }) => result)).toEqual(['noslot']);
    expect(instances(await told)).toEqual(['0 m_0_0 true']);
    expect(await answerOf(0)).toBe(1);
  });

  it('stays as it is where other instances cannot be started, and says why', async () => {
    const source = `export const initialize = ({ instanceName }) => {
      if (instanceName === 'm_0_1') throw Error('no room');
    };
    ${model('1')}`;
    await harness.javascript('m', source, 'instance_group { count: 1 kind: KIND_CPU }');
    await harness.load('m');
    const { versions } = await change(2, 'two', source);
    expect(versions[0]).toMatchObject({
      state: 'READY',
      contentHash: 'hash',
      reason: expect.stringMatching(/no room/),
    });
    expect(versions[0]?.instances).toHaveLength(1);
    expect(await answerOf(0)).toBe(1);
  });

  it('unloads what the owner no longer names, and loads it again', async () => {
    await harness.javascript('m', model('1'));
    await harness.load('m');
    harness.owner.send('wk-test', await harness.control('m', { action: 'unload', config: '', versions: [] }));
    await harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    expect(harness.worker.counters().threads).toBe(0);
    expect(errorOf((await harness.execute('m', [x])).outcomes[0]).code).toBe('UNAVAILABLE');
    expect((await harness.load('m')).versions[0]?.state).toBe('READY');
  });
});
