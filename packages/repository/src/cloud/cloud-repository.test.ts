import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '@nereid/config';
import { systemClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { cloudPlace } from './cloud-place.ts';
import { cloudRepository } from './cloud-repository.ts';
import type { ObjectStore, StoreFailure } from './object-store.ts';

/** A store's own error, which says by itself what it means. */
class FakeError extends Error {
  readonly means: StoreFailure;
  constructor(means: StoreFailure) {
    super(`it is ${means}`);
    this.means = means;
  }
}

let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-cloud-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function cloud(given: Readonly<Record<string, string>>) {
  const objects = new Map(Object.entries(given));
  const tags = new Map<string, number>();
  const state = {
    objects,
    reads: [] as string[],
    reading: 0,
    readingMost: 0,
    readMs: 0,
    /** Called before each read; what it throws is what the read throws. */
    beforeRead: (_key: string) => {},
    body: (contents: string): Readable => Readable.from([Buffer.from(contents)]),
    listing: undefined as StoreFailure | undefined,
    put(key: string, contents: string) {
      objects.set(key, contents);
      tags.set(key, (tags.get(key) ?? 0) + 1);
    },
  };
  const store: ObjectStore = {
    async *pages(prefix) {
      if (state.listing !== undefined) throw new FakeError(state.listing);
      // One object a page, last key first.
      for (const key of [...objects.keys()]
        .filter((key) => key.startsWith(prefix))
        .sort()
        .reverse()) {
        yield [{ key, size: objects.get(key)?.length ?? 0, tag: String(tags.get(key) ?? 0) }];
      }
    },
    folders: async (prefix) => [
      ...new Set([...objects.keys()].map((key) => key.slice(prefix.length).split('/')[0] ?? '')),
    ],
    async read({ key, tag }) {
      state.reads.push(key);
      state.reading += 1;
      state.readingMost = Math.max(state.readingMost, state.reading);
      await delay(state.readMs);
      state.reading -= 1;
      state.beforeRead(key);
      const contents = objects.get(key);
      if (contents === undefined || String(tags.get(key) ?? 0) !== tag) throw new FakeError('changed');
      return state.body(contents);
    },
    failure: (error) => (error instanceof FakeError ? error.means : 'other'),
    close() {},
  };
  const place = cloudPlace('s3://bucket/models');
  if (place === undefined) throw new Error('it is a place');
  const repository = cloudRepository({
    place,
    open: async () => store,
    makeRoot: async () => mkdtempSync(join(root, 'models-')),
    clock: systemClock(),
  });
  return { repository, state };
}

const MODEL = { 'models/m/config.pbtxt': 'config', 'models/m/1/model.mjs': 'one' };

describe('a model is taken whole', () => {
  test('by one download, however many ask for it', async () => {
    const { repository, state } = cloud(MODEL);
    const [a, b] = await Promise.all([repository.fetch('m'), repository.fetch('m')]);
    expect(b?.directory).toBe(a?.directory);
    expect(state.reads.sort()).toEqual(Object.keys(MODEL).sort());
  });

  test('once more where a file changes between the listing and its download', async () => {
    const { repository, state } = cloud(MODEL);
    state.beforeRead = (key) => {
      state.beforeRead = () => {};
      state.put(key, 'changed');
    };
    const { directory } = await repository.fetch('m');
    const contents = ['config.pbtxt', '1/model.mjs'].map((file) => readFileSync(join(directory, file), 'utf8'));
    expect(contents.filter((text) => text === 'changed')).toHaveLength(1);
  });

  test('once more where a file comes meanwhile', async () => {
    const { repository, state } = cloud(MODEL);
    state.beforeRead = () => {
      if (!state.objects.has('models/m/labels.txt')) state.put('models/m/labels.txt', 'a');
    };
    const { directory } = await repository.fetch('m');
    expect(existsSync(join(directory, 'labels.txt'))).toBe(true);
  });

  test('or not at all: files that change at each try', async () => {
    const { repository, state } = cloud(MODEL);
    state.beforeRead = (key) => state.put(key, `${state.reads.length}`);
    await expect(repository.fetch('m')).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(
        /^the files of model 'm' in 's3:\/\/bucket\/models' changed while they were fetched/,
      ),
    });
    // Nothing half is left.
    const left = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(left).toEqual([]);
  });
});

