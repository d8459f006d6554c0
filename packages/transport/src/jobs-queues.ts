import type { Log } from '@nereid/runtime';
import { Queue } from 'bullmq';
import type { RedisClient } from './redis-connection.ts';

export interface QueueName {
  readonly name: string;
  readonly prefix: string;
}

/** BullMQ's queues by their names, over one connection; the oldest are closed where there are many. */
export interface BullQueues {
  /** One that the caller closes. */
  make(queue: QueueName): Queue;
  opened(queue: QueueName): Queue;
  close(): Promise<void>;
}

/** Queues that are known at a time; any client may name one. */
const QUEUES_MAX = 1_024;

export function createBullQueues(client: () => RedisClient, log: Log): BullQueues {
  const queues = new Map<string, Queue>();

  const make = ({ name, prefix }: QueueName): Queue => {
    // Without its notes in Redis: a question after a queue must not make one.
    const queue = new Queue(name, { connection: client(), prefix, skipMetasUpdate: true });
    queue.on('error', (error) => log.debug({ err: error, queue: name }, 'job queue'));
    return queue;
  };

  const close = (queue: Queue) => queue.close().catch((error) => log.debug({ err: error }, 'job queue not closed'));

  const forgetOldest = () => {
    for (const [name, oldest] of queues) {
      queues.delete(name);
      void close(oldest);
      return;
    }
  };

  return {
    make,
    opened(queue) {
      const known = queues.get(queue.name);
      if (known !== undefined) return known;
      const made = make(queue);
      queues.set(queue.name, made);
      if (queues.size > QUEUES_MAX) forgetOldest();
      return made;
    },
    async close() {
      await Promise.all([...queues.values()].map(close));
      queues.clear();
    },
  };
}
