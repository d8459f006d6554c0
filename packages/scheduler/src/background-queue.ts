import type { BatchStrategy } from './batch-strategy.ts';
import type { QueuedRequest } from './schedule.ts';

/** So many are looked at to fill one batch: others of its shape may stand behind very many of another. */
const LOOK_MAX = 64;

/**
 * Requests of bulk work, apart from those that somebody waits for: no level, no time-out, first come, first served, those
 * first whose batch was lost. They go where there is room to spare, and nobody's batch closes or waits for them.
 */
export interface BackgroundQueue<R extends QueuedRequest> {
  readonly length: number;
  /** False where it is full. */
  arrive(request: R): boolean;
  giveBack(request: R): void;
  /** False where it is not here. */
  remove(id: string): boolean;
  /** The batch, with those after it that fit into so many rows with it. */
  filled(batch: readonly R[], rows_max: number): readonly R[];
  /** A batch of their own: the first one, and those after it that go with it. Empty where none wait. */
  form(rows_max: number, strategy?: BatchStrategy<R>): readonly R[];
}

export function createBackgroundQueue<R extends QueuedRequest>(queue_max: number): BackgroundQueue<R> {
  const returned = new Map<string, R>();
  const fresh = new Map<string, R>();

  function* inOrder(): Generator<R> {
    yield* returned.values();
    yield* fresh.values();
  }

  const remove = (id: string) => returned.delete(id) || fresh.delete(id);

  return {
    get length() {
      return returned.size + fresh.size;
    },
    arrive(request) {
      if (returned.size + fresh.size >= queue_max) return false;
      fresh.set(request.id, request);
      return true;
    },
    giveBack: (request) => void returned.set(request.id, request),
    remove,
    filled(batch, rows_max) {
      const [first] = batch;
      let left = rows_max - rowsOf(batch);
      if (first === undefined || left <= 0 || returned.size + fresh.size === 0) return batch;
      const joined: R[] = [];
      let looked = 0;
      for (const request of inOrder()) {
        if (left === 0 || ++looked > LOOK_MAX) break;
        if (request.shapeKey !== first.shapeKey || request.rows > left) continue;
        joined.push(request);
        left -= request.rows;
      }
      for (const { id } of joined) remove(id);
      return joined.length === 0 ? batch : [...batch, ...joined];
    },
    form(rows_max, strategy) {
      const batch: R[] = [];
      const asked = strategy?.();
      let rows = 0;
      for (const request of inOrder()) {
        const [first] = batch;
        if (first !== undefined) {
          if (rows + request.rows > rows_max || request.shapeKey !== first.shapeKey) break;
        }
        // As with others, the first one goes in any case.
        if (asked?.include(request) === false && first !== undefined) break;
        batch.push(request);
        rows += request.rows;
        if (rows >= rows_max) break;
      }
      asked?.end();
      for (const { id } of batch) remove(id);
      return batch;
    },
  };
}

function rowsOf(batch: readonly QueuedRequest[]): number {
  return batch.reduce((sum, { rows }) => sum + rows, 0);
}
