import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { LIMITS } from '@nereid/config';
import type { Clock } from '@nereid/runtime';
import type { ObjectStore, StoredObject } from './object-store.ts';

/** The contents that came are not those that were listed. */
class IncompleteDownload extends Error {
  override readonly name = 'IncompleteDownload';
}

/**
 * Writes an object to a new file, and checks its size, and its MD5 where the store told one. The SDKs try again what
 * fails before the contents come; what breaks off within them is begun anew here. Throws the SDK's or the file system's
 * error.
 */
export async function downloadObject(
  store: ObjectStore,
  object: StoredObject,
  path: string,
  clock: Clock,
  stop: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await downloadOnce(store, object, path, clock, stop);
      return;
    } catch (error) {
      const mayPass = error instanceof IncompleteDownload || store.failure(error) === 'away';
      if (!mayPass || stop.aborted || attempt === LIMITS.cloud_download_attempts_max) throw error;
      await rm(path, { force: true });
    }
  }
}

async function downloadOnce(
  store: ObjectStore,
  object: StoredObject,
  path: string,
  clock: Clock,
  stop: AbortSignal,
): Promise<void> {
  const body = await store.read(object);
  const hash = object.md5 === undefined ? undefined : createHash('md5');
  let bytes = 0;
  const isAlive = watch(clock, () => bytes, body);
  try {
    const counted = async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        hash?.update(chunk);
        yield chunk;
      }
    };
    await pipeline(body, counted, createWriteStream(path, { flags: 'wx' }), { signal: stop });
  } finally {
    isAlive.cancel();
  }
  if (bytes !== object.size) {
    throw new IncompleteDownload(`'${object.key}' has ${object.size} bytes, and ${bytes} came`);
  }
  if (hash !== undefined && hash.digest('base64') !== object.md5) {
    throw new IncompleteDownload(`the MD5 of what came of '${object.key}' is not that of the object`);
  }
}

/** Ends a stream of which nothing comes any more. */
function watch(clock: Clock, bytes: () => number, body: { destroy(error: Error): unknown }): { cancel(): void } {
  let last = -1;
  const look = () => {
    if (bytes() === last) {
      body.destroy(Object.assign(new Error('nothing came for too long'), { code: 'ETIMEDOUT' }));
      return;
    }
    last = bytes();
    timer = clock.at(clock.nowUs() + LIMITS.cloud_idle_timeout_ms * 1000, look);
  };
  let timer = clock.at(clock.nowUs(), look);
  return { cancel: () => timer.cancel() };
}
