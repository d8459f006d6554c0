import { LIMITS } from '@nereid/config';
import { type ErrorInfo, errorInfo, type SharedMemoryPlace, unknownRegion } from '@nereid/protocol';
import type { Result } from './result.ts';
import { checkPlace, closeRegion, openRegion, type Region, readRegion, writeRegion } from './shared-memory-region.ts';

/** What a client registers: a part of the POSIX shared-memory object that it made under that key. */
export interface RegionInfo {
  readonly name: string;
  readonly key: string;
  /** Bytes from the beginning of the object. */
  readonly offset: number;
  readonly byteSize: number;
}

/** A place in a region for a tensor of an answer. Whoever has it releases it once. */
export interface HeldPlace {
  /** Throws INVALID_ARG where the client has cut the region, INTERNAL where the system refuses. */
  write(bytes: Uint8Array): void;
  release(): void;
}

/**
 * The regions of system shared memory that clients have registered with this gateway
 * (shared_memory_manager.cc). Another gateway knows nothing of them: a client registers with the one
 * that it sends its requests to.
 *
 * A region is *registered*, then *gone* when it is unregistered: its name is free at once, and its
 * object is closed when no request holds a place in it any more.
 */
export interface SharedMemory {
  register(region: RegionInfo): Result<undefined>;
  /** Of all regions, by name, where the name is ''. */
  status(name: string): Result<readonly RegionInfo[]>;
  /** All regions where the name is ''; one that is not there is no mistake. */
  unregister(name: string): Result<undefined>;
  /** `ReadSharedMemory` of the decoders. */
  read(region: string, offset: number, byteSize: number, field: string): Uint8Array;
  /** All bytes read so far. */
  readonly bytesRead: number;
  /** Throws NOT_FOUND for an unknown region, INVALID_ARG for a place outside it; `field` is the tensor's. */
  hold(place: SharedMemoryPlace, field: string): HeldPlace;
  /** Places held now. */
  readonly held: number;
  close(): void;
}

/** As in Triton 2.73; before, clients could always register. */
const SWITCHED_OFF: ErrorInfo = {
  code: 'UNSUPPORTED',
  message: "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
};

const NAME_MISSING: ErrorInfo = {
  code: 'INVALID_ARG',
  message: "'region name' is necessary to register system shared memory region",
  field: 'region',
};

const DONE: Result<undefined> = { ok: true, value: undefined };

/** `folder` is where the machine keeps shared-memory objects; with `allowed` false nothing can be registered. */
export function createSharedMemory(allowed = true, folder = '/dev/shm'): SharedMemory {
  const regions = new Map<string, Region>();
  let held = 0;
  let bytesRead = 0;

  const find = (name: string, field: string): Region => {
    const region = regions.get(name);
    if (region === undefined) throw unknownRegion(name, field);
    return region;
  };

  const closeIfUnused = (region: Region) => {
    if (region.gone && region.holders === 0) closeRegion(region);
  };

  const remove = (region: Region) => {
    regions.delete(region.name);
    region.gone = true;
    closeIfUnused(region);
  };

  return {
    register(info) {
      if (!allowed) return failed(SWITCHED_OFF);
      if (info.name === '') return failed(NAME_MISSING);
      if (regions.has(info.name)) {
        return failed({ code: 'ALREADY_EXISTS', message: `shared memory region '${info.name}' already in manager` });
      }
      if (regions.size >= LIMITS.shared_memory_regions_max) {
        const message = `${regions.size} shared memory regions are registered already; unregister some`;
        return failed({ code: 'UNAVAILABLE', message });
      }
      try {
        regions.set(info.name, openRegion(folder, info));
        return DONE;
      } catch (thrown) {
        return failed(errorInfo(thrown));
      }
    },
    status(name) {
      if (name === '') return { ok: true, value: [...regions.values()].map(infoOf).sort(byName) };
      const region = regions.get(name);
      if (region !== undefined) return { ok: true, value: [infoOf(region)] };
      return failed({ code: 'NOT_FOUND', message: `Unable to find system shared memory region: '${name}'` });
    },
    unregister(name) {
      if (!allowed) return failed(SWITCHED_OFF);
      const leaving = name === '' ? [...regions.values()] : [regions.get(name)];
      for (const region of leaving) if (region !== undefined) remove(region);
      return DONE;
    },
    read(name, offset, byteSize, field) {
      const region = find(name, field);
      checkPlace(region, offset, byteSize, field);
      bytesRead += byteSize;
      return readRegion(region, offset, byteSize);
    },
    get bytesRead() {
      return bytesRead;
    },
    hold({ region: name, offset, byteSize }, field) {
      const region = find(name, field);
      checkPlace(region, offset, byteSize, field);
      region.holders++;
      held++;
      let released = false;
      return {
        write: (bytes) => writeRegion(region, offset, bytes),
        release() {
          if (released) return;
          released = true;
          region.holders--;
          held--;
          closeIfUnused(region);
        },
      };
    },
    get held() {
      return held;
    },
    close() {
      for (const region of [...regions.values()]) remove(region);
    },
  };
}

function failed(error: ErrorInfo): { readonly ok: false; readonly error: ErrorInfo } {
  return { ok: false, error };
}

function infoOf({ name, key, offset, byteSize }: Region): RegionInfo {
  return { name, key, offset, byteSize };
}

function byName(a: RegionInfo, b: RegionInfo): number {
  return a.name < b.name ? -1 : 1;
}

/** The status of a CUDA region that was asked for by name: there is never one. */
export function cudaUnknown(name: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `Unable to find cuda shared memory region: '${name}'` };
}

/** Of CUDA regions, which need a GPU that this server shares memory of: none can be registered (http_server.cc). */
export function cudaRefusal(name: string): ErrorInfo {
  const message = `failed to register CUDA shared memory region: '${name}', GPUs not supported; use system shared memory`;
  return { code: 'INVALID_ARG', message };
}
