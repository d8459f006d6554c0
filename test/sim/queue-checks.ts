/**
 * What must hold of one queue, told of what goes in and comes out: of a scheduler alone, or of an
 * owner by its messages. At the very time at which a request's time ends it may be taken for either.
 * Each event is handled by the queue before the next one comes.
 */

import { type QueueRules, waitMaxUs } from './queue-rules.ts';
import type { CheckName } from './sim-checks.ts';

export interface QueueChecksOptions {
  readonly rules: QueueRules;
  /** No batch is lost and nothing pauses the owner: time-outs come at their time, and what is sent stays sent. */
  readonly healthy: boolean;
  readonly fail: (check: CheckName, text: string) => void;
}

export interface Asked {
  readonly priority: number;
  /** 0 for none. */
  readonly timeoutUs: number;
}

export interface QueueChecks {
  arrived(id: string, asked: Asked, nowUs: number): void;
  /** Its batch is lost: it is first in its level, and no more refused. */
  returned(id: string, asked: Asked, arrivedUs: number): void;
  /** Refused, since the queue is full. */
  full(id: string, nowUs: number): void;
  /** Refused, since it has waited for too long. */
  expired(id: string, nowUs: number): void;
  dispatched(ids: readonly string[], nowUs: number): void;
  cancelled(id: string): void;
  /** It waits no more, for whatever other reason. */
  left(id: string): void;
  /** All events of before `nowUs` have been handled. */
  passed(nowUs: number): void;
  waits(id: string): boolean;
  /** When the one that has waited longest came; Infinity where none waits. */
  oldestUs(): number;
}

interface Waiting {
  readonly id: string;
  readonly level: number;
  readonly sequence: number;
  readonly arrivedUs: number;
  readonly endsUs: number;
  readonly delays: boolean;
  readonly returned: boolean;
}

type End = 'dispatched' | 'cancelled' | 'refused';

/** Clocks with other origins round times to less than this. */
const ROUNDING_US = 0.5;
const isAt = (nowUs: number, us: number) => Math.abs(nowUs - us) < ROUNDING_US;
const isPast = (nowUs: number, us: number) => nowUs >= us + ROUNDING_US;

export function createQueueChecks({ rules, healthy, fail }: QueueChecksOptions): QueueChecks {
  const waiting = new Map<string, Waiting>();
  const ended = new Map<string, End>();
  /** Passed over, and told of. */
  const told = new Set<string>();
  let sequence = 0;

  const ofLevel = (level: number) => [...waiting.values()].filter((other) => other.level === level);
  const end = (id: string, how: End) => {
    waiting.delete(id);
    ended.set(id, how);
  };

  /** Whether `first` is to go before `second` at that time. */
  const goesBefore = (first: Waiting, second: Waiting, nowUs: number): boolean => {
    if (first.level !== second.level) return first.level < second.level;
    if (first.returned !== second.returned) return first.returned;
    if (first.returned) return false;
    if (isAt(nowUs, first.endsUs) || isAt(nowUs, second.endsUs)) return false;
    const delayed = [first, second].map(({ endsUs }) => isPast(nowUs, endsUs));
    if (delayed[0] !== delayed[1]) return delayed[1] === true;
    return delayed[0] === false && first.sequence < second.sequence;
  };

  const checkOrder = (batch: readonly Waiting[], nowUs: number) => {
    for (const other of waiting.values()) {
      const behind = batch.find((request) => goesBefore(other, request, nowUs));
      if (behind === undefined || told.has(other.id)) continue;
      told.add(other.id);
      const check = other.level === behind.level && !isPast(nowUs, behind.endsUs) ? 'order' : 'priority';
      fail(check, `${behind.id} of level ${behind.level} goes before ${other.id} of level ${other.level}`);
    }
  };

  return {
    arrived(id, { priority, timeoutUs }, nowUs) {
      const level = rules.levelOf(priority);
      const levelRules = rules.rulesOf(level);
      waiting.set(id, {
        id,
        level,
        sequence: sequence++,
        arrivedUs: nowUs,
        endsUs: nowUs + waitMaxUs(levelRules, timeoutUs),
        delays: levelRules.delays,
        returned: false,
      });
      ended.delete(id);
    },
    returned(id, { priority }, arrivedUs) {
      const level = rules.levelOf(priority);
      const endsUs = Number.POSITIVE_INFINITY;
      waiting.set(id, { id, level, sequence: sequence++, arrivedUs, endsUs, delays: false, returned: true });
      ended.delete(id);
    },
    full(id, nowUs) {
      const request = waiting.get(id);
      if (request === undefined) {
        if (healthy) fail('size', `${id}, which is ${ended.get(id)}, is refused as too many`);
        return;
      }
      const { size_max: most } = rules.rulesOf(request.level);
      const others = ofLevel(request.level).length - 1;
      if (healthy && others < most)
        fail('size', `${id} is refused where ${others} wait in level ${request.level} of ${most}`);
      if (healthy && !isAt(nowUs, request.arrivedUs)) fail('size', `${id} is refused as too many after it has waited`);
      end(id, 'refused');
    },
    expired(id, nowUs) {
      const request = waiting.get(id);
      if (request === undefined) {
        if (healthy) fail('timeout', `${id}, which is ${ended.get(id)}, is refused as too late`);
        return;
      }
      const { endsUs, delays } = request;
      if (delays) fail('timeout', `${id} is refused where it is to be delayed`);
      if (healthy ? !isAt(nowUs, endsUs) : nowUs < endsUs - ROUNDING_US) {
        fail('timeout', `${id} is refused ${nowUs - endsUs} us after its time`);
      }
      end(id, 'refused');
    },
    dispatched(ids, nowUs) {
      const batch: Waiting[] = [];
      for (const id of ids) {
        const request = waiting.get(id);
        const how = ended.get(id);
        if (how === 'cancelled') fail('cancel', `${id} is sent although it is cancelled`);
        else if (request !== undefined) batch.push(request);
        else if (healthy) fail('outcome', `${id}, which is ${how}, is sent`);
        if (request !== undefined && !request.delays && isPast(nowUs, request.endsUs)) {
          fail('timeout', `${id} is sent ${nowUs - request.endsUs} us after its time`);
        }
        end(id, 'dispatched');
      }
      checkOrder(batch, nowUs);
    },
    cancelled(id) {
      if (waiting.has(id)) end(id, 'cancelled');
    },
    left: (id) => void waiting.delete(id),
    passed(nowUs) {
      const levels = new Map<number, number>();
      for (const { id, level, endsUs, delays, returned } of waiting.values()) {
        const isCounted = !returned && (delays || !isAt(nowUs, endsUs));
        levels.set(level, (levels.get(level) ?? 0) + (isCounted ? 1 : 0));
        if (healthy && !delays && isPast(nowUs, endsUs)) fail('timeout', `${id} still waits after its time`);
      }
      for (const [level, count] of levels) {
        const { size_max: most } = rules.rulesOf(level);
        if (healthy && count > most) fail('size', `${count} wait in level ${level} of ${most}`);
      }
    },
    waits: (id) => waiting.has(id),
    oldestUs() {
      let oldestUs = Number.POSITIVE_INFINITY;
      for (const { arrivedUs } of waiting.values()) oldestUs = Math.min(oldestUs, arrivedUs);
      return oldestUs;
    },
  };
}
