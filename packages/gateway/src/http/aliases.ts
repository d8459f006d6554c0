/** Aliases over HTTP: names that clients use as models' (docs/aliases.md). */
import type { Alias } from '@nereid/config';
import { NereidError, sequenceIdJson } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Result } from '../result.ts';
import type { ShadowDifference, ShadowTold } from '../shadows.ts';
import { timeText } from '../time-text.ts';
import { sendJson } from './errors.ts';
import { answer, refuse } from './jobs-answer.ts';
import { decodedText } from './query.ts';
import { readBody } from './read-body.ts';
import type { Route } from './restrict-routes.ts';
import type { RoutesContext } from './routes.ts';

export const ALIASES = '/nereid/v1/aliases';
const ALIAS = `${ALIASES}/:alias(^.+$)`;
/** An alias is a few lines. */
const BODY_BYTES_MAX = 65_536;

export function aliasRoutes(context: RoutesContext): readonly Route[] {
  return [
    ['GET', ALIASES, (_request, reply) => listAliases(context, reply)],
    ['GET', ALIAS, (request, reply) => showAlias(context, request, reply)],
    ['PUT', ALIAS, (request, reply) => putAlias(context, request, reply)],
    ['DELETE', ALIAS, (request, reply) => removeAlias(context, request, reply)],
    ['POST', `${ALIAS}/promote`, (request, reply) => promoteAlias(context, request, reply)],
    ['POST', `${ALIAS}/rollback`, (request, reply) => rollBackAlias(context, request, reply)],
  ];
}

/** GET /nereid/v1/aliases: all of the cluster, by name. */
function listAliases({ services }: RoutesContext, reply: FastifyReply): void {
  sendJson(reply, JSON.stringify({ aliases: services.aliases.list().map(aliasJson) }));
}

/** GET /nereid/v1/aliases/{name}: with what became of its shadow copies at this gateway. */
function showAlias(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const name = nameOf(request);
    const alias = context.services.aliases.find(name);
    if (alias === undefined) {
      refuse(context, reply, { code: 'NOT_FOUND', message: `there is no alias '${name}'` });
      return;
    }
    const told = toldJson(context.gateway.shadows.told(name));
    sendJson(
      reply,
      JSON.stringify({ ...aliasJson(alias), shadow_results: told.counts, differences: told.differences }),
    );
  });
}

/** PUT /nereid/v1/aliases/{name} with `{model, versions: [{version, weight}], shadow?}`: makes or replaces it. */
function putAlias(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  withBody(context, request, reply, (name, body) => context.services.aliases.put(name, body));
}

/** POST /nereid/v1/aliases/{name}/promote with `{version}`: all requests to that version from now on. */
function promoteAlias(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  withBody(context, request, reply, (name, body) => context.services.aliases.promote(name, promotedVersion(body)));
}

/** POST /nereid/v1/aliases/{name}/rollback: as before the last change of its weights. */
function rollBackAlias(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerWith(context, reply, () => context.services.aliases.rollBack(nameOf(request)));
}

/** DELETE /nereid/v1/aliases/{name}: what it was. */
function removeAlias(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerWith(context, reply, () => context.services.aliases.remove(nameOf(request)));
}

type Change = (name: string, body: unknown) => Promise<Result<Alias>>;

function withBody(context: RoutesContext, request: FastifyRequest, reply: FastifyReply, change: Change): void {
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Parameters<Parameters<typeof readBody>[2]>[0]) =>
    answerWith(context, reply, async () =>
      body.ok ? change(nameOf(request), parsed(body.bytes)) : { ok: false, error: body.error },
    );
  readBody(request.raw, BODY_BYTES_MAX, take, account);
}

function answerWith(context: RoutesContext, reply: FastifyReply, change: () => Promise<Result<Alias>>): void {
  answer(context, reply, async () => {
    const changed = await change();
    if (changed.ok) sendJson(reply, JSON.stringify(aliasJson(changed.value)));
    else refuse(context, reply, changed.error);
  });
}

function nameOf(request: FastifyRequest): string {
  return decodedText('name', (request.params as { readonly alias: string }).alias);
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch (failure) {
    const message = `failed to parse the request JSON buffer: ${(failure as Error).message}`;
    throw new NereidError('INVALID_ARG', message, { field: 'body' });
  }
}

function promotedVersion(body: unknown): string {
  const { version } = (typeof body === 'object' && body !== null ? body : {}) as { readonly version?: unknown };
  const text = typeof version === 'number' ? String(version) : version;
  if (typeof text === 'string' && /^[0-9]{1,19}$/.test(text)) return text.replace(/^0+(?=[0-9])/, '');
  const message = 'give {"version": "2"}: the version that is to have all requests';
  throw new NereidError('INVALID_ARG', message, { field: 'version' });
}

function aliasJson({ name, model, versions, shadow, before }: Alias) {
  return { name, model, versions, shadow, before };
}

function toldJson({ counts, differences }: ShadowTold) {
  return { counts, differences: differences.map(differenceJson) };
}

function differenceJson(found: ShadowDifference) {
  const { atMs, requestId, correlationId, version, shadowVersion, recorded, replayed, ...rest } = found;
  return {
    at: timeText(atMs),
    request_id: requestId === '' ? undefined : requestId,
    sequence_id: correlationId === 0n || correlationId === '' ? undefined : sequenceIdJson(correlationId),
    version,
    shadow_version: shadowVersion,
    ...rest,
    answer: recorded,
    shadow_answer: replayed,
  };
}
