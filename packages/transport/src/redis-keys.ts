import { NereidError } from '@nereid/protocol';
import { encodeName } from './encode-name.ts';

interface RedisKeyRow {
  /**
   * After the prefix. Its one `{…}` is the hash tag: no command spans two slots of a Cluster. It may end in another name,
   * `<session>`.
   */
  readonly pattern: `${string}{${'id' | 'model' | 'all'}}${string}`;
  readonly kind: 'list' | 'hash' | 'string' | 'set' | 'zset' | 'stream' | 'channel';
  readonly holds: string;
  readonly ttl: string;
  readonly deletedBy: string;
}

/**
 * Every key and channel that Nereid itself uses in Redis (BullMQ's own have BullMQ's prefix). The names are made
 * from these patterns, and docs/redis.md has this table.
 */
const KEY_TABLE = {
  mailbox: {
    pattern: 'mb:{id}',
    kind: 'list',
    holds: 'parcels of frames that the process has not read yet',
    ttl: '3 × registration, set by the first push into an empty list and renewed by the reader',
    deletedBy: 'its reader, by reading and by closing',
  },
  mailboxOpen: {
    pattern: 'mb:{id}:open',
    kind: 'hash',
    holds: 'that the mailbox is open, its limits, how many messages and bytes went in',
    ttl: '3 × registration, renewed by the reader at each heartbeat',
    deletedBy: 'its reader, by closing',
  },
  blob: {
    pattern: 'blob:{id}',
    kind: 'string',
    holds: 'one large tensor on its way, where shared memory does not reach',
    ttl: '3 × registration; renewed by the sender of a request while it waits',
    deletedBy: 'a request’s: its sender, at the outcome; an answer’s: its reader, by reading',
  },
  response: {
    pattern: 'cache:{id}',
    kind: 'string',
    holds:
      'one kept answer of a model with `response_cache`, where `--cache-config=redis`; the id is a hash of its request',
    ttl: '`ttl_s` of `--cache-config`, an hour by default',
    deletedBy: 'nobody; it runs out',
  },
  payload: {
    pattern: 'payload:{id}',
    kind: 'string',
    holds: 'one tensor of a job (the id begins with the job’s), or one that a client put for a job to come',
    ttl: 'of an input none until its job has failed, then that of the result; of an output that of the result; of one that was put as its client said',
    deletedBy:
      'inputs: the owner, once their job is completed; those without a TTL whose job is completed or gone: a coordinator, within some 20 minutes',
  },
  payloadSweep: {
    pattern: 'payloads:{all}:sweep',
    kind: 'string',
    holds: 'that one coordinator has looked for payloads whose job is gone',
    ttl: '9 minutes',
    deletedBy: 'nobody; it runs out',
  },
  synced: {
    pattern: 'synced:{all}',
    kind: 'string',
    holds: 'that what was written before it is waited for on its way to the disk (`--jobs-fsync=always` by `WAITAOF`)',
    ttl: '1 s',
    deletedBy: 'nobody; it runs out',
  },
  bulk: {
    pattern: 'bulk:{id}',
    kind: 'hash',
    holds: 'a batch: its model, its state, how many lines have a result',
    ttl: 'none until it is over, then that of its results; 10 minutes while it is uploaded',
    deletedBy: 'who deletes the batch',
  },
  bulkLines: {
    pattern: 'bulk:{id}:lines',
    kind: 'hash',
    holds: 'chunk → lines of the batch',
    ttl: 'as above',
    deletedBy: 'the script that ends the batch',
  },
  bulkResults: {
    pattern: 'bulk:{id}:results',
    kind: 'hash',
    holds: 'line → its result, as JSON',
    ttl: '`Nereid-Result-Ttl-S` of the batch, a day by default, from its end',
    deletedBy: 'who deletes the batch',
  },
  bulkDone: {
    pattern: 'bulk:{id}:done',
    kind: 'string',
    holds: 'a bit for each line that has a result',
    ttl: 'none',
    deletedBy: 'the script that ends the batch',
  },
  bulkActive: {
    pattern: 'bulk-active:{all}',
    kind: 'zset',
    holds: 'batches that are not over, by when they came',
    ttl: 'none',
    deletedBy: 'owners of their models, which look at it each second',
  },
  bulkKnown: {
    pattern: 'bulk-known:{model}',
    kind: 'zset',
    holds: 'batches of the model, by their ids',
    ttl: 'none',
    deletedBy: 'who finds that the batch is gone',
  },
  journalModels: {
    pattern: 'journal-models:{all}',
    kind: 'set',
    holds: 'models that may have recordings',
    ttl: 'twice `age_s` of `--journal-config`, renewed while steps are recorded',
    deletedBy: 'who finds that the model has none',
  },
  journal: {
    pattern: 'journal:{model}',
    kind: 'zset',
    holds: 'recordings of the model, by when they began or were imported',
    ttl: 'that of the recording that lives longest',
    deletedBy: 'who removes the last one',
  },
  journalUntil: {
    pattern: 'journal-until:{model}',
    kind: 'zset',
    holds: 'recording → when it runs out',
    ttl: 'as above',
    deletedBy: 'as above',
  },
  journalBytes: {
    pattern: 'journal-bytes:{model}',
    kind: 'hash',
    holds: 'recording → its bytes; under no name the bytes of all',
    ttl: 'as above',
    deletedBy: 'as above',
  },
  journalRecording: {
    pattern: 'journal-recording:{model}:<session>',
    kind: 'hash',
    holds: 'a recording: its state, its steps and bytes in numbers, whose they are',
    ttl: '`age_s` of `--journal-config` since its last step, a day by default, and up to a 64th more',
    deletedBy: 'who removes it, or begins another where there are too many',
  },
  journalSteps: {
    pattern: 'journal-steps:{model}:<session>',
    kind: 'stream',
    holds: 'its steps; step 0 is entry 1-0',
    ttl: 'as above',
    deletedBy: 'as above',
  },
  journalTensors: {
    pattern: 'journal-tensors:{model}:<session>',
    kind: 'hash',
    holds: 'SHA-256 → the data of its tensors of 16 KiB and more, each once',
    ttl: 'as above',
    deletedBy: 'as above',
  },
  directoryMeta: {
    pattern: 'dir:{all}:meta',
    kind: 'hash',
    holds: 'version of the directory, highest epoch, grace after a new run',
    ttl: 'none',
    deletedBy: 'nobody; one small hash',
  },
  directoryProcesses: {
    pattern: 'dir:{all}:processes',
    kind: 'hash',
    holds: 'process → role, draining',
    ttl: 'per process, see the next',
    deletedBy: 'the process, or any that finds it expired',
  },
  directoryProcessesUntil: {
    pattern: 'dir:{all}:processes-until',
    kind: 'zset',
    holds: 'process → when its registration ends, in Redis’ time',
    ttl: '2.5 s for a worker, 4 s for others, renewed by its heartbeat',
    deletedBy: 'as above',
  },
  directoryOwners: {
    pattern: 'dir:{all}:owners',
    kind: 'hash',
    holds: 'model → epoch, owner',
    ttl: 'per model, see the next',
    deletedBy: 'the owner, or any that finds it expired',
  },
  directoryOwnersUntil: {
    pattern: 'dir:{all}:owners-until',
    kind: 'zset',
    holds: 'model → when its lease ends, in Redis’ time',
    ttl: '2 s, renewed by its owner’s heartbeat',
    deletedBy: 'as above',
  },
  directoryWriters: {
    pattern: 'dir:{all}:writers',
    kind: 'hash',
    holds: 'writer → number of its last call, so that late copies do nothing',
    ttl: 'per writer, see the next',
    deletedBy: 'any that finds it expired',
  },
  directoryWritersUntil: {
    pattern: 'dir:{all}:writers-until',
    kind: 'zset',
    holds: 'writer → when it is forgotten, in Redis’ time',
    ttl: '60 s, renewed by each call',
    deletedBy: 'as above',
  },
  directoryRecords: {
    pattern: 'dir:{all}:records',
    kind: 'hash',
    holds: 'model → its record, as JSON',
    ttl: 'none',
    deletedBy: 'the owner, when it unloads the model',
  },
  directoryRecordVersions: {
    pattern: 'dir:{all}:record-versions',
    kind: 'hash',
    holds: 'model → version of the directory at which its record changed',
    ttl: 'none',
    deletedBy: 'as above',
  },
  directoryValues: {
    pattern: 'dir:{all}:values',
    kind: 'hash',
    holds: 'name → a text that the cluster shares, e.g. log settings',
    ttl: 'while any process is registered',
    deletedBy: 'the last process that leaves, or any that finds none registered',
  },
  directoryValueVersions: {
    pattern: 'dir:{all}:value-versions',
    kind: 'hash',
    holds: 'name → version of the directory at which that text changed, version of the text',
    ttl: 'as above',
    deletedBy: 'as above',
  },
  statistics: {
    pattern: 'statistics:{all}',
    kind: 'hash',
    holds: 'model → epoch and what its owner has counted, for whoever takes the model over',
    ttl: 'none',
    deletedBy: 'the owner, when it unloads the model',
  },
  upload: {
    pattern: 'upload:{all}:<session>',
    kind: 'string',
    holds: 'a file or a config that a client sent in place of a model’s, by its SHA-256',
    ttl: '10 minutes from its upload; a day, renewed by coordinators, while a model is made of it; then a minute',
    deletedBy: 'nobody; it runs out',
  },
  uploads: {
    pattern: 'uploads:{all}',
    kind: 'zset',
    holds: 'upload → when it runs out, in Redis’ time',
    ttl: 'none',
    deletedBy: 'the next upload, of those that ran out',
  },
  uploadBytes: {
    pattern: 'uploads:{all}:bytes',
    kind: 'hash',
    holds: 'upload → its bytes',
    ttl: 'none',
    deletedBy: 'as above',
  },
  resourceClaims: {
    pattern: 'resources:{all}',
    kind: 'hash',
    holds: 'worker → how much there is of global resources by what it knows, what it holds, what it waits for',
    ttl: '60 s, renewed by each call',
    deletedBy: 'the worker, or any that finds it no longer registered',
  },
  resourceMeta: {
    pattern: 'resources:{all}:meta',
    kind: 'hash',
    holds: 'the run of Redis, the last place in the order of waiting, grace after a new run',
    ttl: 'as above',
    deletedBy: 'nobody',
  },
  resourceChanges: {
    pattern: 'resources:{all}:changes',
    kind: 'channel',
    holds: 'workers that may take what they wait for',
    ttl: '–',
    deletedBy: '–',
  },
  directoryChanges: {
    pattern: 'dir:{all}:changes',
    kind: 'channel',
    holds: 'notices of a new version',
    ttl: '–',
    deletedBy: '–',
  },
} satisfies Readonly<Record<string, RedisKeyRow>>;

