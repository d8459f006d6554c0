import type { ModelRecord } from '@nereid/config';
import type { ChangeMessage, ErrorInfo, Message } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { createLocalDirectory, createLocalTransport, firstRanked } from '@nereid/transport';
import { expect, it } from 'vitest';
import { modelRecord, readyVersion, SIMPLE } from './gateway-fixture.ts';
import { createModelChanges } from './model-changes.ts';

const WAIT_MS = 10_000;
const settle = () => new Promise((resolve) => setImmediate(resolve));

async function changing(coordinators: readonly string[] = ['co-1', 'co-2']) {
  const clock = virtualClock();
  const transport = createLocalTransport({ messages_max: 1_000, bytes_max: 1e9 });
  const directory = createLocalDirectory<ModelRecord>();
  const received: (readonly [string, ChangeMessage])[] = [];
  const boxes = new Map(
    coordinators.map((id) => [
      id,
      transport.open(id, (messages) => {
        for (const message of messages) if (message.kind === 'change') received.push([id, message]);
      }),
    ]),
  );
  for (const id of coordinators) await directory.register({ id, role: 'coordinator', draining: false });
  const mailbox = transport.open('gw-1', (messages) => {
    for (const message of messages) {
      if (message.kind === 'changed') changes.changed(message);
      if (message.kind === 'stale') changes.stale(message);
    }
  });
  const changes = createModelChanges({ id: 'gw-1', clock, mailbox, directory, wait_ms: WAIT_MS });
  const pass = async (ms: number) => {
    clock.advanceUs(ms * 1000);
    await settle();
  };
  const tell = async (from: string, message: Message) => {
    boxes.get(from)?.send('gw-1', message);
    await settle();
  };
  /** The coordinator's word on the change that came to it last. */
  const say = async (from: string, over: boolean, error: ErrorInfo | null = null) => {
    await settle();
    const id = received.at(-1)?.[1].id ?? '';
    await tell(from, { kind: 'changed', model: 'simple', id, over, error, contentHash: 'h' });
  };
  const publish = (contentHash: string, state: 'READY' | 'UNLOADING') =>
    directory.publish('simple', { ...modelRecord(SIMPLE, [{ ...readyVersion('1'), state }]), contentHash });
  return { clock, directory, received, changes, pass, tell, say, publish };
}

/** What a promise has come to, `waits` where it has not. */
const stateOf = async (promise: Promise<unknown>) => {
  const late = Symbol('late');
  const state = await Promise.race([promise, settle().then(() => late)]);
  return state === late ? 'waits' : state;
};

it('goes to the owner, else to the coordinator that the model falls to, again under one id until it is over', async () => {
  const { changes, received, directory, pass, say, publish, clock } = await changing();
  const first = firstRanked('simple', ['co-1', 'co-2']) ?? '';
  const other = first === 'co-1' ? 'co-2' : 'co-1';
  await publish('h', 'READY');
  const loaded = changes.load('simple', 'x');
  await settle();
  await directory.acquire('simple', other);
  await pass(500);
  expect(received.map(([id]) => id)).toEqual([first, other]);
  expect(new Set(received.map(([, message]) => message.id)).size).toBe(1);
  expect(received[1]?.[1]).toMatchObject({ action: 'load', override: 'x', dependents: false });
  await say(other, true);
  expect(await loaded).toBeUndefined();
  await pass(2_000);
  expect([received.length, clock.liveTimers]).toEqual([2, 0]);
});

it('one that a coordinator has refused goes to the next soon', async () => {
  const { changes, received, directory, pass, tell } = await changing();
  const unloaded = changes.unload('simple', true);
  await settle();
  const [[from, { id }] = ['', { id: '' }]] = received;
  await directory.register({ id: from, role: 'coordinator', draining: true });
  await tell(from, { kind: 'stale', model: 'simple', id, known: null });
  await pass(100);
  expect(received.map(([to]) => to)).toEqual([from, from === 'co-1' ? 'co-2' : 'co-1']);
  expect(received[1]?.[1]).toMatchObject({ action: 'unload', dependents: true });
  changes.close();
  expect(await unloaded).toMatchObject({ code: 'UNAVAILABLE' });
});

it('takes as long as its coordinator says that it goes on, and no longer where none is heard', async () => {
  const { changes, pass, say, clock } = await changing();
  const loaded = changes.load('simple', '');
  for (let count = 0; count < 30; count++) {
    await pass(1_000);
    await say('co-1', false);
  }
  expect(await stateOf(loaded)).toBe('waits');
  for (let count = 0; count < 10; count++) await pass(1_000);
  expect(await stateOf(loaded)).toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining('see the index'),
  });
  expect(clock.liveTimers).toBe(0);
});

it('without a coordinator waits for one', async () => {
  const { changes, pass, received, directory } = await changing([]);
  const unloaded = changes.unload('simple', false);
  await pass(9_900);
  expect([await stateOf(unloaded), received.length]).toEqual(['waits', 0]);
  await pass(100);
  expect(await stateOf(unloaded)).toMatchObject({ code: 'UNAVAILABLE' });
  expect(directory.processes('coordinator')).toEqual([]);
});

it('is over once this gateway knows what became of it', async () => {
  const { changes, say, publish, clock } = await changing();
  await publish('before', 'READY');
  const loaded = changes.load('simple', '');
  await say('co-1', true);
  expect(await stateOf(loaded)).toBe('waits');
  await publish('h', 'READY');
  expect(await loaded).toBeUndefined();
  const unloaded = changes.unload('simple', false);
  await say('co-1', true);
  expect(await stateOf(unloaded)).toBe('waits');
  await publish('h', 'UNLOADING');
  expect(await unloaded).toBeUndefined();
  expect(clock.liveTimers).toBe(0);
});

it('what went wrong is told at once', async () => {
  const { changes, say } = await changing();
  const error: ErrorInfo = { code: 'INTERNAL', message: "failed to load 'simple'" };
  const loaded = changes.load('simple', '');
  await say('co-1', true, error);
  expect(await loaded).toEqual(error);
});
