import type { Log } from '@nereid/runtime';
import type { Queue } from 'bullmq';
import { createBullQueues, type QueueName } from './jobs-queues.ts';
import type { RedisConnection, RedisConnector } from './redis-connection.ts';
import { createSyncedWrites } from './synced-writes.ts';

export interface SyncedAddsParts {
  readonly connector: RedisConnector;
  readonly log: Log;
  readonly queueOf: (model: string) => QueueName;
}

/** Adds of jobs that are on Redis' disk once they resolve, over a connection of their own. */
export interface SyncedAdds {
  readonly connection: RedisConnection;
  run(model: string, add: (queue: Queue) => Promise<unknown>): Promise<unknown>;
  close(): Promise<void>;
}

export function createSyncedAdds({ connector, log, queueOf }: SyncedAddsParts): SyncedAdds {
  const connection = connector.connect('jobs-add');
  const synced = createSyncedWrites(connection);
  const queues = createBullQueues(() => connection.client, log);
  return {
    connection,
    run: (model, add) => synced.run(() => add(queues.opened(queueOf(model)))),
    async close() {
      await queues.close();
      connection.close();
    },
  };
}
