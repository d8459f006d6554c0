/** The suite that every directory passes. Beliefs may lag behind: each look waits until it holds. */
import { describe, expect, test, vi } from 'vitest';
import type { Directory, DirectoryChange } from './directory.ts';
import { VALUE_BYTES_MAX, VALUES_MAX } from './directory-values.ts';

interface Held {
  readonly text: string;
}

export type MakeDirectory = () => Directory<Held> | Promise<Directory<Held>>;

const WORKER = { id: 'wk-1', role: 'worker', draining: false } as const;

export function directoryContract(name: string, makeDirectory: MakeDirectory): void {
  describe(`directory contract: ${name}`, () => {
    test('processes are listed by role until they leave; registering again replaces', async () => {
      const directory = await makeDirectory();
      await directory.register(WORKER);
      await directory.register({ id: 'co-1', role: 'coordinator', draining: false });
      await vi.waitFor(() => expect(directory.processes('worker')).toEqual([WORKER]));
      await directory.register({ ...WORKER, draining: true });
      await vi.waitFor(() => expect(directory.processes('worker')).toEqual([{ ...WORKER, draining: true }]));
      await directory.leave('wk-1');
      await vi.waitFor(() => expect(directory.processes('worker')).toEqual([]));
      await vi.waitFor(() => expect(directory.processes('coordinator')).toHaveLength(1));
      await directory.leave('never-registered');
    });

    test('where a process finds blobs as files is listed with it, whatever else is said of it', async () => {
      const directory = await makeDirectory();
      const coordinator = { id: 'co-1', role: 'coordinator', draining: false, blobHost: 'boot-1/27/4' } as const;
      for (const record of [coordinator, { ...coordinator, starting: true }, { ...coordinator, draining: true }]) {
        await directory.register(record);
        await vi.waitFor(() => expect(directory.processes('coordinator')).toEqual([record]));
      }
    });

    test('what a worker tells of itself is listed with it, and anew where it changes', async () => {
      const directory = await makeDirectory();
      for (const labels of [{ zone: 'a b', 'gpu/kind': 'x' }, { zone: 'c' }]) {
        const hosting = { labels, gpus: 0, memory: [], loads: 0, evictions: 0, refusals: 0 };
        const worker = { ...WORKER, hosting };
        await directory.register(worker);
        await vi.waitFor(() => expect(directory.processes('worker')).toEqual([worker]));
        await directory.retell(WORKER.id, { ...hosting, gpus: 2 });
        const retold = { ...worker, hosting: { ...hosting, gpus: 2 } };
        await vi.waitFor(() => expect(directory.processes('worker')).toEqual([retold]));
      }
      await directory.leave(WORKER.id);
      await directory.retell(WORKER.id, { labels: {}, gpus: 0, memory: [], loads: 0, evictions: 0, refusals: 0 });
      await vi.waitFor(() => expect(directory.processes('worker')).toEqual([]));
    });

    test('a coordinator that starts says so until it registers as started', async () => {
      const directory = await makeDirectory();
      const coordinator = { id: 'co-1', role: 'coordinator', draining: false } as const;
      await directory.register({ ...coordinator, starting: true });
      await vi.waitFor(() => expect(directory.processes('coordinator')).toEqual([{ ...coordinator, starting: true }]));
      await directory.register(coordinator);
      await vi.waitFor(() => expect(directory.processes('coordinator')).toEqual([coordinator]));
    });

    test('a lease has one owner at a time', async () => {
      const directory = await makeDirectory();
      const epoch = await directory.acquire('m', 'co-1');
      expect(epoch?.owner).toBe('co-1');
      expect(await directory.acquire('m', 'co-2')).toBeUndefined();
      await vi.waitFor(() => expect(directory.owner('m')).toEqual(epoch));
      await directory.release('m', 'co-2');
      expect(await directory.acquire('m', 'co-2')).toBeUndefined();
    });

    test('a process is registered, and a lease held, until it is given back', async () => {
      const directory = await makeDirectory();
      expect(directory.registered('wk-1')).toBe(false);
      await directory.register(WORKER);
      expect(directory.registered('wk-1')).toBe(true);
      await directory.leave('wk-1');
      expect(directory.registered('wk-1')).toBe(false);
      expect(directory.holds('m', 'co-1')).toBe(false);
      await directory.acquire('m', 'co-1');
      expect(directory.holds('m', 'co-1')).toBe(true);
      expect(directory.holds('m', 'co-2')).toBe(false);
      await directory.release('m', 'co-1');
      expect(directory.holds('m', 'co-1')).toBe(false);
    });

    test('each acquisition takes a new, higher epoch, also by the same process', async () => {
      const directory = await makeDirectory();
      const first = await directory.acquire('m', 'co-1');
      const again = await directory.acquire('m', 'co-1');
      expect(again?.number).toBeGreaterThan(first?.number ?? Number.POSITIVE_INFINITY);
      await directory.release('m', 'co-1');
      await vi.waitFor(() => expect(directory.owner('m')).toBeUndefined());
      const other = await directory.acquire('m', 'co-2');
      expect(other?.number).toBeGreaterThan(again?.number ?? Number.POSITIVE_INFINITY);
    });

    test('the new epoch is above the one that a worker has seen', async () => {
      const directory = await makeDirectory();
      expect((await directory.acquire('m', 'co-1', 41))?.number).toBeGreaterThan(41);
      expect((await directory.acquire('m', 'co-1', 7))?.number).toBeGreaterThan(42);
    });

    test('leases of two models are apart', async () => {
      const directory = await makeDirectory();
      expect((await directory.acquire('m', 'co-1'))?.owner).toBe('co-1');
      expect((await directory.acquire('n', 'co-2'))?.owner).toBe('co-2');
    });

    test('records are published, replaced and withdrawn', async () => {
      const directory = await makeDirectory();
      await directory.publish('m', { text: 'one' });
      await directory.publish('n', { text: 'other' });
      await directory.publish('m', { text: 'two' });
      await vi.waitFor(() => expect(directory.record('m')).toEqual({ text: 'two' }));
      expect([...directory.records()].map((record) => record.text).sort()).toEqual(['other', 'two']);
      await directory.withdraw('m');
      await vi.waitFor(() => expect(directory.record('m')).toBeUndefined());
      await directory.withdraw('m');
    });

    test('a value is what was set last, under a version that rises', async () => {
      const directory = await makeDirectory();
      await directory.register(WORKER);
      expect(directory.value('a')).toBeUndefined();
      const first = await directory.setValue('a', 'one');
      expect(first).toEqual({ text: 'one', version: 1 });
      expect(directory.value('a')).toEqual(first);
      const second = await directory.setValue('a', 'two');
      expect(second).toEqual({ text: 'two', version: 2 });
      expect(directory.value('a')).toEqual(second);
      expect(directory.value('b')).toBeUndefined();
    });

    test('a value can be set only where nobody has set it since', async () => {
      const directory = await makeDirectory();
      await directory.register(WORKER);
      expect(await directory.setValue('a', 'one', 0)).toEqual({ text: 'one', version: 1 });
      expect(await directory.setValue('a', 'other', 0)).toBeUndefined();
      expect(directory.value('a')).toEqual({ text: 'one', version: 1 });
      expect(await directory.setValue('a', 'two', 1)).toEqual({ text: 'two', version: 2 });
      // Of a version that a Redis without its data does not know any more.
      expect(await directory.setValue('a', 'ten', 9)).toEqual({ text: 'ten', version: 10 });
    });

    test('values are bounded in bytes and in number', async () => {
      const directory = await makeDirectory();
      await directory.register(WORKER);
      const tooLong = 'ü'.repeat(VALUE_BYTES_MAX / 2 + 1);
      await expect(directory.setValue('a', tooLong)).rejects.toMatchObject({ code: 'INVALID_ARG' });
      await directory.setValue('a', tooLong.slice(1));
      for (let count = 1; count < VALUES_MAX; count++) await directory.setValue(`n${count}`, '');
      await expect(directory.setValue('one more', '')).rejects.toMatchObject({ code: 'INVALID_ARG' });
      expect(await directory.setValue('a', '')).toEqual({ text: '', version: 2 });
    });

    test('values end with the last process', async () => {
      const directory = await makeDirectory();
      await directory.register(WORKER);
      await directory.register({ id: 'gw-1', role: 'gateway', draining: false });
      await directory.setValue('a', 'one');
      await directory.leave('wk-1');
      await vi.waitFor(() => expect(directory.processes('worker')).toEqual([]));
      expect(directory.value('a')?.text).toBe('one');
      await directory.leave('gw-1');
      await vi.waitFor(() => expect(directory.value('a')).toBeUndefined());
      await directory.register(WORKER);
      expect((await directory.setValue('a', 'two'))?.text).toBe('two');
    });

    test('a watcher hears of each kind of change, never inside the call, and not after it stopped', async () => {
      const directory = await makeDirectory();
      const heard: DirectoryChange[] = [];
      const stop = directory.watch((change) => heard.push(change));
      let calling = directory.register(WORKER);
      expect(heard).toEqual([]);
      await calling;
      calling = directory.publish('m', { text: 'one' });
      expect(heard.filter((change) => change.type === 'record')).toEqual([]);
      await calling;
      await directory.acquire('m', 'co-1');
      await directory.setValue('a', 'one');
      await vi.waitFor(() =>
        expect(heard).toEqual(
          expect.arrayContaining([
            { type: 'process', id: 'wk-1' },
            { type: 'record', model: 'm' },
            { type: 'owner', model: 'm' },
            { type: 'value', name: 'a' },
          ]),
        ),
      );
      stop();
      const before = heard.length;
      const other: DirectoryChange[] = [];
      directory.watch((change) => other.push(change));
      await directory.withdraw('m');
      await vi.waitFor(() => expect(other).toContainEqual({ type: 'record', model: 'm' }));
      expect(heard).toHaveLength(before);
    });

    test('a watcher may look up the new value when it is called', async () => {
      const directory = await makeDirectory();
      const seen = new Promise<Held | undefined>((resolve) => {
        directory.watch((change) => {
          if (change.type === 'record') resolve(directory.record(change.model));
        });
      });
      await directory.publish('m', { text: 'one' });
      expect(await seen).toEqual({ text: 'one' });
    });
  });
}
