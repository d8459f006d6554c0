/**
 * What an answer promises of jobs has to be as safe as `--jobs-fsync` says before it is given (docs/protocol.md R31):
 * that a job is added, cancelled, retried or removed, a dead letter replayed, a webhook sent again, a tensor kept.
 */
import type { Log } from '@nereid/runtime';
import type { Queue } from 'bullmq';
import type { QueueKind } from './jobs-names.ts';
import { createBullQueues, type QueueName } from './jobs-queues.ts';
import type { RedisClient, RedisConnector } from './redis-connection.ts';
import { createSyncedWrites } from './synced-writes.ts';

/** Asks Redis, and again if that failed; so what is asked must be harmless to repeat. */
export type AskRedis = <T>(question: () => Promise<T>) => Promise<T>;

/** By which Redis is asked, and how: what is asked goes by its queues or its client, and by no other. */
export interface JobsLink {
  readonly ask: AskRedis;
  readonly queue: (model: string, kind?: QueueKind) => Queue;
  readonly client: () => RedisClient;
}

export interface SafeWritesParts {
  readonly connector: RedisConnector;
  readonly log: Log;
  readonly queueOf: (model: string, kind?: QueueKind) => QueueName;
  readonly ask: AskRedis;
  /** Of the key that is written behind each write. */
  readonly markKey: string;
}

/** What is asked by it is on Redis' disk once that resolves, both what was read and what was written. */
export interface SafeWrites extends JobsLink {
  close(): Promise<void>;
}

/** By WAITAOF, over a connection of its own that is dialled at the first use. */
export function createSafeWrites({ connector, log, queueOf, ask, markKey }: SafeWritesParts): SafeWrites {
  let opened: ReturnType<typeof open> | undefined;

  const open = () => {
    const connection = connector.connect('jobs-safe');
    const queues = createBullQueues(() => connection.client, log);
    return { connection, queues, writes: createSyncedWrites(connection, markKey) };
  };

  const dialled = () => {
    opened ??= open();
    return opened;
  };

  return {
    ask: (question) =>
      ask(async () => {
        const { connection, writes } = dialled();
        await connection.ready();
        return writes.run(question);
      }),
    queue: (model, kind) => dialled().queues.opened(queueOf(model, kind)),
    client: () => dialled().connection.client,
    async close() {
      await opened?.queues.close();
      opened?.connection.close();
    },
  };
}
