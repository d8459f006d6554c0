import { execFileSync } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NereidError } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSharedMemory, cudaRefusal, type RegionInfo, type SharedMemory } from './shared-memory.ts';

let folder: string;
let memory: SharedMemory;
const outside = 'outside';

beforeEach(() => {
  const root = mkdtempSync(join(tmpdir(), 'nereid-shm-'));
  folder = join(root, 'shm');
  mkdirSync(folder);
  writeFileSync(join(root, outside), 'secret');
  memory = createSharedMemory(true, folder);
});
afterEach(() => {
  memory.close();
  expect(openObjects()).toEqual([]);
  rmSync(join(folder, '..'), { recursive: true });
});

/** Descriptors of this process on files of the folder. */
function openObjects(): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${descriptor}`);
      return target.startsWith(`${folder}/`) ? [target] : [];
    } catch {
      return [];
    }
  });
}

function object(name: string, bytes: Uint8Array | number): void {
  writeFileSync(join(folder, name), typeof bytes === 'number' ? Buffer.alloc(bytes) : bytes);
}

const region = (over: Partial<RegionInfo> = {}): RegionInfo => ({
  name: 'r',
  key: '/a',
  offset: 0,
  byteSize: 8,
  ...over,
});

function register(over: Partial<RegionInfo> = {}): void {
  expect(memory.register(region(over))).toEqual({ ok: true, value: undefined });
}

function thrown(action: () => unknown): unknown {
  try {
    return action();
  } catch (error) {
    if (error instanceof NereidError) return { code: error.code, message: error.message, field: error.field };
    throw error;
  }
}

describe('registering', () => {
  it.each([
    ['with / before the key', { key: '/a' }],
    ['without', { key: 'a' }],
    ['with several', { key: '//a' }],
    ['at an offset', { offset: 4, byteSize: 12 }],
    ['all of it', { byteSize: 16 }],
  ])('%s', (_how, over) => {
    object('a', 16);
    register(over);
    expect(memory.status('r')).toEqual({ ok: true, value: [region(over)] });
  });

  it.each<readonly [string, Partial<RegionInfo>, RegExp]>([
    ['no object of that key', { key: '/none' }, /^Unable to open shared memory region: '\/none': there is none/],
    ['a folder', { key: '/folder' }, /^Unable to open shared memory region: '\/folder'/],
    ['a pipe', { key: '/pipe' }, /^Unable to open shared memory region: '\/pipe': it is no shared-memory object/],
    ['a link out of the folder', { key: '/link' }, /^Unable to open shared memory region: '\/link'/],
    ['a path out of the folder', { key: `/../${outside}` }, /a key is one name/],
    ['a path into a folder', { key: '/folder/a' }, /a key is one name/],
    ['the folder itself', { key: '/.' }, /a key is one name/],
    ['the folder above', { key: '..' }, /a key is one name/],
    ['nothing', { key: '' }, /a key is one name/],
    ['only /', { key: '//' }, /a key is one name/],
    ['a key with a NUL', { key: 'a\0b' }, /a key is one name/],
    ['a key longer than a name can be', { key: `/${'k'.repeat(300)}` }, /^Unable to open shared memory region/],
    ["an object of the server's own", { key: '//triton_python_backend_shm_region_1' }, /are reserved$/],
    ['more than there is', { byteSize: 17 }, /^failed to register shared memory region 'r': invalid args$/],
    ['a place behind the end', { offset: 9 }, /^failed to register shared memory region 'r': invalid args$/],
    ['no bytes', { byteSize: 0 }, /^failed to register shared memory region 'r': invalid args$/],
    ['a size past 2^53', { byteSize: 2 ** 64 }, /^failed to register shared memory region 'r': invalid args$/],
    ['an offset past 2^53', { offset: 2 ** 60 }, /^failed to register shared memory region 'r': invalid args$/],
  ])('%s is refused', (_what, over, message) => {
    object('a', 16);
    object('triton_python_backend_shm_region_1', 16);
    mkdirSync(join(folder, 'folder'));
    object('folder/a', 16);
    symlinkSync(join('..', outside), join(folder, 'link'));
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    expect(memory.register(region(over))).toEqual({
      ok: false,
      error: expect.objectContaining({ code: 'INVALID_ARG', message: expect.stringMatching(message) }),
    });
    expect([memory.status(''), openObjects()]).toEqual([{ ok: true, value: [] }, []]);
  });

  it('without a name is refused', () => {
    expect(memory.register(region({ name: '' }))).toMatchObject({
      ok: false,
      error: { code: 'INVALID_ARG', message: "'region name' is necessary to register system shared memory region" },
    });
  });

  it('a name twice is refused', () => {
    object('a', 16);
    register();
    expect(memory.register(region({ key: '/none' }))).toEqual({
      ok: false,
      error: { code: 'ALREADY_EXISTS', message: "shared memory region 'r' already in manager" },
    });
  });

  it('is refused where the server does not let clients', () => {
    object('a', 16);
    const closed = createSharedMemory(false, folder);
    for (const answer of [closed.register(region()), closed.unregister('')]) {
      expect(answer).toMatchObject({
        ok: false,
        error: { code: 'UNSUPPORTED', message: expect.stringContaining('--allow-client-shm=true') },
      });
    }
    expect(closed.status('')).toEqual({ ok: true, value: [] });
  });

  it('more than a server takes is refused until some are unregistered', () => {
    object('a', 16);
    for (let index = 0; index < 4_096; index++) register({ name: `r${index}` });
    expect(memory.register(region())).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    memory.unregister('r7');
    register();
  });
});

describe('status and unregistering', () => {
  it('lists regions by name, tells one, and knows none that is not there', () => {
    object('a', 16);
    register({ name: 'b' });
    register({ name: 'a', offset: 8 });
    expect(memory.status('')).toEqual({ ok: true, value: [region({ name: 'a', offset: 8 }), region({ name: 'b' })] });
    expect(memory.status('c')).toEqual({
      ok: false,
      error: { code: 'NOT_FOUND', message: "Unable to find system shared memory region: 'c'" },
    });
  });

  it('takes away one, or all, and is content with what is not there', () => {
    object('a', 16);
    for (const name of ['a', 'b', 'c']) register({ name });
    expect(memory.unregister('b')).toEqual({ ok: true, value: undefined });
    expect(memory.unregister('b')).toEqual({ ok: true, value: undefined });
    expect(openObjects()).toHaveLength(2);
    expect(memory.unregister('')).toEqual({ ok: true, value: undefined });
    expect([memory.status(''), openObjects()]).toEqual([{ ok: true, value: [] }, []]);
  });

  it('waits with the object until the last request that holds a place is done', () => {
    object('a', 16);
    register();
    const [first, second] = [0, 4].map((offset) => memory.hold({ region: 'r', offset, byteSize: 4 }, 'outputs[0]'));
    expect(memory.held).toBe(2);
    memory.unregister('r');
    expect(thrown(() => memory.read('r', 0, 4, 'inputs[0]'))).toMatchObject({ code: 'NOT_FOUND' });
    // The name is free for another region.
    object('b', 8);
    register({ key: '/b' });
    first?.write(Uint8Array.of(1, 2, 3, 4));
    first?.release();
    first?.release();
    second?.write(Uint8Array.of(5, 6, 7, 8));
    expect([...readFileSync(join(folder, 'a')).subarray(0, 8)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(openObjects()).toHaveLength(2);
    second?.release();
    expect([openObjects().map((path) => path.slice(folder.length)), memory.held]).toEqual([['/b'], 0]);
  });
});

describe('reading and writing', () => {
  beforeEach(() => {
    object(
      'a',
      Uint8Array.from({ length: 16 }, (_, index) => index),
    );
    register({ offset: 4, byteSize: 8 });
  });

  it('is from the beginning of the region', () => {
    expect([...memory.read('r', 2, 3, 'inputs[0]')]).toEqual([6, 7, 8]);
    expect([...memory.read('r', 0, 8, 'inputs[0]')]).toEqual([4, 5, 6, 7, 8, 9, 10, 11]);
    expect([...memory.read('r', 0, 0, 'inputs[0]')]).toEqual([]);
    expect(memory.bytesRead).toBe(11);
    const place = memory.hold({ region: 'r', offset: 6, byteSize: 2 }, 'outputs[0]');
    place.write(Uint8Array.of(100, 101));
    place.release();
    expect([...readFileSync(join(folder, 'a'))].slice(8)).toEqual([8, 9, 100, 101, 12, 13, 14, 15]);
  });

  it('gives a copy: what the client writes later does not change it', () => {
    const bytes = memory.read('r', 0, 4, 'inputs[0]');
    const descriptor = openSync(join(folder, 'a'), 'r+');
    writeFileSync(descriptor, Buffer.alloc(16, 99));
    closeSync(descriptor);
    expect([...bytes]).toEqual([4, 5, 6, 7]);
  });

  it.each([
    ['an unknown region', 'none', 0, 1, 'NOT_FOUND', "Unable to find shared memory region: 'none'", 'region'],
    ['an offset at the end', 'r', 8, 1, 'INVALID_ARG', "Invalid offset for shared memory region: 'r'", 'offset'],
    ['an offset of 64 bits', 'r', 2 ** 64, 1, 'INVALID_ARG', "Invalid offset for shared memory region: 'r'", 'offset'],
    [
      'a size past the end',
      'r',
      4,
      5,
      'INVALID_ARG',
      "Invalid offset + byte size for shared memory region: 'r'",
      'byte_size',
    ],
    [
      'a size of 64 bits',
      'r',
      4,
      2 ** 64,
      'INVALID_ARG',
      "Invalid offset + byte size for shared memory region: 'r'",
      'byte_size',
    ],
  ])('of %s is refused', (_what, name, offset, byteSize, code, message, member) => {
    const expected = { code, message, field: `inputs[1].parameters.shared_memory_${member}` };
    expect(thrown(() => memory.read(name, offset, byteSize, 'inputs[1]'))).toEqual(expected);
    expect(thrown(() => memory.hold({ region: name, offset, byteSize }, 'inputs[1]'))).toEqual(expected);
    expect(memory.held).toBe(0);
  });

  it('of an object that the client has cut is refused, and does not make it grow', () => {
    const place = memory.hold({ region: 'r', offset: 0, byteSize: 8 }, 'outputs[0]');
    const descriptor = openSync(join(folder, 'a'), 'r+');
    ftruncateSync(descriptor, 6);
    closeSync(descriptor);
    const shorter = expect.objectContaining({
      code: 'INVALID_ARG',
      message: expect.stringContaining("region 'r' is shorter"),
    });
    expect(thrown(() => memory.read('r', 0, 8, 'inputs[0]'))).toEqual(shorter);
    expect(thrown(() => place.write(new Uint8Array(8)))).toEqual(shorter);
    expect(readFileSync(join(folder, 'a'))).toHaveLength(6);
    expect([...memory.read('r', 0, 2, 'inputs[0]')]).toEqual([4, 5]);
    place.release();
  });

  it('goes on where the client has taken away the name', () => {
    unlinkSync(join(folder, 'a'));
    expect([...memory.read('r', 0, 2, 'inputs[0]')]).toEqual([4, 5]);
  });
});

it('a CUDA region says what is needed', () => {
  expect(cudaRefusal('r')).toMatchObject({
    code: 'INVALID_ARG',
    message: expect.stringMatching(/'r', GPUs not supported/),
  });
});
