import type { Log } from '@nereid/runtime';
import { Queue } from 'bullmq';
import type { RedisConnection, RedisConnector } from './redis-connection.ts';
import { createSyncedWrites, type SyncedWrites } from './synced-writes.ts';

export interface SyncedAddsParts {
  readonly connector: RedisConnector;
  readonly log: Log;
  readonly queueOf: (model: string) => { readonly name: string; readonly prefix: string };
}

/** Adds of jobs that are on Redis' disk once they resolve, over a connection of their own. */
export interface SyncedAdds {
  readonly connection: RedisConnection;
  run(model: string, add: (queue: Queue) => Promise<unknown>): Promise<unknown>;
  close(): Promise<void>;
}

/** Queues that are known at a time. */
const QUEUES_MAX = 1_024;

export function createSyncedAdds({ connector, log, queueOf }: SyncedAddsParts): SyncedAdds {
  const connection = connector.connect('jobs-add');
  const synced: SyncedWrites = createSyncedWrites(connection);
  const queues = new Map<string, Queue>();

  const close = (queue: Queue) => queue.close().catch((error) => log.debug({ err: error }, 'job queue not closed'));

  const opened = (model: string): Queue => {
    const known = queues.get(model);
    if (known !== undefined) return known;
    const { name, prefix } = queueOf(model);
    const queue = new Queue(name, { connection: connection.client, prefix, skipMetasUpdate: true });
    queue.on('error', (error) => log.debug({ err: error, queue: name }, 'job queue'));
    queues.set(model, queue);
    const [oldest] = queues;
    if (queues.size > QUEUES_MAX && oldest !== undefined) {
      queues.delete(oldest[0]);
      void close(oldest[1]);
    }
    return queue;
  };

  return {
    connection,
    run: (model, add) => synced.run(() => add(opened(model))),
    async close() {
      await Promise.all([...queues.values()].map(close));
      queues.clear();
      connection.close();
    },
  };
}
