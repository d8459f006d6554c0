import {
  type CarriedOutcome,
  type CarriedRequest,
  type ErrorInfo,
  type InferRequest,
  isBlobTensor,
  isWholeOutcome,
  type Outcome,
  QUEUE_FULL,
  withRequestId,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { CallOptions } from '../call-options.ts';
import { GAVE_UP } from '../infer-errors.ts';
import type { ModelFound, ModelLookups } from '../model-lookup.ts';
import { cacheKey } from './cache-key.ts';
import type { CachedCounts } from './cached-counts.ts';
import { createFlights, type Flight, type Waiter } from './flights.ts';
import { type KeptAnswer, keptAnswer, type ResponseStore } from './kept-answer.ts';
import { modelFiles } from './model-files.ts';

export interface ResponseCacheParts {
  readonly clock: Clock;
  readonly store: ResponseStore;
  readonly models: Pick<ModelLookups, 'find'>;
  readonly counts: CachedCounts;
  /** Callers that wait here at a time; one more is refused. */
  readonly requests_pending_max: number;
  /** Sends a request to its model's owner and waits for its outcome. */
  readonly submit: (request: InferRequest, options: CallOptions) => Promise<CarriedOutcome>;
  /** An answer that nobody gets. */
  readonly unwanted: (outcome: CarriedOutcome) => void;
}

/**
 * Answers requests by the answers that equal ones had.
 *
 * A request whose answer is kept has it at once. Any other begins a *flight*, or joins the one of its key: that looks the
 * key up, where the store is elsewhere, and then runs, once for all that wait in it (single flight). The answer is kept
 * before it is handed out; an error is handed out and not kept.
 */
export interface ResponseCache {
  /** Of a request that was admitted, to a model whose answers may be kept. Never rejects. */
  infer(found: ModelFound, request: InferRequest, options: CallOptions): Promise<CarriedOutcome>;
  /** Callers that wait and for whom no request is under way. */
  readonly waiting: number;
  /** Calls back once, when nobody waits here any more. */
  whenEmpty(callback: () => void): void;
  /** Hands that outcome to all that wait. */
  close(outcome: CarriedOutcome): void;
}

/**
 * Whether others may get the answer: not where it depends on what came before, or inputs are held elsewhere; nor may one
 * of others answer what is to be recorded, or replayed.
 */
export function isCacheable(request: CarriedRequest): request is InferRequest {
  const { correlationId, sequenceStart, sequenceEnd, inputs, journal, shownId } = request;
  const isStep = (correlationId !== 0n && correlationId !== '') || sequenceStart || sequenceEnd;
  return !isStep && journal !== true && shownId === undefined && !inputs.some(isBlobTensor);
}

export function createResponseCache(parts: ResponseCacheParts): ResponseCache {
  const { clock, store, models, counts } = parts;
  const flights = createFlights(GAVE_UP);

  const hit = (flight: Flight, answer: KeptAnswer) => {
    const { found } = flight;
    flights.land(flight, ({ request, arrivedUs }) => {
      const requestUs = clock.nowUs() - arrivedUs;
      counts.hit(found, { requestUs, queueUs: 0, lookupUs: requestUs });
      return answered(found, request, answer);
    });
  };

  /** The model's files and the version are still those of the key, as far as is known here. */
  const isOfKey = ({ files, found: { record, version } }: Flight, answeredBy: string) => {
    const now = models.find(record.name, version);
    return answeredBy === version && now.ok && modelFiles(now, models) === files;
  };

  const keep = ({ found, key }: Flight, answer: KeptAnswer, lookupUs: number) => {
    const beganUs = clock.nowUs();
    const count = () => counts.miss(found, lookupUs + clock.nowUs() - beganUs);
    const keeping = store.keep(key, answer);
    if (keeping === undefined) count();
    else void keeping.then(count);
  };

  /** The first has run; the others are answered without a run. */
  const share = (flight: Flight, outcome: Outcome & { readonly ok: true }, lookupUs: number) => {
    const { found, first } = flight;
    const { response } = outcome;
    if (isOfKey(flight, response.modelVersion)) keep(flight, keptAnswer(response), lookupUs);
    const nowUs = clock.nowUs();
    flights.land(flight, (waiter) => {
      if (waiter === first) return outcome;
      const { request, arrivedUs, joinedUs } = waiter;
      counts.hit(found, { requestUs: nowUs - arrivedUs, queueUs: nowUs - joinedUs, lookupUs: joinedUs - arrivedUs });
      return { ok: true, response: { ...response, id: request.id } };
    });
  };

  const landed = (flight: Flight, outcome: CarriedOutcome, lookupUs: number) => {
    const { first } = flight;
    if (outcome.ok && isWholeOutcome(outcome)) share(flight, outcome, lookupUs);
    else if (outcome.ok) {
      // Outputs of which only names have come, for the call that asked for them: they are nobody else's.
      if (!flight.waiters.has(first)) parts.unwanted(outcome);
      const others = flights.land(flight, (waiter) => (waiter === first ? outcome : undefined));
      for (const other of others) run(flights.begin(flight, [other], 'alone'));
    } else if (first.deadlineUs !== undefined && !flight.waiters.has(first)) {
      // It may have failed for the deadline of one that has left.
      const others = flights.land(flight, () => undefined);
      if (others.length > 0) run(flights.begin(flight, others));
    } else {
      flights.land(flight, ({ request }) => ({ ok: false, error: errorFor(request, first.request, outcome.error) }));
    }
  };

  const run = (flight: Flight) => {
    const { first, leaving } = flight;
    const nowUs = clock.nowUs();
    const msLeft = first.deadlineUs === undefined ? 0 : Math.max(1, (first.deadlineUs - nowUs) / 1000);
    flight.runs = true;
    void parts
      .submit(first.request, { signal: leaving, msLeft, timed: first.timed, mark: first.mark })
      .then((outcome) => {
        landed(flight, outcome, nowUs - first.arrivedUs);
      });
  };

  const lookUp = async (flight: Flight, asked: Promise<KeptAnswer | undefined>) => {
    const answer = await asked;
    if (flight.waiters.size === 0) return;
    if (answer !== undefined) hit(flight, answer);
    else run(flight);
  };

  return {
    infer(found, request, { signal, msLeft = 0, timed, mark }) {
      if (signal?.aborted === true) return Promise.resolve(GAVE_UP);
      const arrivedUs = clock.nowUs();
      const files = modelFiles(found, models);
      const key = cacheKey(found, files, request);
      // What waits together is treated alike on its way.
      const name = `${key} ${request.priority} ${request.timeoutUs}`;
      const flight = flights.find(name);
      const kept = flight === undefined ? store.find(key) : undefined;
      const joinedUs = clock.nowUs();
      if (kept !== undefined && !(kept instanceof Promise)) {
        counts.hit(found, { requestUs: joinedUs - arrivedUs, queueUs: 0, lookupUs: joinedUs - arrivedUs });
        return Promise.resolve(answered(found, request, kept));
      }
      if (flights.waiters >= parts.requests_pending_max) {
        return Promise.resolve({ ok: false, error: withRequestId(request, QUEUE_FULL) });
      }
      const deadlineUs = msLeft > 0 ? arrivedUs + msLeft * 1000 : undefined;
      return new Promise((resolve) => {
        const waiter: Waiter = { request, arrivedUs, joinedUs, deadlineUs, resolve, signal, timed, mark };
        if (flight !== undefined) flights.join(flight, waiter);
        else {
          const begun = flights.begin({ name, key, files, found }, [waiter]);
          if (kept === undefined) run(begun);
          else void lookUp(begun, kept);
        }
      });
    },
    get waiting() {
      return flights.waiting;
    },
    whenEmpty: flights.whenEmpty,
    close: flights.landAll,
  };
}

function answered({ record, version }: ModelFound, { id }: InferRequest, { parameters, outputs }: KeptAnswer): Outcome {
  return { ok: true, response: { modelName: record.name, modelVersion: version, id, parameters, outputs } };
}

/** An error of the request `of`, as it is told to one that is equal but for its id. */
function errorFor(request: InferRequest, of: InferRequest, error: ErrorInfo): ErrorInfo {
  const named = withRequestId(of, { ...error, message: '' }).message;
  if (request.id === of.id || !error.message.startsWith(named)) return error;
  return withRequestId(request, { ...error, message: error.message.slice(named.length) });
}
