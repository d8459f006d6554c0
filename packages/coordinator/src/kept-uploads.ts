import { overrideUploads } from '@nereid/config';
import type { Log } from '@nereid/runtime';
import type { Uploads } from '@nereid/transport';
import type { DesiredModels } from './desired-models.ts';

/** Uploads are kept as long as a model is wanted from them. */
export interface KeptUploads {
  /** Never rejects: what is not kept now is the next time. */
  keep(): Promise<void>;
  /** Lets go of those of these that no model is wanted from any more. Never rejects. */
  release(names: readonly string[]): Promise<void>;
}

export function createKeptUploads(
  uploads: Pick<Uploads, 'keep' | 'release'> | undefined,
  desired: Pick<DesiredModels, 'current'>,
  log: Log,
): KeptUploads {
  const wanted = () =>
    [...(desired.current()?.values() ?? [])].flatMap(({ override }) => overrideUploads(override ?? {}));

  const tried = async (run: () => Promise<void> | undefined) => {
    try {
      await run();
    } catch (error) {
      log.warn({ err: error }, 'what models were loaded from over the network may not be kept');
    }
  };

  return {
    keep: () => tried(() => uploads?.keep(wanted())),
    release(names) {
      const still = new Set(wanted());
      return tried(() => uploads?.release(names.filter((name) => !still.has(name))));
    },
  };
}
