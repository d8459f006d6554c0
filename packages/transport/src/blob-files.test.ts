import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BlobFiles, openBlobFiles } from './blob-files.ts';

const SHARED_MEMORY = '/dev/shm';
/** Linux; elsewhere large tensors go through Redis. */
const HAS_SHARED_MEMORY = existsSync(SHARED_MEMORY);
const DATA = Uint8Array.of(1, 2, 3, 4, 5);

let parent: string;
let folder: string;
let nowMs: number;

beforeEach(() => {
  if (!HAS_SHARED_MEMORY) return;
  parent = mkdtempSync(join(SHARED_MEMORY, 'nereid-test-'));
  folder = join(parent, `nereid-${process.getuid?.()}-p`);
  nowMs = Date.now();
});
afterEach(() => {
  if (HAS_SHARED_MEMORY) rmSync(parent, { recursive: true, force: true });
});

function open(): BlobFiles {
  const opened = openBlobFiles(parent, 'p', () => nowMs);
  if (!opened.ok) throw new Error(opened.reason);
  return opened.files;
}

describe.skipIf(!HAS_SHARED_MEMORY)('blob files', () => {
  test('what one process writes another reads, any number of times, until it takes it', () => {
    const reader = open();
    expect(open().write('12000-bl-1-1', DATA)).toBe(true);
    expect(reader.read('12000-bl-1-1', 5, false)).toEqual(DATA);
    expect(reader.read('12000-bl-1-1', 5, true)).toEqual(DATA);
    expect(reader.read('12000-bl-1-1', 5, true)).toBeUndefined();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('are for this user alone', () => {
    open().write('12000-bl-1-1', DATA);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, '12000-bl-1-1')).mode & 0o777).toBe(0o600);
  });

  test('one that is shorter than it should be is none', () => {
    const files = open();
    files.write('12000-bl-1-1', DATA);
    expect(files.read('12000-bl-1-1', 6, false)).toBeUndefined();
  });

  test('a name is never written twice, and the first stays', () => {
    const files = open();
    files.write('12000-bl-1-1', DATA);
    expect(files.write('12000-bl-1-1', new Uint8Array(5))).toBe(false);
    expect(files.read('12000-bl-1-1', 5, false)).toEqual(DATA);
  });

  test('what would fill the file system is refused, and leaves nothing', () => {
    const { blocks, bsize } = statfsSync(parent);
    const huge = { byteLength: blocks * bsize } as Uint8Array;
    expect(open().write('12000-bl-1-1', huge)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('a sweep takes those that nobody has renewed for their time, whoever wrote them', () => {
    const files = open();
    for (const id of ['1000-bl-dead-1', '1000-bl-2-1', '5000-bl-3-1']) files.write(id, DATA);
    writeFileSync(join(folder, 'something-else'), '');
    nowMs += 900;
    files.renew('1000-bl-2-1');
    nowMs += 900;
    open().sweep();
    expect(readdirSync(folder).sort()).toEqual(['1000-bl-2-1', '5000-bl-3-1', 'something-else']);
  });

  test('opening sweeps', () => {
    open().write('1000-bl-dead-1', DATA);
    nowMs += 1_500;
    open();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('processes that see one folder have one host, others another', () => {
    const other = mkdtempSync(join(SHARED_MEMORY, 'nereid-test-'));
    const elsewhere = openBlobFiles(other, 'p', () => nowMs);
    rmSync(other, { recursive: true });
    expect(open().host).toBe(open().host);
    expect(open().host).not.toMatch(/\s/);
    expect(elsewhere.ok && elsewhere.files.host).not.toBe(open().host);
  });

  test('a folder that is gone: nothing is written, read or swept, and nothing throws', () => {
    const files = open();
    rmSync(folder, { recursive: true });
    expect(files.write('12000-bl-1-1', DATA)).toBe(false);
    expect(files.read('12000-bl-1-1', 5, true)).toBeUndefined();
    files.renew('12000-bl-1-1');
    files.remove('12000-bl-1-1');
    files.sweep();
  });

  test.each<[rule: string, prepare: () => string, reason: RegExp]>([
    ['not in memory', () => '/proc', /\/proc is not on a tmpfs/],
    ['not there', () => join(parent, 'nowhere/at/all'), /nowhere\/at\/all.* cannot be used/],
    [
      'open to others',
      () => {
        open();
        chmodSync(folder, 0o755);
        return parent;
      },
      /not a folder of this user alone/,
    ],
    [
      'no folder',
      () => {
        writeFileSync(folder, '');
        return parent;
      },
      /cannot be used/,
    ],
  ])('a place that is %s is not used', (_rule, prepare, reason) => {
    const opened = openBlobFiles(prepare(), 'p', () => nowMs);
    expect(opened.ok ? '' : opened.reason).toMatch(reason);
  });
});
