import { allVersions, type OwnedModel } from './owned-model.ts';

export interface CoordinatorCounts {
  readonly queued: number;
  readonly running: number;
  /** Loads, unloads and stops that wait for workers. */
  readonly waits: number;
}

export function countRequests(models: ReadonlyMap<string, OwnedModel>, waits: number): CoordinatorCounts {
  const queues = [...models.values()].flatMap((model) => allVersions(model).flatMap(({ queue }) => queue ?? []));
  return {
    queued: queues.reduce((sum, queue) => sum + queue.waiting + queue.background, 0),
    running: queues.reduce((sum, queue) => sum + queue.running, 0),
    waits,
  };
}
