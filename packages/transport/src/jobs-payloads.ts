/**
 * Payloads: tensors of jobs, and those that a client has put for a job to come, as raw bytes in Redis under keys of
 * their own. Whoever has a reference reads; a reference of a job begins with the job's public id. Inputs of a job go when
 * it is completed; once it has failed they stay as long as a result would. Outputs have that time from the start. What a job leaves that is
 * gone is swept away (jobs-payload-sweep.ts).
 */
import { randomBytes } from 'node:crypto';
import { type JobBlobs, NereidError } from '@nereid/protocol';
import { newJobId, publicJobId } from './jobs-names.ts';
import type { AskRedis, JobsLink } from './jobs-safe-writes.ts';
import type { RedisClient, RedisConnection } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';

/** All methods that ask Redis reject with UNAVAILABLE where it does not answer, with the reason `redis_full` where it has no memory left. */
export interface JobPayloads {
  /** The reference of an input of that job. */
  inputRef(model: string, id: string, index: number): string;
  /** A new one each time: two runs of a job must not write the same. */
  outputRef(model: string, id: string, index: number): string;
  /** Resolves once Redis has them; without a time they stay until their job is gone. */
  write(blobs: JobBlobs, ttlS?: number): Promise<void>;
  /**
   * For what is safe once it resolves, by the client that makes it so: whatever of them is not there is written anew, as
   * where Redis lost it since.
   */
  ensure(client: RedisClient, blobs: JobBlobs, ttlS?: number): Promise<void>;
  /** Puts one for a job to come, safely, and gives its reference. */
  put(data: Uint8Array, ttlS: number, nowMs: number): Promise<string>;
  /** Those that are there. */
  read(refs: readonly string[]): Promise<JobBlobs>;
  /** One that is large, part by part; undefined where it is not there. Reading it rejects with NOT_FOUND where it goes meanwhile. */
  open(ref: string): Promise<OpenedPayload | undefined>;
  /** Reads what a job names, for its run; its own ones have no end to their time (any more). */
  take(model: string, id: string, refs: readonly string[]): Promise<JobBlobs>;
  /** Those of the job among them have no end to their time any more; false where one, of whomever, is gone. */
  keep(model: string, id: string, refs: readonly string[]): Promise<boolean>;
  /** Those of the job among them end after that time. */
  expire(model: string, id: string, refs: readonly string[], ttlS: number): Promise<void>;
  /** Those of the job among them go. */
  remove(model: string, id: string, refs: readonly string[]): Promise<void>;
}

export interface OpenedPayload {
  readonly bytes: number;
  readonly parts: AsyncIterable<Uint8Array>;
}

export interface JobPayloadsParts {
  /** Large values hold up what is behind them, so nothing else goes by it. */
  readonly connection: () => RedisConnection;
  readonly keys: RedisKeys;
  /** Asks Redis, and again if that failed. */
  readonly ask: AskRedis;
  /** Of what is promised once it resolves. */
  readonly safe: JobsLink;
}

/** Of references that no job has. */
const PUT = 'blob-';
const UNIQUE_BYTES = 6;
const PART_BYTES = 1_048_576;

export function createJobPayloads({ connection, keys, ask, safe }: JobPayloadsParts): JobPayloads {
  const on = <T>(command: (client: RedisClient) => Promise<T>): Promise<T> =>
    ask(async () => {
      const { client, isReady, ready } = connection();
      if (!isReady) await ready();
      return command(client);
    });

  const fetchAll = async (
    refs: readonly string[],
    fetch: (client: RedisClient, ref: string) => Promise<Buffer | null>,
  ): Promise<JobBlobs> => {
    const unique = [...new Set(refs)];
    const found = await on((client) => Promise.all(unique.map((ref) => fetch(client, ref))));
    const blobs = new Map<string, Uint8Array>();
    for (const [index, ref] of unique.entries()) {
      const data = found[index];
      if (data !== null && data !== undefined) blobs.set(ref, data);
    }
    return blobs;
  };

  const forOwn = async (
    [model, id, refs]: readonly [model: string, id: string, refs: readonly string[]],
    command: (client: RedisClient, key: string) => Promise<unknown>,
  ): Promise<void> => {
    const own = refs.filter((ref) => isOf(model, id, ref));
    if (own.length > 0) await on((client) => Promise.all(own.map((ref) => command(client, keys.payload(ref)))));
  };

  const write: JobPayloads['write'] = async (blobs, ttlS) => {
    await on((client) =>
      Promise.all(
        Array.from(blobs, ([ref, data]) => {
          const value = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
          const key = keys.payload(ref);
          return ttlS === undefined ? client.set(key, value) : client.set(key, value, 'EX', ttlS);
        }),
      ),
    );
  };

  const ensure: JobPayloads['ensure'] = async (client, blobs, ttlS) => {
    const found = await Promise.all(Array.from(blobs.keys(), (ref) => client.exists(keys.payload(ref))));
    if (found.includes(0)) await write(blobs, ttlS);
  };

  return {
    inputRef: (model, id, index) => `${publicJobId(model, id)}.i${index}`,
    outputRef: (model, id, index) =>
      `${publicJobId(model, id)}.o${index}.${randomBytes(UNIQUE_BYTES).toString('base64url')}`,
    write,
    async put(data, ttlS, nowMs) {
      const ref = `${PUT}${newJobId(nowMs)}`;
      const blobs = new Map([[ref, data]]);
      await write(blobs, ttlS);
      await safe.ask(() => ensure(safe.client(), blobs, ttlS));
      return ref;
    },
    ensure,
    read: (refs) => fetchAll(refs, (client, ref) => client.getBuffer(keys.payload(ref))),
    async open(ref) {
      const key = keys.payload(ref);
      const [isThere, bytes] = await on((client) => Promise.all([client.exists(key), client.strlen(key)]));
      if (isThere === 0) return undefined;
      const parts = async function* () {
        for (let at = 0; at < bytes; at += PART_BYTES) {
          const part = await on((client) => client.getrangeBuffer(key, at, at + PART_BYTES - 1));
          if (part.byteLength === 0) throw new NereidError('NOT_FOUND', `blob '${ref}' went while it was read`);
          yield part;
        }
      };
      return { bytes, parts: parts() };
    },
    take: (model, id, refs) =>
      fetchAll(refs, (client, ref) => {
        const key = keys.payload(ref);
        return isOf(model, id, ref) ? client.getexBuffer(key, 'PERSIST') : client.getBuffer(key);
      }),
    async keep(model, id, refs) {
      await forOwn([model, id, refs], (client, key) => client.persist(key));
      // What ran out before is not there now.
      const found = await on((client) => Promise.all(refs.map((ref) => client.exists(keys.payload(ref)))));
      return !found.includes(0);
    },
    expire: (model, id, refs, ttlS) => forOwn([model, id, refs], (client, key) => client.expire(key, ttlS)),
    remove: (model, id, refs) => forOwn([model, id, refs], (client, key) => client.unlink(key)),
  };
}

function isOf(model: string, id: string, ref: string): boolean {
  return ref.startsWith(`${publicJobId(model, id)}.`);
}

/** The public id of the job whose payload it is; undefined of what a client has put. */
export function jobOfPayload(ref: string): string | undefined {
  return /^(.+)\.(?:i\d+|o\d+\..+)$/.exec(ref)?.[1];
}
