import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { NereidError, thrownText } from '@nereid/protocol';

/** A part of a POSIX shared-memory object that a client has registered. */
export interface Region {
  readonly name: string;
  readonly key: string;
  /** Where it begins in the object, bytes. */
  readonly offset: number;
  readonly byteSize: number;
  /** Kept open while it is registered or held, as a mapping would be: its name may vanish. */
  readonly descriptor: number;
  /** Requests whose answers go there. */
  holders: number;
  /** Unregistered: closed with the last holder. */
  gone: boolean;
}

export type RegionToOpen = Pick<Region, 'name' | 'key' | 'offset' | 'byteSize'>;

/** Of objects that the server's own processes share (Triton's Python backend); none is a client's. */
const RESERVED_KEY = 'triton_python_backend_shm_region_';

const NO_SUCH_FILE =
  'there is none on the machine of this gateway, or none that it may open; client and gateway must share a machine (and containers /dev/shm)';

/**
 * Opens the object of that key in the folder where the machine keeps them, never anything else: a key
 * is one name, and a link, a folder or a device behind it is refused. Throws INVALID_ARG with Triton's
 * text (shared_memory_manager.cc).
 */
export function openRegion(folder: string, { name, key, offset, byteSize }: RegionToOpen): Region {
  const descriptor = openObject(folder, name, key);
  try {
    const size = fstatSync(descriptor).size;
    if (!isSize(offset) || !isSize(byteSize) || byteSize === 0 || offset + byteSize > size) {
      throw invalid(`failed to register shared memory region '${name}': invalid args`);
    }
  } catch (thrown) {
    closeSync(descriptor);
    throw thrown;
  }
  return { name, key, offset, byteSize, descriptor, holders: 0, gone: false };
}

function openObject(folder: string, name: string, key: string): number {
  // As shm_open has it, `/key` and `key` are one.
  const file = key.replace(/^\/+/, '');
  if (file.startsWith(RESERVED_KEY)) {
    throw invalid(
      `failed to register shared memory region '${name}': keys that begin with '${RESERVED_KEY}' are reserved`,
    );
  }
  const unusable = (why: string) => invalid(`Unable to open shared memory region: '${key}': ${why}`);
  if (file === '' || file === '.' || file === '..' || /[/\0]/.test(file)) {
    throw unusable('a key is one name, with or without / before it');
  }
  const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants;
  let descriptor: number;
  try {
    // Not to wait for the other end of what is a pipe.
    descriptor = openSync(join(folder, file), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    throw unusable(NO_SUCH_FILE);
  }
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw unusable('it is no shared-memory object');
}

/** Throws INVALID_ARG where the place is outside the region; `field` is the tensor's. */
export function checkPlace({ name, byteSize }: Region, offset: number, length: number, field: string): void {
  if (offset >= byteSize)
    throw invalid(`Invalid offset for shared memory region: '${name}'`, `${field}.parameters.shared_memory_offset`);
  if (offset + length > byteSize) {
    throw invalid(
      `Invalid offset + byte size for shared memory region: '${name}'`,
      `${field}.parameters.shared_memory_byte_size`,
    );
  }
}

/** A copy of the bytes at a place that was checked. Throws INVALID_ARG where the client has cut the object meanwhile. */
export function readRegion(region: Region, offset: number, length: number): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(length);
  const start = region.offset + offset;
  for (let done = 0; done < length; ) {
    const count = transfer(region, () => readSync(region.descriptor, bytes, done, length - done, start + done));
    if (count === 0) throw cut(region);
    done += count;
  }
  return bytes;
}

/** Writes to a place that was checked. Throws INVALID_ARG where the client has cut the object meanwhile. */
export function writeRegion(region: Region, offset: number, bytes: Uint8Array): void {
  const start = region.offset + offset;
  // A write past its end would make the object grow.
  if (transfer(region, () => fstatSync(region.descriptor).size) < start + bytes.byteLength) throw cut(region);
  for (let done = 0; done < bytes.byteLength; ) {
    done += transfer(region, () => writeSync(region.descriptor, bytes, done, bytes.byteLength - done, start + done));
  }
}

export function closeRegion({ descriptor }: Region): void {
  closeSync(descriptor);
}

/** Runs a call to the system; what it throws names the region. */
function transfer(region: Region, call: () => number): number {
  try {
    return call();
  } catch (cause) {
    throw new NereidError('INTERNAL', `shared memory region '${region.name}' cannot be used: ${thrownText(cause)}`, {
      cause,
    });
  }
}

function cut({ name }: Region): NereidError {
  return invalid(`shared memory region '${name}' is shorter than when it was registered; register it again`);
}

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function invalid(message: string, field?: string): NereidError {
  return new NereidError('INVALID_ARG', message, field === undefined ? {} : { field });
}
