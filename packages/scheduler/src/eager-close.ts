import { DEADLINE_SLACK_MS } from '@nereid/protocol';
import type { BatchTimes } from './instance-depth.ts';
import type { QueuedRequest } from './schedule.ts';

/** What a batch is sent ahead of the last moment: timers and turns of the event loop come late. */
const MARGIN_US = 2_000;
/** Clients that were just answered, and requests under way, are waited for as long as this share of the delay. */
const AWAITED_SHARE = 1 / 4;
const AWAITED_US_MAX = 50_000;

/** Some who may send a request until then. */
interface Awaited {
  readonly untilUs: number;
  requests: number;
}

/** A batch that waits for company, of which its queue may hold nothing else. */
export interface WaitingBatch {
  /** By then its first request is to be answered, infinite for none. */
  readonly answerByUs: number;
  /** All that waits is in it, and none was sent just now, of which `running` has not told yet. */
  readonly only: boolean;
}

export type EagerVerdict =
  | { readonly type: 'send'; readonly reason: 'deadline' | 'alone' }
  /** To be looked at again then, infinite for when something happens. */
  | { readonly type: 'wait'; readonly untilUs: number };

/**
 * When a batch that waits for max_queue_delay goes before it is over (`nereid.eager_batch`): the rule.
 *
 * *deadline*: the earliest deadline of its requests leaves no more than the time that a batch takes on
 * average, there and back, and a small margin.
 *
 * *alone*: nobody else can come. Others are: requests that run, since their clients may send the next
 * ones; clients that were answered within a quarter of the delay, 50 ms at most, as long as nobody has
 * come in their place; and requests that a gateway said were under way, as long.
 *
 * Neither splits a batch or waits beyond the delay. What is told of others is a hint: a wrong one costs
 * a fuller batch, or the wait that the config allows.
 */
export interface EagerClose {
  /** How many requests of the model run now, and what its batches take on average. */
  running(requests: number, times: BatchTimes | undefined): void;
  arrived(request: QueuedRequest, nowUs: number): void;
  /** A batch of so many requests has been answered. */
  answered(requests: number, nowUs: number): void;
  verdict(batch: WaitingBatch, nowUs: number): EagerVerdict;
}

/** `delay_us`: max_queue_delay_microseconds. */
export function createEagerClose(delay_us: number): EagerClose {
  const awaitedUs = Math.min(delay_us * AWAITED_SHARE, AWAITED_US_MAX);
  /** Clients that were answered, oldest first. */
  const answered: Awaited[] = [];
  /** By gateway. */
  const coming = new Map<string, Awaited>();
  let runningNow = 0;
  let takesUs = 0;

  const forget = (nowUs: number) => {
    while (answered[0] !== undefined && nowUs >= answered[0].untilUs) answered.shift();
    for (const [gateway, { untilUs }] of coming) if (nowUs >= untilUs) coming.delete(gateway);
  };

  /** When the last of those who may come is no longer waited for; undefined where nobody may. */
  const nobodyUs = (nowUs: number): number | undefined => {
    if (runningNow > 0) return Number.POSITIVE_INFINITY;
    forget(nowUs);
    const ends = [...answered, ...coming.values()].map(({ untilUs }) => untilUs);
    return ends.length === 0 ? undefined : Math.max(...ends);
  };

  return {
    running(requests, times) {
      runningNow = requests;
      takesUs = times === undefined ? 0 : times.runUs + Math.max(0, times.wayUs);
    },
    arrived({ sender, coming: requests }, nowUs) {
      // One that is waited for no more is not the one that has come.
      forget(nowUs);
      const [first] = answered;
      if (first !== undefined && --first.requests === 0) answered.shift();
      coming.delete(sender);
      if (requests > 0) coming.set(sender, { requests, untilUs: nowUs + awaitedUs });
    },
    answered(requests, nowUs) {
      forget(nowUs);
      if (requests > 0) answered.push({ requests, untilUs: nowUs + awaitedUs });
    },
    verdict({ answerByUs, only }, nowUs) {
      const latestUs = answerByUs - takesUs - MARGIN_US;
      if (nowUs >= latestUs) return { type: 'send', reason: 'deadline' };
      const aloneUs = only ? nobodyUs(nowUs) : Number.POSITIVE_INFINITY;
      if (aloneUs === undefined) return { type: 'send', reason: 'alone' };
      return { type: 'wait', untilUs: Math.min(latestUs, aloneUs) };
    },
  };
}

/** When whoever sent the request gives up, infinite for never: doors tell owners a later time, in case their word is lost. */
export function answerByUs({ deadlineUs, patient }: QueuedRequest): number {
  if (deadlineUs === undefined) return Number.POSITIVE_INFINITY;
  return patient ? deadlineUs : deadlineUs - DEADLINE_SLACK_MS * 1_000;
}
