import {
  type BlobRef,
  type BlobTensor,
  type CarriedTensor,
  isBlobTensor,
  type Message,
  type ProcessId,
  type Tensor,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import type { BlobFiles } from './blob-files.ts';
import type { RedisBlobs, Stored } from './blob-redis.ts';
import type { LargeTensors } from './mailbox.ts';
import { forEachTensor } from './message-tensors.ts';
import { REDIS_VALUE_BYTES_MAX } from './redis-connection.ts';

/** Tensors below this stay in their frame: a blob costs about as much as the copies that it saves. */
export const INLINE_BYTES_MAX = 16_384;
/** Live blobs are renewed so often within their time to live. */
const RENEWALS_PER_TTL = 3;
/** What others should have taken by now is looked for once so much of the bound is used. */
const PRESSURE_SHARE = 0.5;
/** Between two such looks: each asks after all that is there. */
const LOOK_PAUSE_MS = 100;

export interface BlobOptions {
  /** Unique among all stores, ever; each blob's id begins with it. */
  readonly name: string;
  /** Bytes of all blobs of this process together; a message that goes beyond is refused as 'full'. */
  readonly bytes_max: number;
  /** Tensors of fewer bytes are sent within their frame; INLINE_BYTES_MAX by default. */
  readonly inline_bytes_max?: number;
  /** Absent where this host has no place for them. */
  readonly files?: BlobFiles | undefined;
  /** Whether all who may read the blobs of a message to that process read the same files. */
  readonly filesReach: (to: ProcessId, message: Message) => boolean;
}

interface BlobStoreParts extends BlobOptions {
  readonly redis: RedisBlobs;
  readonly ttlMs: number;
  readonly clock: Clock;
  /** Whether that is a process whose mailbox is open here. */
  readonly isHere: (id: ProcessId) => boolean;
}

/** The tensors of a message that go beside its frame. */
export interface Detached {
  readonly refs: ReadonlyMap<Tensor, BlobRef>;
  /** Until then the message is not to leave; undefined where all is in place. */
  readonly stored: Promise<Stored> | undefined;
  /** The message was not sent: what is given goes, since nobody will read it. */
  undo(): void;
}

/**
 * The blobs that one process has written.
 *
 * Those of requests that were made here are *owned*: written once, however often the request is sent,
 * and renewed until `release`. Any other is *given*: an answer's has one reader, who deletes it; what is
 * sent for a request that is over, or for one of another process whose end is not heard of here, runs
 * out. A file's bytes count until it is gone; a key's until its time is over, or Redis says that it is
 * gone, which is asked when the bound comes near.
 */
export interface BlobStore extends LargeTensors {
  /** Puts down what is large in the message, or says that there is no room. Undefined where nothing is large. */
  detach(to: ProcessId, message: Message): Detached | 'full' | undefined;
  /** What a blob holds; undefined where it is gone. `take` deletes it. */
  read(ref: BlobRef, take: boolean): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Bytes of blobs that are not known to be gone. */
  readonly bytes: number;
  /** Deletes what is owned. */
  close(): void;
}

interface FoundTensor {
  readonly tensor: Tensor;
  /** It may be sent again, and `release` will be called. */
  readonly keep: boolean;
}

const NONE: readonly FoundTensor[] = [];

interface OwnedBlob {
  readonly ref: BlobRef;
  /** Undefined once it is in place. */
  stored: Promise<Stored> | undefined;
}

export function createBlobStore(parts: BlobStoreParts): BlobStore {
  const { name, files, redis, clock, ttlMs, bytes_max } = parts;
  const inlineBytesMax = parts.inline_bytes_max ?? INLINE_BYTES_MAX;
  const owned = new Map<Tensor, OwnedBlob>();
  /** Requests that are over, of which a copy may still be sent. */
  const released = new WeakSet<Tensor>();
  /** A reader did not find the file, for whatever reason. */
  const fileless = new WeakSet<Tensor>();
  const given = new Map<BlobRef, { readonly untilUs: number }>();
  /** Of other processes, held here. */
  const kept = new Map<string, BlobRef>();
  let bytes = 0;
  let written = 0;
  let timer: Timer | undefined;
  let nextLookUs = 0;
  let asking = false;

  const forget = (ref: BlobRef) => {
    if (given.delete(ref)) bytes -= ref.bytes;
  };

  /** What a worker keeps is not here. */
  const remove = ({ place, id }: BlobRef) => {
    if (place === 'file') files?.remove(id);
    else if (place === 'redis') redis.remove([id]);
  };

  /** What has been taken, or has run out, counts no more. */
  const reclaim = () => {
    const nowUs = clock.nowUs();
    for (const [ref, { untilUs }] of given) {
      const over = ref.place === 'file' ? files?.exists(ref.id) !== true : nowUs >= untilUs;
      if (over) forget(ref);
    }
  };

  const reclaimFromRedis = async () => {
    if (asking) return;
    asking = true;
    const asked = new Map([...given.keys()].flatMap((ref) => (ref.place === 'redis' ? [[ref.id, ref]] : [])));
    const present = new Set(await redis.present([...asked.keys()]));
    for (const [id, ref] of asked) if (!present.has(id)) forget(ref);
    asking = false;
  };

  /** Well before the bound, since Redis answers later. */
  const makeRoom = (size: number) => {
    const nowUs = clock.nowUs();
    if (bytes + size <= bytes_max * PRESSURE_SHARE || nowUs < nextLookUs) return;
    nextLookUs = nowUs + LOOK_PAUSE_MS * 1000;
    reclaim();
    void reclaimFromRedis();
  };

  const write = (tensor: Tensor, inFile: boolean): OwnedBlob => {
    const { data } = tensor;
    const id = `${ttlMs}-${name}-${++written}`;
    if (inFile && !fileless.has(tensor) && files?.write(id, data) === true) {
      return { ref: { place: 'file', id, bytes: data.byteLength }, stored: undefined };
    }
    return { ref: { place: 'redis', id, bytes: data.byteLength }, stored: redis.write(id, data, ttlMs) };
  };

  /** One that could not be stored is written anew with the next send. */
  const settleOwned = async (tensor: Tensor, made: OwnedBlob) => {
    const stored = await made.stored;
    if (owned.get(tensor) !== made) return;
    if (stored === undefined || stored === 'stored') made.stored = undefined;
    else drop(tensor);
  };

  const isLarge = (tensor: CarriedTensor): tensor is Tensor =>
    'data' in tensor && tensor.data.byteLength >= inlineBytesMax;

  const largeTensors = (message: Message): readonly FoundTensor[] => {
    let found = NONE;
    forEachTensor(message, (tensor, replyTo) => {
      // Only who sent a request says when it is over.
      if (isLarge(tensor)) found = [...found, { tensor, keep: replyTo !== undefined && parts.isHere(replyTo) }];
    });
    return found;
  };

  const drop = (tensor: CarriedTensor) => {
    if (!isLarge(tensor)) return;
    const known = owned.get(tensor);
    if (known === undefined) return;
    owned.delete(tensor);
    bytes -= known.ref.bytes;
    remove(known.ref);
  };

  /** What was given. */
  const takeBack = (refs: Iterable<BlobRef>) => {
    for (const ref of refs) {
      if (!given.has(ref)) continue;
      forget(ref);
      remove(ref);
    }
  };

  const put = (tensor: Tensor, keep: boolean, inFile: boolean): OwnedBlob | 'full' => {
    const known = owned.get(tensor);
    if (known !== undefined && (inFile || known.ref.place !== 'file')) return known;
    // Somebody has come who does not see the file.
    if (known !== undefined) drop(tensor);
    const size = tensor.data.byteLength;
    makeRoom(size);
    if (bytes + size > bytes_max || size > REDIS_VALUE_BYTES_MAX) return 'full';
    const made = write(tensor, inFile);
    bytes += size;
    if (keep && !released.has(tensor)) {
      owned.set(tensor, made);
      void settleOwned(tensor, made);
    } else given.set(made.ref, { untilUs: clock.nowUs() + ttlMs * 1000 });
    return made;
  };

  const tick = () => {
    const keys: string[] = [];
    for (const ref of [...kept.values(), ...[...owned.values()].map(({ ref }) => ref)]) {
      if (ref.place === 'file') files?.renew(ref.id);
      else keys.push(ref.id);
    }
    redis.renew(keys, ttlMs);
    reclaim();
    if (bytes > bytes_max * PRESSURE_SHARE) void reclaimFromRedis();
    files?.sweep();
    wait();
  };

  const wait = () => {
    timer = clock.at(clock.nowUs() + (ttlMs * 1000) / RENEWALS_PER_TTL, tick);
  };

  wait();

  return {
    lifetimeMs: ttlMs,
    detach(to, message) {
      const large = largeTensors(message);
      if (large.length === 0) return undefined;
      const inFile = files !== undefined && parts.filesReach(to, message);
      const refs = new Map<Tensor, BlobRef>();
      const uploads: Promise<Stored>[] = [];
      for (const { tensor, keep } of large) {
        const blob = put(tensor, keep, inFile);
        if (blob === 'full') {
          takeBack(refs.values());
          return 'full';
        }
        refs.set(tensor, blob.ref);
        if (blob.stored !== undefined) uploads.push(blob.stored);
      }
      const stored = uploads.length === 0 ? undefined : worst(uploads);
      return { refs, stored, undo: () => takeBack(refs.values()) };
    },
    release(tensors) {
      for (const tensor of tensors) {
        if (!isLarge(tensor)) continue;
        released.add(tensor);
        drop(tensor);
      }
    },
    rewrite(tensors) {
      for (const tensor of tensors) {
        if (isLarge(tensor)) fileless.add(tensor);
        drop(tensor);
      }
    },
    keep(tensors) {
      for (const tensor of tensors) if (isNamed(tensor)) kept.set(tensor.blob.id, tensor.blob);
    },
    letGo(tensors) {
      for (const tensor of tensors) if (isNamed(tensor)) kept.delete(tensor.blob.id);
    },
    discard(tensors) {
      for (const tensor of tensors) {
        if (!isNamed(tensor)) continue;
        kept.delete(tensor.blob.id);
        remove(tensor.blob);
      }
    },
    async put(tensor, to, message, anew) {
      const made = put(tensor, false, !anew && files !== undefined && parts.filesReach(to, message));
      if (made === 'full') return undefined;
      if (made.stored === undefined || (await made.stored) === 'stored') return made.ref;
      takeBack([made.ref]);
      return undefined;
    },
    read(ref, take) {
      if (ref.place === 'worker') return undefined;
      return ref.place === 'file' ? files?.read(ref.id, ref.bytes, take) : redis.read(ref, take);
    },
    get bytes() {
      return bytes;
    },
    close() {
      timer?.cancel();
      for (const tensor of [...owned.keys()]) drop(tensor);
      redis.close();
    },
  };
}

/** Another process has put it down. */
function isNamed(tensor: CarriedTensor): tensor is BlobTensor {
  return isBlobTensor(tensor) && tensor.blob.place !== 'worker';
}

async function worst(uploads: readonly Promise<Stored>[]): Promise<Stored> {
  const all = await Promise.all(uploads);
  return all.find((stored) => stored !== 'stored') ?? 'stored';
}
