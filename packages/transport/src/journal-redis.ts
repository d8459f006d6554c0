import type { Clock, Log } from '@nereid/runtime';
import type { JournalBounds, JournalStore } from './journal.ts';
import { createJournalReader } from './journal-reader.ts';
import { createJournalWriter } from './journal-writer.ts';
import type { RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';

export interface JournalStoreOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: JournalBounds;
}

/** Recordings in Redis. One connection writes, one reads; each is dialled at its first use. */
export function createJournalStore(options: JournalStoreOptions): JournalStore {
  const parts = { ...options, keys: redisKeys(options.prefix) };
  const writer = createJournalWriter(parts);
  const reader = createJournalReader(parts);
  return {
    append: writer.append,
    send: writer.send,
    end: writer.end,
    isOver: writer.isOver,
    get dropped() {
      return writer.dropped;
    },
    models: reader.models,
    list: reader.list,
    find: reader.find,
    steps: reader.steps,
    remove: reader.remove,
    put: reader.put,
    close() {
      writer.close();
      reader.close();
    },
  };
}
