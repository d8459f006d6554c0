import { DEFAULTS, LIMITS, type ModelRecord } from '@nereid/config';
import { type Message, type ProcessId, senderOf } from '@nereid/protocol';
import { type Clock, type Log, newProcessId } from '@nereid/runtime';
import { type BlobFiles, type BlobOptions, type Directory, openBlobFiles, type ProcessRecord } from '@nereid/transport';
import type { RedisOptions } from './server-options.ts';

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
      const readers = readersOf(directory, to, message);
      return readers.length > 0 && readers.every(({ blobHost }) => blobHost === files.host);
    },
  };
}

/**
 * Who may read the large tensors of a message, or renew them. A request may come to any worker, also after a first one
 * died. An answer has one reader, and an owner that passes it on renews what it holds; but a caller may give what it
 * gets to any worker, as an input of the next step, or to any gateway, as an output of its ensemble.
 */
function readersOf(directory: Directory<ModelRecord>, to: ProcessId, message: Message): readonly ProcessRecord[] {
  const callers = directory.processes('caller');
  const workers = directory.processes('worker');
  if (message.kind === 'put') return [...workers, ...callers.filter(({ id }) => id === to)];
  if (message.kind !== 'response') return workers;
  const others = [...directory.processes('gateway'), ...directory.processes('coordinator')];
  const sender = senderOf(message.id);
  if (callers.some(({ id }) => id === to || id === sender)) return [...callers, ...workers, ...others];
  return others.filter(({ id }) => id === to || id === sender);
}

function sharedFiles({ redis, prefix, clock, log }: BlobParts): BlobFiles | undefined {
  const parent = redis.blobDirectory ?? DEFAULTS.blob_dir;
  if (parent === '') return undefined;
  const opened = openBlobFiles(parent, prefix, () => clock.wallMs());
  if (opened.ok) return opened.files;
  log.info(`large tensors pass through Redis: ${opened.reason}`);
  return undefined;
}
