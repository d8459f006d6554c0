import type { Clock } from '@nereid/runtime';
import { LRUCache } from 'lru-cache';
import { answerBytes, type KeptAnswer, ownedAnswer, type ResponseStore } from './kept-answer.ts';

export interface LocalResponsesOptions {
  /** Of all that is kept; an answer that is larger is not. */
  readonly bytes_max: number;
  /** 0 for no end. */
  readonly ttl_s: number;
  readonly clock: Clock;
}

/** Answers in this process. The one that was used longest ago goes first. */
export function createLocalResponses({ bytes_max, ttl_s, clock }: LocalResponsesOptions): ResponseStore {
  const kept = new LRUCache<string, KeptAnswer>({
    maxSize: bytes_max,
    sizeCalculation: answerBytes,
    ...(ttl_s === 0 ? {} : { ttl: ttl_s * 1000, ttlResolution: 0, perf: { now: () => clock.nowUs() / 1000 } }),
  });
  return {
    find: (key) => kept.get(key),
    keep(key, answer) {
      // Not copied for nothing.
      if (answerBytes(answer) <= bytes_max) kept.set(key, ownedAnswer(answer));
      return undefined;
    },
    close: () => kept.clear(),
  };
}
