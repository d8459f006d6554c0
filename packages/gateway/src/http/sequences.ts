import { type ErrorInfo, errorInfo, sequenceIdJson } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { type ModelSequence, SEQUENCES_LISTED_MAX, type SequencePosition } from '../sequences.ts';
import { sendJson } from './errors.ts';
import { sendOwnError } from './jobs-error.ts';
import { decodedText, limitOf, readQuery, wrongQuery } from './query.ts';

const US_IN_MS = 1000;

/**
 * GET /nereid/v1/sequences[?model=m&limit=n&after=…]: the sequences that the cluster keeps, whichever gateway is asked,
 * by model and session; `next` goes into `after` for those behind.
 */
export function sequences(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  answer(reply, async () => {
    const query = readQuery(request, ['model', 'limit', 'after']);
    const limit = limitOf(query.limit, SEQUENCES_LISTED_MAX);
    const listed = await gateway.sequences.list({ model: query.model ?? '', limit, after: positionOf(query.after) });
    if (!listed.ok) return listed.error;
    const { sequences: found, next } = listed.value;
    const place = next === undefined ? undefined : `${next.model}/${next.session}`;
    sendJson(reply, JSON.stringify({ sequences: found.map(sequenceJson), next: place }));
    return undefined;
  });
}

/** DELETE /nereid/v1/sequences/{session}[?model=m]: ends the sequence; its waiting steps get the START error. */
export function evictSequence(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  answer(reply, async () => {
    const session = decodedText('session', (request.params as { readonly session: string }).session);
    const { model } = readQuery(request, ['model']);
    const evicted = await gateway.sequences.evict(session, model ?? '');
    if (!evicted.ok) return evicted.error;
    sendJson(reply, JSON.stringify(sequenceJson(evicted.value)));
    return undefined;
  });
}

/** Runs a handler, which gives the error to answer with, if any, or throws it. */
function answer(reply: FastifyReply, handler: () => Promise<ErrorInfo | undefined>): void {
  handler().then(
    (error) => {
      if (error !== undefined) sendOwnError(reply, error);
    },
    (thrown) => sendOwnError(reply, errorInfo(thrown)),
  );
}

function positionOf(text: string | undefined): SequencePosition | undefined {
  if (text === undefined) return undefined;
  // No model's name has a slash.
  const slash = text.indexOf('/');
  if (slash > 0) return { model: text.slice(0, slash), session: text.slice(slash + 1) };
  throw wrongQuery('after', `after must be the 'next' of an earlier answer, got: ${text}`);
}

function sequenceJson({ place, ...sequence }: ModelSequence) {
  return {
    model: sequence.model,
    version: sequence.version,
    sequence_id: sequenceIdJson(sequence.correlationId),
    session: sequence.session,
    ...(place === null
      ? { backlog: sequence.backlog }
      : { worker: place.worker, instance: place.instanceName || String(place.instance), slot: place.slot }),
    steps: sequence.steps,
    waiting: sequence.waiting,
    idle_ms: sequence.idleUs / US_IN_MS,
    age_ms: sequence.ageUs / US_IN_MS,
  };
}
