import type { JobsFsync } from '@nereid/config';
import type { Clock, Log } from '@nereid/runtime';
import { openDataDirectory } from './data-directory.ts';
import { startEmbeddedRedis } from './embedded-redis.ts';
import type { PrivateRedisOptions } from './server-options.ts';

/** A Redis of this server alone, on its data directory. */
export interface PrivateRedis {
  /** Undefined where there is no Redis program: `hint` then says what to do. */
  readonly url: string | undefined;
  readonly hint: string | undefined;
  close(): Promise<void>;
}

/** Throws UNAVAILABLE where the directory or its Redis cannot be used. */
export async function openPrivateRedis(
  { dataDirectory: folder, searchPath }: PrivateRedisOptions,
  { clock, log, fsync }: { readonly clock: Clock; readonly log: Log; readonly fsync: JobsFsync },
): Promise<PrivateRedis> {
  const dataDirectory = await openDataDirectory(folder);
  try {
    const { redis, hint } = await startEmbeddedRedis({ dataDirectory, log, clock, searchPath, fsync });
    return {
      url: redis?.url,
      hint,
      async close() {
        await redis?.stop();
        await dataDirectory.close();
      },
    };
  } catch (failure) {
    await dataDirectory.close();
    throw failure;
  }
}
