import type { BlobRef, CarriedTensor, Message, Tensor } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import type { BlobFiles } from './blob-files.ts';
import type { RedisBlobs, Stored } from './blob-redis.ts';
import { type BlobOptions, createBlobStore, type Detached } from './blob-store.ts';
import { withTensors } from './message-tensors.ts';
import { sampleMessage } from './sample-messages.ts';

const LIMIT = 100;
const TTL_MS = 12_000;
/** A store at its bound looks for what has been taken this often. */
const LOOK_US = 100_000;

const tensor = (bytes: number): Tensor => ({
  name: 'A',
  datatype: 'UINT8',
  shape: [bytes],
  data: new Uint8Array(bytes),
});

function message(kind: 'infer' | 'execute' | 'response', carried: Tensor): Message {
  return withTensors(sampleMessage(kind), () => carried);
}

function store(options: Partial<BlobOptions> & { readonly files?: BlobFiles | undefined } = {}) {
  const clock = virtualClock();
  const files = new Map<string, number>();
  const keys = new Map<string, number>();
  const renewed: string[] = [];
  const looks: string[] = [];
  const state = { room: true, stored: 'stored' as Stored, reach: true, here: true };
  const fakeFiles: BlobFiles = {
    host: 'here',
    write(id, data) {
      if (state.room) files.set(id, data.byteLength);
      return state.room;
    },
    read: (id, bytes) => (files.has(id) ? new Uint8Array(bytes) : undefined),
    exists(id) {
      looks.push(id);
      return files.has(id);
    },
    renew: (id) => void renewed.push(id),
    remove: (id) => void files.delete(id),
    sweep() {},
  };
  const redis: RedisBlobs = {
    async write(id, data) {
      if (state.stored === 'stored') keys.set(id, data.byteLength);
      return state.stored;
    },
    read: async ({ id, bytes }) => (keys.has(id) ? new Uint8Array(bytes) : undefined),
    present: async (ids) => ids.filter((id) => keys.has(id)),
    renew: (ids) => void renewed.push(...ids),
    remove(ids) {
      for (const id of ids) keys.delete(id);
    },
    close() {},
  };
  const made = createBlobStore({
    name: 'bl-1',
    bytes_max: 1_000,
    inline_bytes_max: LIMIT,
    files: fakeFiles,
    filesReach: () => state.reach,
    isHere: () => state.here,
    redis,
    ttlMs: TTL_MS,
    clock,
    ...options,
  });
  const send = (kind: 'infer' | 'execute' | 'response', carried: Tensor): BlobRef | 'full' | undefined => {
    const detached: Detached | 'full' | undefined = made.detach('to', message(kind, carried));
    return typeof detached === 'object' ? detached.refs.get(carried) : detached;
  };
  return { ...made, store: made, clock, files, keys, renewed, looks, state, send };
}