describe('contents', () => {
  test('of which a part breaks off are downloaded anew, a few times', async () => {
    const { repository, state } = cloud(MODEL);
    let breaks = LIMITS.cloud_download_attempts_max - 1;
    state.body = (contents) => {
      const isWhole = contents !== 'one' || breaks === 0;
      if (!isWhole) breaks -= 1;
      return Readable.from([Buffer.from(isWhole ? contents : 'on')]);
    };
    const { directory } = await repository.fetch('m');
    expect(readFileSync(join(directory, '1/model.mjs'), 'utf8')).toBe('one');
    breaks = LIMITS.cloud_download_attempts_max;
    state.put('models/m/1/model.mjs', 'one');
    await expect(repository.fetch('m')).rejects.toThrow(
      "'m/1/model.mjs' of the model repository 's3://bucket/models' cannot be read: IncompleteDownload: 'models/m/1/model.mjs' has 3 bytes, and 2 came",
    );
  });

  test('come so many at a time', async () => {
    const many = Array.from({ length: 3 * LIMITS.cloud_downloads_max }, (_, index) => [`models/m/1/${index}`, 'x']);
    const { repository, state } = cloud(Object.fromEntries(many));
    state.readMs = 50;
    await repository.fetch('m');
    expect(state.readingMost).toBe(LIMITS.cloud_downloads_max);
  });

  test('that are older go once the last who holds them gives them back', async () => {
    const { repository, state } = cloud(MODEL);
    const old = await repository.fetch('m');
    const held = old.hold();
    state.put('models/m/config.pbtxt', 'another');
    const next = await repository.fetch('m');
    next.release();
    old.release();
    old.release();
    expect(existsSync(old.directory)).toBe(true);
    held.release();
    await expect.poll(() => existsSync(old.directory)).toBe(false);
    // What came last stays for the next load.
    state.reads.length = 0;
    expect((await repository.fetch('m')).directory).toBe(next.directory);
    expect(state.reads).toEqual([]);
  });

  test('are gone with the repository', async () => {
    const { repository } = cloud(MODEL);
    await repository.fetch('m');
    await repository.close();
    expect(readdirSync(root)).toEqual([]);
  });
});

describe('what cannot be had', () => {
  const at = "the model repository 's3://bucket/models'";
  test.each<[StoreFailure, string, string]>([
    [
      'no_bucket',
      'INVALID_ARG',
      `the bucket 'bucket' of ${at} does not exist: create it or correct --model-repository`,
    ],
    [
      'denied',
      'INVALID_ARG',
      `access to ${at} was denied (it is denied): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
    ],
    [
      'no_credentials',
      'INVALID_ARG',
      `there are no credentials for ${at} (it is no_credentials): set AWS_ACCESS_KEY_ID`,
    ],
    ['away', 'UNAVAILABLE', `${at} cannot be reached (it is away): check its address and the network`],
    ['other', 'UNAVAILABLE', `${at} cannot be read: it is other`],
  ])('a listing that fails: %s', async (failure, code, text) => {
    const { repository, state } = cloud(MODEL);
    state.listing = failure;
    for (const ask of [() => repository.list(), () => repository.fetch('m')]) {
      await expect(ask()).rejects.toMatchObject({ code, message: expect.stringContaining(text) });
    }
  });

  test('an object that may not be read is named', async () => {
    const { repository, state } = cloud(MODEL);
    state.beforeRead = () => {
      throw new FakeError('denied');
    };
    await expect(repository.fetch('m')).rejects.toThrow(
      /^access to 'm\/[^']+' of the model repository 's3:.* was denied/,
    );
  });

  test('a model that is not there', async () => {
    await expect(cloud(MODEL).repository.fetch('none')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: "model 'none' is not in the repository 's3://bucket/models'",
    });
  });

  test('a key that is no path', async () => {
    await expect(cloud({ ...MODEL, 'models/m//x': 'x' }).repository.fetch('m')).rejects.toThrow(
      "the key 'models/m//x' of model 'm' in 's3://bucket/models' cannot be the path of a file: rename it",
    );
  });

  test('a key that leads elsewhere is left out, as all that begins with a dot', async () => {
    const { repository, state } = cloud({ ...MODEL, 'models/m/../../x': 'x', 'models/m/1/..': 'x' });
    await repository.fetch('m');
    expect(state.reads.sort()).toEqual(Object.keys(MODEL).sort());
  });
});
