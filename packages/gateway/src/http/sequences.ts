import { type ErrorInfo, errorInfo, NereidError, sequenceIdJson } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { type ModelSequence, SEQUENCES_LISTED_MAX, type SequencePosition } from '../sequences.ts';
import { sendJson } from './errors.ts';
import { sendOwnError } from './jobs-error.ts';

const US_IN_MS = 1000;
/** Sequences of one answer, where its caller does not say. */
const LIMIT_DEFAULT = 100;

/**
 * GET /nereid/v1/sequences[?model=m&limit=n&after=…]: the sequences that the cluster keeps, whichever gateway is asked,
 * by model and session; `next` goes into `after` for those behind.
 */
export function sequences(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  answer(reply, async () => {
    const query = readQuery(request, ['model', 'limit', 'after']);
    const limit = limitOf(query.limit);
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
    const session = decoded('session', (request.params as { readonly session: string }).session);
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

/** The query's members of these names. Throws INVALID_ARG where one is given more than once. */
function readQuery<Name extends string>(
  request: FastifyRequest,
  names: readonly Name[],
): { readonly [name in Name]?: string } {
  const query = request.query as Readonly<Record<string, string | readonly string[]>>;
  const read: { [name in Name]?: string } = {};
  for (const name of names) {
    const value = query[name];
    if (typeof value === 'string') read[name] = decoded(name, value);
    else if (value !== undefined) throw wrong(name, `'${name}' is given more than once`);
  }
  return read;
}

/** The router leaves escapes as they were sent (raw-path.ts). */
function decoded(field: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong(field, `'${field}' has an escape that is none: ${text}`);
  }
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return LIMIT_DEFAULT;
  const limit = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= SEQUENCES_LISTED_MAX) return limit;
  throw wrong('limit', `limit must be a whole number from 1 to ${SEQUENCES_LISTED_MAX}, got: ${text}`);
}

function positionOf(text: string | undefined): SequencePosition | undefined {
  if (text === undefined) return undefined;
  // No model's name has a slash.
  const slash = text.indexOf('/');
  if (slash > 0) return { model: text.slice(0, slash), session: text.slice(slash + 1) };
  throw wrong('after', `after must be the 'next' of an earlier answer, got: ${text}`);
}

function wrong(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
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
