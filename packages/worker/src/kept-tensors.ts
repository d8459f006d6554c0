/** Outputs that stay in this worker's memory for the next step of their run (docs/protocol.md R40). */
import type { BlobRef, ProcessId, Tensor } from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';

/** One whose buffer is larger by this factor is copied: it would keep all of it from being freed. */
const EXCESS_FACTOR_MAX = 16;

export interface KeptTensorsParts {
  readonly clock: Clock;
  /** One that nobody renews is gone after so long. */
  readonly lifetimeMs: number;
  /** Of all that is kept; a tensor that goes beyond it is not kept. */
  readonly bytes_max: number;
}

/**
 * A tensor is *kept* from `keep` until it is dropped, or nobody has renewed it for its lifetime. It is the object that a
 * model's carrier gave: nobody writes to it, and no buffer of a result is used again. Requests of one batch share a
 * buffer, which is held, and counted, as long as any tensor of it is kept.
 */
export interface KeptTensors {
  /** Undefined where there is no room. The id begins with the worker's present one, at which it can be asked for. */
  keep(worker: ProcessId, tensor: Tensor): BlobRef | undefined;
  /** The kept tensor; undefined where it is gone, or another worker's. */
  find(ref: Pick<BlobRef, 'id'>): Tensor | undefined;
  renew(ids: readonly string[]): void;
  drop(ids: readonly string[]): void;
  /** Of the buffers that are held. */
  readonly bytes: number;
  /** Resolves once nothing is kept. */
  whenEmpty(): Promise<void>;
  /** Drops all. */
  clear(): void;
}

interface Kept {
  readonly tensor: Tensor;
  readonly untilUs: number;
}

export function createKeptTensors({ clock, lifetimeMs, bytes_max }: KeptTensorsParts): KeptTensors {
  /** By id, the one that has the least time left first. */
  const kept = new Map<string, Kept>();
  /** How many of the kept tensors are in each buffer. */
  const holders = new Map<ArrayBufferLike, number>();
  let bytes = 0;
  let made = 0;
  let timer: Timer | undefined;
  let waits: (() => void)[] = [];

  const hold = (buffer: ArrayBufferLike) => {
    const count = holders.get(buffer) ?? 0;
    holders.set(buffer, count + 1);
    if (count === 0) bytes += buffer.byteLength;
  };

  const letGo = (buffer: ArrayBufferLike) => {
    const left = (holders.get(buffer) ?? 1) - 1;
    if (left > 0) {
      holders.set(buffer, left);
      return;
    }
    holders.delete(buffer);
    bytes -= buffer.byteLength;
  };

  const lastUntil = () => clock.nowUs() + lifetimeMs * 1000;

  const forget = (id: string) => {
    const found = kept.get(id);
    if (found === undefined) return;
    kept.delete(id);
    letGo(found.tensor.data.buffer);
  };

  const settle = () => {
    if (kept.size > 0) return;
    timer?.cancel();
    timer = undefined;
    const waiting = waits;
    waits = [];
    for (const resolve of waiting) resolve();
  };

  const expire = () => {
    timer = undefined;
    const nowUs = clock.nowUs();
    for (const [id, { untilUs }] of kept) {
      if (untilUs > nowUs) {
        timer = clock.at(untilUs, expire);
        return;
      }
      forget(id);
    }
    settle();
  };

  return {
    keep(worker, tensor) {
      const { data } = tensor;
      const owned =
        data.byteLength * EXCESS_FACTOR_MAX < data.buffer.byteLength
          ? { ...tensor, data: new Uint8Array(data) }
          : tensor;
      const { buffer } = owned.data;
      if (bytes + (holders.has(buffer) ? 0 : buffer.byteLength) > bytes_max) return undefined;
      hold(buffer);
      const id = `${worker}-${++made}`;
      const untilUs = lastUntil();
      kept.set(id, { tensor: owned, untilUs });
      timer ??= clock.at(untilUs, expire);
      return { place: 'worker', id, bytes: data.byteLength };
    },
    find: ({ id }) => kept.get(id)?.tensor,
    renew(ids) {
      const untilUs = lastUntil();
      for (const id of ids) {
        const found = kept.get(id);
        if (found === undefined) continue;
        kept.delete(id);
        kept.set(id, { ...found, untilUs });
      }
    },
    drop(ids) {
      for (const id of ids) forget(id);
      settle();
    },
    get bytes() {
      return bytes;
    },
    whenEmpty: () => (kept.size === 0 ? Promise.resolve() : new Promise((resolve) => void waits.push(resolve))),
    clear() {
      for (const id of [...kept.keys()]) forget(id);
      settle();
    },
  };
}
