import type { CarriedOutcome, CarriedRequest, InferRequest } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import { type AnswerQueue, createAnswerQueue, type StreamLimits } from '../answer-queue.ts';
import { type CallNotes, innerMark } from '../call-notes.ts';
import type { CallOptions } from '../call-options.ts';
import { createLeaving } from '../leave-signal.ts';
import type { ModelFound, ModelLookups } from '../model-lookup.ts';
import { createCachedCounts } from './cached-counts.ts';
import type { ResponseStore } from './kept-answer.ts';
import { createResponseCache, isCacheable, type ResponseCacheParts } from './response-cache.ts';

export interface CallerCacheParts {
  readonly clock: Clock;
  readonly mailbox: Pick<Mailbox, 'send'>;
  readonly directory: Pick<Directory<unknown>, 'owner'>;
  readonly models: Pick<ModelLookups, 'find'>;
  readonly limits: StreamLimits & Pick<ResponseCacheParts, 'requests_pending_max'>;
  /** Undefined: nothing is kept, and every request runs. */
  readonly responses: ResponseStore | undefined;
  readonly submit: ResponseCacheParts['submit'];
  readonly unwanted: ResponseCacheParts['unwanted'];
  /** Told of what is answered without a run. */
  readonly notes: Pick<CallNotes, 'cached' | 'refused'>;
}

/** What a caller asks before it sends a request. */
export interface CallerCache {
  /** Undefined where the request is to run in any case. */
  infer(found: ModelFound, request: CarriedRequest, options: CallOptions): Promise<CarriedOutcome> | undefined;
  /** The same for one who reads any number of answers: what is kept is one. */
  stream(found: ModelFound, request: CarriedRequest, options: CallOptions): AnswerQueue | undefined;
  /** Callers that wait and for whom no request is under way. */
  readonly waiting: number;
  whenEmpty(callback: () => void): void;
  /** Owners are told now what was answered here, and otherwise at the end of the turn. */
  tell(): void;
  close(outcome: CarriedOutcome): void;
}

const NONE: CallerCache = {
  infer: () => undefined,
  stream: () => undefined,
  waiting: 0,
  whenEmpty: (callback) => callback(),
  tell() {},
  close() {},
};

export function createCallerCache({ responses, mailbox, directory, notes, ...parts }: CallerCacheParts): CallerCache {
  if (responses === undefined) return NONE;
  const counts = createCachedCounts(mailbox, directory);
  const cache = createResponseCache({
    ...parts,
    requests_pending_max: parts.limits.requests_pending_max,
    store: responses,
    counts,
  });

  /** What had a run of its own has a token by then. */
  const infer = (found: ModelFound, request: InferRequest, options: CallOptions) => {
    const { mark = innerMark() } = options;
    const arrivedUs = parts.clock.nowUs();
    return cache.infer(found, request, { ...options, mark }).then((outcome) => {
      if (mark.id !== '') return outcome;
      if (outcome.ok) notes.cached(mark, request, arrivedUs);
      else notes.refused(mark, request, outcome.error, arrivedUs);
      return outcome;
    });
  };

  return {
    infer: (found, request, options) =>
      found.cachesAnswers && isCacheable(request) ? infer(found, request, options) : undefined,
    stream(found, request, options) {
      if (!found.cachesAnswers || !isCacheable(request)) return undefined;
      const { signal, inFlight } = options;
      const leaving = createLeaving();
      const leave = () => leaving.leave('nobody reads it any more');
      const queue = createAnswerQueue(parts.limits, leave, inFlight, parts.unwanted);
      if (signal?.aborted === true) leave();
      signal?.addEventListener('abort', leave);
      void infer(found, request, { ...options, signal: leaving }).then((outcome) => {
        signal?.removeEventListener('abort', leave);
        queue.end(outcome);
      });
      return queue;
    },
    get waiting() {
      return cache.waiting;
    },
    whenEmpty: cache.whenEmpty,
    tell: counts.tell,
    close(outcome) {
      cache.close(outcome);
      counts.tell();
    },
  };
}
