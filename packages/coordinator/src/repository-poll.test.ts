import { NereidError } from '@nereid/protocol';
import { createAtMost, createLog } from '@nereid/runtime';
import { beforeEach, expect, test } from 'vitest';
import { createRepositoryPoll, type PolledFolder } from './repository-poll.ts';

let folders: Map<string, string> | Error;
let conflicts: Set<string>;
let broken: Map<string, string>;
let owned: Set<string>;
let loaded: Set<string>;
let acts: string[];
let lines: string[];

beforeEach(() => {
  folders = new Map();
  conflicts = new Set();
  broken = new Map();
  owned = new Set();
  loaded = new Set();
  acts = [];
  lines = [];
});

function list(): Promise<PolledFolder[]> {
  if (folders instanceof Error) return Promise.reject(folders);
  const entries = [...folders].map(([name, signature]) => ({
    name,
    signature,
    conflict: conflicts.has(name) ? 'model appears in two or more repositories' : null,
  }));
  return Promise.resolve(entries);
}

function newPoll() {
  const log = createLog({ level: 'info', destination: { write: (line: string) => void lines.push(line) } });
  const poll = createRepositoryPoll({
    log,
    list,
    ours: () => [...owned],
    isLoaded: (name) => loaded.has(name),
    isBusy: () => false,
    async load(name) {
      acts.push(`load ${name}`);
      const reason = broken.get(name);
      if (reason !== undefined) throw new NereidError('INVALID_ARG', reason);
      loaded.add(name);
    },
    async unload(name) {
      acts.push(`unload ${name}`);
      loaded.delete(name);
    },
    limitLoads: createAtMost(4),
    // As the lease look does.
    looked() {
      for (const name of poll.present()) {
        if (owned.has(name)) continue;
        owned.add(name);
        loaded.add(name);
        acts.push(`take ${name}`);
      }
    },
    stopping: () => false,
  });
  const lookAt = async (found: Record<string, string>) => {
    folders = new Map(Object.entries(found));
    acts = [];
    await poll.look();
    // Loads are not waited for.
    await new Promise(setImmediate);
    return acts;
  };
  return { poll, lookAt };
}

test('follows what comes, changes and goes', async () => {
  const { poll, lookAt } = newPoll();
  folders = new Map([['a', '1']]);
  expect(await poll.begin()).toEqual(['a']);
  owned.add('a');
  loaded.add('a');
  expect(await lookAt({ a: '1', b: '1' })).toEqual([]);
  expect(await lookAt({ a: '1', b: '2' })).toEqual([]);
  expect(await lookAt({ a: '1', b: '2' })).toEqual(['take b']);
  expect(await lookAt({ a: '2', b: '2' })).toEqual([]);
  expect(await lookAt({ a: '2', b: '2' })).toEqual(['load a']);
  expect(await lookAt({ b: '2' })).toEqual([]);
  expect(await lookAt({ b: '2' })).toEqual(['unload a']);
  expect(await lookAt({ b: '2' })).toEqual([]);
  expect(poll.present()).toEqual(['b']);
});

test('a reload that fails is tried again at each look, and said once for each reason', async () => {
  const { poll, lookAt } = newPoll();
  folders = new Map([['a', '1']]);
  await poll.begin();
  owned.add('a');
  loaded.add('a');
  broken.set('a', 'no such file');
  await lookAt({ a: '2' });
  for (let look = 0; look < 3; look++) expect(await lookAt({ a: '2' })).toEqual(['load a']);
  expect(lines.filter((line) => line.includes('no such file'))).toHaveLength(1);
  broken.set('a', 'not a model');
  await lookAt({ a: '2' });
  expect(lines.filter((line) => line.includes('not a model'))).toHaveLength(1);
  broken.clear();
  expect(await lookAt({ a: '2' })).toEqual(['load a']);
  expect(await lookAt({ a: '2' })).toEqual([]);
});

test('a model that comes to be in two repositories is unloaded, and loaded again once it is in one', async () => {
  const { poll, lookAt } = newPoll();
  folders = new Map([['a', '1']]);
  await poll.begin();
  owned.add('a');
  loaded.add('a');
  conflicts.add('a');
  await lookAt({ a: '1' });
  expect(await lookAt({ a: '1' })).toEqual(['unload a']);
  conflicts.clear();
  await lookAt({ a: '1' });
  expect(await lookAt({ a: '1' })).toEqual(['load a']);
});

test('repositories that cannot be looked at change nothing, and that is said once', async () => {
  const { poll, lookAt } = newPoll();
  folders = new Map([['a', '1']]);
  await poll.begin();
  owned.add('a');
  loaded.add('a');
  folders = new Error('away');
  await poll.look();
  await poll.look();
  await poll.look();
  expect(acts).toEqual([]);
  expect(lines.filter((line) => line.includes('could not be looked at'))).toHaveLength(1);
  expect(await lookAt({ a: '1' })).toEqual([]);
});

test('nothing is begun twice while a load runs', async () => {
  let end: () => void = () => {};
  const { poll } = newPoll();
  folders = new Map([['a', '1']]);
  await poll.begin();
  const slow = createRepositoryPoll({
    log: createLog({ level: 'silent' }),
    list,
    ours: () => ['a'],
    isLoaded: () => false,
    isBusy: () => false,
    load(name) {
      acts.push(`load ${name}`);
      return new Promise<void>((resolve) => {
        end = resolve;
      });
    },
    unload: async () => {},
    limitLoads: createAtMost(4),
    looked: () => {},
    stopping: () => false,
  });
  await slow.begin();
  await slow.look();
  await slow.look();
  await slow.look();
  expect(acts).toEqual(['load a']);
  end();
  await new Promise(setImmediate);
  await slow.look();
  expect(acts).toEqual(['load a', 'load a']);
});
