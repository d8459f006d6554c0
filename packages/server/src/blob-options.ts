import { DEFAULTS, LIMITS, type ModelRecord } from '@nereid/config';
import { senderOf } from '@nereid/protocol';
import { type Clock, type Log, newProcessId } from '@nereid/runtime';
import { type BlobFiles, type BlobOptions, type Directory, openBlobFiles } from '@nereid/transport';
import type { RedisOptions } from './server-options.ts';

/** Whose mailboxes answers come to. */
const ANSWERED = ['gateway', 'coordinator', 'caller'] as const;

interface BlobParts {
  readonly redis: RedisOptions;
  readonly prefix: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly directory: Directory<ModelRecord>;
}

/**
 * How this process passes large tensors on: by files in shared memory to those that are registered
 * with the same place for them, through Redis to all others. Who is registered is a belief, so a
 * reader may still not find a file; then the sender uses Redis (docs/protocol.md R29).
 */
export function blobOptions(parts: BlobParts): BlobOptions {
  const { directory } = parts;
  const files = sharedFiles(parts);
  const common = { name: newProcessId('bl'), bytes_max: LIMITS.blob_bytes_max };
  if (files === undefined) return { ...common, filesReach: () => false };
  return {
    ...common,
    files,
    filesReach(to, message) {
      // A request may come to any worker, also after a first one died. An answer has one reader, and an owner
      // that passes it on renews what it holds.
      const answered = ANSWERED.flatMap((role) => directory.processes(role));
      const readers =
        message.kind === 'response'
          ? answered.filter(({ id }) => id === to || id === senderOf(message.id))
          : directory.processes('worker');
      return readers.length > 0 && readers.every(({ blobHost }) => blobHost === files.host);
    },
  };
}

function sharedFiles({ redis, prefix, clock, log }: BlobParts): BlobFiles | undefined {
  const parent = redis.blobDirectory ?? DEFAULTS.blob_dir;
  if (parent === '') return undefined;
  const opened = openBlobFiles(parent, prefix, () => clock.wallMs());
  if (opened.ok) return opened.files;
  log.info(`large tensors pass through Redis: ${opened.reason}`);
  return undefined;
}