/** Names of keys; the argument is a process id, a model's name or a channel's. */
export type RedisKeys = {
  readonly [name in keyof typeof KEY_TABLE]: (typeof KEY_TABLE)[name]['pattern'] extends `${string}${typeof NAME}`
    ? (tag: string, encodedName: string) => string
    : (tag: string) => string;
};

const TAG = /\{[a-z]+\}/;
const NAME = '<session>';

/** The one place of key names. Throws INVALID_ARG for a prefix with braces, which would be taken for hash tags. */
export function redisKeys(prefix: string): RedisKeys {
  if (prefix === '' || /[{}\s]/.test(prefix)) {
    throw new NereidError('INVALID_ARG', `redis prefix '${prefix}': give a name without braces and spaces`);
  }
  const names = Object.entries(KEY_TABLE).map(([name, { pattern }]) => {
    const [before = '', after = ''] = pattern.split(TAG);
    const end = after.replace(NAME, '');
    // A brace within a name would end the hash tag.
    return [name, (tag: string, more = '') => `${prefix}:${before}{${encodeName(tag)}}${end}${more}`];
  });
  return Object.fromEntries(names) as RedisKeys;
}

/** The table of keys for docs/redis.md. */
export function redisKeysMarkdown(): string {
  const rows = Object.values(KEY_TABLE).map(
    ({ pattern, kind, holds, ttl, deletedBy }) =>
      `| \`nereid:${pattern}\` | ${kind} | ${holds} | ${ttl} | ${deletedBy} |`,
  );
  return ['| key | kind | holds | TTL | deleted by |', '|---|---|---|---|---|', ...rows, ''].join('\n');
}
