import { QUEUE_FULL } from '@nereid/protocol';
import { type BackgroundQueue, createBackgroundQueue } from './background-queue.ts';
import { createInstancePool, type InstancePool } from './instance-pool.ts';
import { createPriorityQueue, type PriorityQueue, type PriorityQueueOptions } from './priority-queue.ts';
import type { Decision, QueuedRequest, ScheduleEvent } from './schedule.ts';

/** What waits and where there is room for it: what every rule keeps in the same way. */
export interface QueueAndPlaces<R extends QueuedRequest> {
  readonly queue: PriorityQueue<R>;
  readonly background: BackgroundQueue<R>;
  readonly instances: InstancePool;
  /** Takes an event in; the refusal of a request that finds the queue full. */
  take(event: ScheduleEvent<R>): Decision<R> | undefined;
}

/** After these nothing is sent: another event follows, or there is no more room than before. */
export function decidesNothing(event: ScheduleEvent): boolean {
  const { type } = event;
  if (type === 'arrived') return event.request.background === true;
  return type === 'returned' || type === 'instance-lost' || type === 'running' || type === 'ran';
}

export function createQueueAndPlaces<R extends QueuedRequest>(options: PriorityQueueOptions): QueueAndPlaces<R> {
  const queue = createPriorityQueue<R>(options);
  const background = createBackgroundQueue<R>(options.queue_max);
  const instances = createInstancePool();
  const waitsIn = (request: R) => (request.background === true ? background : queue);
  return {
    queue,
    background,
    instances,
    take(event) {
      switch (event.type) {
        case 'arrived':
          if (!waitsIn(event.request).arrive(event.request))
            return { type: 'reject', request: event.request, error: QUEUE_FULL };
          break;
        case 'returned':
          waitsIn(event.request).giveBack(event.request);
          break;
        case 'cancelled':
          if (!background.remove(event.id)) queue.remove(event.id);
          break;
        case 'instance-free':
          instances.add(event.instance);
          break;
        case 'instance-lost':
          instances.drop(event.instance);
          break;
        case 'answered':
        case 'instance-spare':
        case 'draining':
        case 'ran':
        case 'running':
        case 'time':
          break;
      }
      return undefined;
    },
  };
}