describe('blob store', () => {
  test.each([
    [LIMIT - 1, undefined],
    [LIMIT, 'file'],
  ])('a tensor of %i bytes goes by %s', (bytes, place) => {
    const sent = store().send('infer', tensor(bytes));
    expect(typeof sent === 'object' ? sent.place : sent).toBe(place);
  });

  test('R29: a request that is sent again names the same blob, until its outcome', () => {
    const { send, files, store: blobs } = store();
    const input = tensor(200);
    const first = send('infer', input);
    expect(send('infer', input)).toBe(first);
    expect(files.size).toBe(1);
    expect(blobs.bytes).toBe(200);
    blobs.release([input]);
    expect(files.size).toBe(0);
    expect(blobs.bytes).toBe(0);
  });

  test('R29: while the request waits its blob is renewed thrice in its time', () => {
    const { send, renewed, clock, store: blobs } = store();
    const input = tensor(200);
    send('infer', input);
    clock.advanceUs(TTL_MS * 1000);
    expect(renewed).toHaveLength(3);
    blobs.release([input]);
    clock.advanceUs(TTL_MS * 1000);
    expect(renewed).toHaveLength(3);
  });

  test('blobs of other processes are renewed from when they are kept until they are let go', () => {
    const { renewed, clock, store: blobs } = store();
    const held: CarriedTensor = {
      name: 'B',
      datatype: 'UINT8',
      shape: [200],
      blob: { place: 'redis', id: 'other-1', bytes: 200 },
    };
    blobs.keep([held]);
    clock.advanceUs((TTL_MS * 1000) / 3);
    expect(renewed).toEqual(['other-1']);
    blobs.letGo([held]);
    clock.advanceUs(TTL_MS * 1000);
    expect(renewed).toEqual(['other-1']);
    expect(blobs.bytes).toBe(0);
  });

  test('a copy that leaves after the outcome is not renewed', () => {
    const { send, renewed, clock, store: blobs } = store();
    const input = tensor(200);
    send('infer', input);
    blobs.release([input]);
    expect(send('infer', input)).toMatchObject({ place: 'file' });
    clock.advanceUs(TTL_MS * 1000);
    expect(renewed).toEqual([]);
  });

  test('R29: what a reader did not find is put down anew, in Redis', () => {
    const { send, files, keys, store: blobs } = store();
    const input = tensor(200);
    send('infer', input);
    blobs.rewrite([input]);
    expect(send('infer', input)).toMatchObject({ place: 'redis' });
    expect([files.size, keys.size, blobs.bytes]).toEqual([0, 1, 200]);
  });

  test('where a reader of another host has come the file is replaced', () => {
    const { send, files, state, store: blobs } = store();
    const input = tensor(200);
    send('infer', input);
    state.reach = false;
    expect(send('infer', input)).toMatchObject({ place: 'redis' });
    expect([files.size, blobs.bytes]).toEqual([0, 200]);
  });

  test('where there is no room for files it is Redis', () => {
    const { send, state } = store();
    state.room = false;
    expect(send('infer', tensor(200))).toMatchObject({ place: 'redis' });
  });

  test.each<Stored>(['lost', 'full'])(
    'what is %s on its way to Redis is written anew by the next send',
    async (stored) => {
      const { send, keys, state, store: blobs } = store({ files: undefined });
      const input = tensor(200);
      state.stored = stored;
      const detached = blobs.detach('to', message('infer', input));
      expect(typeof detached === 'object' && (await detached.stored)).toBe(stored);
      expect(blobs.bytes).toBe(0);
      state.stored = 'stored';
      send('infer', input);
      expect(keys.size).toBe(1);
    },
  );

  test('beyond its bound a message is refused; what readers have taken makes room', () => {
    const { send, files, clock } = store();
    for (let count = 0; count < 5; count++) expect(send('response', tensor(200))).toMatchObject({ place: 'file' });
    expect(send('response', tensor(200))).toBe('full');
    files.clear();
    clock.advanceUs(LOOK_US);
    expect(send('response', tensor(200))).toMatchObject({ place: 'file' });
  });

  test('answers in Redis count until Redis says that they are gone, or their time is over', async () => {
    const { send, keys, clock, store: blobs } = store({ files: undefined });
    for (let count = 0; count < 4; count++) send('response', tensor(200));
    await new Promise((resolve) => setImmediate(resolve));
    keys.clear();
    clock.advanceUs((TTL_MS * 1000) / 3);
    await new Promise((resolve) => setImmediate(resolve));
    expect(blobs.bytes).toBe(0);
    send('response', tensor(200));
    clock.advanceUs(TTL_MS * 1000 * 1.4);
    expect(blobs.bytes).toBe(0);
  });

  test('answers that are taken from Redis as fast as they come are never refused', async () => {
    const { send, keys, clock } = store({ files: undefined });
    for (let count = 0; count < 20; count++) {
      expect(send('response', tensor(200))).toMatchObject({ place: 'redis' });
      keys.clear();
      clock.advanceUs(LOOK_US);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  test('a message that is refused leaves nothing of its answers', () => {
    const { store: blobs, files } = store();
    const sample = sampleMessage('response');
    if (!sample.outcome.ok) throw new Error('no response among the samples');
    const { outcome } = sample;
    const answer = (...outputs: Tensor[]): Message => {
      return { ...sample, outcome: { ok: true, response: { ...outcome.response, outputs } } };
    };
    expect(blobs.detach('to', answer(tensor(600), tensor(600)))).toBe('full');
    expect([files.size, blobs.bytes]).toEqual([0, 0]);
    const detached = blobs.detach('to', answer(tensor(300), tensor(400)));
    expect(files.size).toBe(2);
    if (typeof detached === 'object') detached.undo();
    expect([files.size, blobs.bytes]).toEqual([0, 0]);
  });

  test('R29: a request that is refused stays owned, for the next send', () => {
    const { store: blobs, files } = store();
    const input = tensor(200);
    const detached = blobs.detach('to', message('infer', input));
    if (typeof detached === 'object') detached.undo();
    expect([files.size, blobs.bytes]).toEqual([1, 200]);
  });

  test('where nothing is taken not every send looks at all that is there', () => {
    const { send, looks } = store();
    for (let count = 0; count < 5; count++) send('response', tensor(200));
    for (let count = 0; count < 100; count++) expect(send('response', tensor(200))).toBe('full');
    expect(looks.length).toBeLessThan(10);
  });

  test('R29: a request of another process is not owned here, since nobody here hears of its end', () => {
    const { send, renewed, state, clock, store: blobs } = store({ files: undefined });
    state.here = false;
    send('execute', tensor(200));
    clock.advanceUs(TTL_MS * 1000 * 1.4);
    expect(renewed).toEqual([]);
    expect(blobs.bytes).toBe(0);
  });

  test('closing deletes what is owned and leaves answers to their readers', () => {
    const { send, files, clock, store: blobs } = store();
    send('infer', tensor(200));
    send('response', tensor(300));
    blobs.close();
    expect([...files.values()]).toEqual([300]);
    expect(clock.liveTimers).toBe(0);
  });

  test('a name of another process is renewed until it is let go, and discarding deletes it', () => {
    const { store: made, clock, files, keys, renewed } = store();
    const named = (place: BlobRef['place'], id: string): CarriedTensor => ({
      ...{ name: 'A', datatype: 'UINT8', shape: [4] },
      blob: { place, id, bytes: 4 },
    });
    files.set('f', 4);
    keys.set('r', 4);
    const tensors = [named('file', 'f'), named('redis', 'r'), named('worker', 'wk-1-1')];
    made.keep(tensors);
    clock.advanceUs((TTL_MS * 1000) / 2);
    expect(renewed).toEqual(['f', 'r']);
    made.letGo(tensors);
    clock.advanceUs(TTL_MS * 1000);
    expect(renewed).toEqual(['f', 'r']);
    made.discard(tensors);
    expect([...files.keys(), ...keys.keys()]).toEqual([]);
  });

  test('what is put down for others goes where all who may read it look, and anew where everybody does', async () => {
    const { store: made, files, keys, state } = store();
    const put = (anew: boolean) => made.put(tensor(LIMIT), 'ca-1', sampleMessage('put'), anew);
    expect(await put(false)).toMatchObject({ place: 'file', bytes: LIMIT });
    expect(await put(true)).toMatchObject({ place: 'redis', bytes: LIMIT });
    state.reach = false;
    expect(await put(false)).toMatchObject({ place: 'redis' });
    expect([files.size, keys.size, made.bytes]).toEqual([1, 2, 3 * LIMIT]);
  });

  test('what finds no room is not put down, and counts for nothing', async () => {
    const { store: made, state } = store({ files: undefined });
    state.stored = 'full';
    expect(await made.put(tensor(LIMIT), 'ca-1', sampleMessage('put'), false)).toBeUndefined();
    expect(made.bytes).toBe(0);
    state.stored = 'stored';
    expect(await made.put(tensor(2_000), 'ca-1', sampleMessage('put'), false)).toBeUndefined();
    expect(made.bytes).toBe(0);
  });
});
