import { NereidError } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { type DirectoryAnswer, parseDirectoryAnswer } from './directory-answer.ts';
import type { Grant } from './directory-claims.ts';
import type { DirectoryLink } from './directory-link.ts';

export interface DirectoryCall<T> {
  readonly verb: 'beat' | 'register' | 'retell' | 'leave' | 'acquire' | 'release' | 'publish' | 'withdraw' | 'value';
  /** The verb's arguments, read at the moment of each attempt. */
  readonly args: () => readonly string[];
  /** Takes in what the answer grants, before anything else is called. */
  readonly settle: (answer: DirectoryAnswer, grant: Grant) => T;
  /** False: one attempt only. */
  readonly repeats: boolean;
}

export interface DirectoryCalls {
  /** True while a call is under way or waits for its turn. */
  readonly isBusy: boolean;
  readonly isClosed: boolean;
  /** Throws UNAVAILABLE once the patience is over or the directory closed. */
  call<T>(call: DirectoryCall<T>): Promise<T>;
  close(): void;
}

export interface DirectoryCallsOptions {
  readonly link: DirectoryLink;
  readonly clock: Clock;
  /** From being asked to giving up. */
  readonly patienceUs: number;
  /** Between two attempts. */
  readonly pauseUs: number;
  /** The arguments before the verb's, with this number of the call in them. */
  readonly common: (verb: string, sequence: number) => readonly string[];
}

interface Attempt {
  readonly answer: DirectoryAnswer;
  readonly sentUs: number;
}

/**
 * Calls take turns: so an answer always meets the claims that its question was asked with, and what
 * is asked later happens later. A call that fails is repeated until its patience is over; it may
 * still run late in Redis, where its number shows that others came after it. An acquisition whose
 * answer was lost is thereby repeated at once (R2).
 */
export function createDirectoryCalls(options: DirectoryCallsOptions): DirectoryCalls {
  const { link, clock, patienceUs, pauseUs, common } = options;
  const pauses = new Set<() => void>();
  let turn: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let sequence = 0;
  let closed = false;

  const throwIfClosed = () => {
    if (closed) throw unavailable('the directory is closed');
  };

  const pause = (untilUs: number) =>
    new Promise<void>((resolve) => {
      const end = () => {
        timer.cancel();
        pauses.delete(end);
        resolve();
      };
      const timer = clock.at(untilUs, end);
      pauses.add(end);
    });

  /** Undefined where later calls were there first. */
  const attempt = (call: DirectoryCall<unknown>, untilUs: number) =>
    new Promise<Attempt | undefined>((resolve, reject) => {
      let sentUs: number | undefined;
      let isOver = false;
      const timer = clock.at(untilUs, () => {
        isOver = true;
        if (sentUs !== undefined) link.reset();
        reject(unavailable('Redis does not answer'));
      });
      const send = () => {
        if (isOver || closed) return undefined;
        sentUs = clock.nowUs();
        return [...common(call.verb, ++sequence), ...call.args()];
      };
      const read = (raw: unknown) => {
        const answer = parseDirectoryAnswer(raw);
        return answer === undefined ? undefined : { answer, sentUs: sentUs ?? clock.nowUs() };
      };
      link
        .call(send)
        .then(read)
        .finally(() => timer.cancel())
        .then(resolve, reject);
    });

  const run = async <T>(call: DirectoryCall<T>, untilUs: number): Promise<T> => {
    for (;;) {
      throwIfClosed();
      if (clock.nowUs() >= untilUs) throw unavailable('Redis did not answer in time');
      let done: Attempt | undefined;
      try {
        done = await attempt(call, untilUs);
      } catch (error) {
        throwIfClosed();
        if (!call.repeats || clock.nowUs() + pauseUs >= untilUs) throw asUnavailable(error);
        await pause(clock.nowUs() + pauseUs);
      }
      if (done !== undefined) {
        const { run, redisMs } = done.answer;
        return call.settle(done.answer, { sentUs: done.sentUs, run, redisMs });
      }
    }
  };

  return {
    get isBusy() {
      return waiting > 0;
    },
    get isClosed() {
      return closed;
    },
    call(call) {
      const untilUs = clock.nowUs() + patienceUs;
      waiting++;
      const result = turn.then(() => run(call, untilUs)).finally(() => waiting--);
      turn = result.catch(() => {});
      return result;
    },
    close() {
      closed = true;
      for (const end of pauses) end();
    },
  };
}

function unavailable(text: string, cause?: unknown): NereidError {
  return new NereidError('UNAVAILABLE', text, { cause });
}

function asUnavailable(error: unknown): NereidError {
  if (error instanceof NereidError && error.code === 'UNAVAILABLE') return error;
  return unavailable(`Redis: ${error instanceof Error ? error.message : String(error)}`, error);
}
