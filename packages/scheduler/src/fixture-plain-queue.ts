import type { QueuePolicies, QueuePolicy } from './queue-policy.ts';
import type { QueuedRequest } from './schedule.ts';

interface Waiting {
  readonly request: QueuedRequest;
  readonly level: number;
  readonly expiresUs: number;
  /** In which order it is served within its level: returned, fresh, delayed; then by this number. */
  standing: number;
  order: number;
}

/**
 * What should wait, in the order in which it should be served: the rules of facts in the plainest form,
 * sorted anew each time, to hold against the one that is quick.
 */
export interface PlainQueue {
  /** Ids in the order in which they are served. */
  ids(): readonly string[];
  /** Whether the queue must take it. */
  hasRoom(request: QueuedRequest): boolean;
  arrive(request: QueuedRequest): void;
  giveBack(request: QueuedRequest): void;
  remove(id: string): boolean;
  /** Ids of those that are to be refused at that time; the delayed stand back. */
  expire(nowUs: number): readonly string[];
  /** When the time of the next is over. */
  nextExpiryUs(): number;
}

export function createPlainQueue(policies: QueuePolicies, queue_max: number): PlainQueue {
  let waiting: Waiting[] = [];
  let entered = 0;

  const levelOf = ({ priority }: QueuedRequest) => {
    if (policies.levels === 0) return 0;
    return priority === 0 || priority > policies.levels ? policies.default_level : priority;
  };
  const policyOf = (request: QueuedRequest): QueuePolicy => policies.by_level.get(levelOf(request)) ?? policies.default;
  const timeoutUs = (request: QueuedRequest) => {
    const { timeout_us, overridable } = policyOf(request);
    if (timeout_us === 0 || request.patient) return Number.POSITIVE_INFINITY;
    const own = overridable && request.timeoutUs !== 0 ? request.timeoutUs : timeout_us;
    return Math.min(own, timeout_us);
  };
  const sorted = () => waiting.toSorted((a, b) => a.level - b.level || a.standing - b.standing || a.order - b.order);

  return {
    ids: () => sorted().map(({ request }) => request.id),
    hasRoom(request) {
      const level = levelOf(request);
      const { size_max } = policyOf(request);
      const inLevel = waiting.filter((other) => other.level === level).length;
      return waiting.length < queue_max && (size_max === undefined || inLevel < size_max);
    },
    arrive(request) {
      const expiresUs = request.arrivedUs + timeoutUs(request);
      waiting.push({ request, level: levelOf(request), expiresUs, standing: 1, order: ++entered });
    },
    giveBack(request) {
      const level = levelOf(request);
      // By arrival, equals by when they came back.
      const order = request.arrivedUs + ++entered / 1e6;
      waiting.push({ request, level, expiresUs: Number.POSITIVE_INFINITY, standing: 0, order });
    },
    remove(id) {
      const before = waiting.length;
      waiting = waiting.filter(({ request }) => request.id !== id);
      return waiting.length < before;
    },
    expire(nowUs) {
      const over = waiting
        .filter(({ expiresUs, standing }) => standing === 1 && expiresUs <= nowUs)
        .toSorted((a, b) => a.expiresUs - b.expiresUs);
      const refused = over.filter(({ request }) => policyOf(request).action === 'reject');
      for (const entry of over) {
        if (policyOf(entry.request).action !== 'delay') continue;
        entry.standing = 2;
        entry.order = ++entered;
      }
      waiting = waiting.filter((entry) => !refused.includes(entry));
      return refused.map(({ request }) => request.id);
    },
    nextExpiryUs: () =>
      waiting.reduce(
        (next, { expiresUs, standing }) => (standing === 1 ? Math.min(next, expiresUs) : next),
        Number.POSITIVE_INFINITY,
      ),
  };
}
