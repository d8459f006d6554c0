/** What follows a job's end: its webhook, and its dead letter. */
import { type ErrorInfo, NereidError, parseFailedReason } from '@nereid/protocol';
import { type DeadLetter, type Delivery, publicJobId } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { unknownJob } from '../job-ends.ts';
import { jobJson, jobUrl } from '../job-json.ts';
import { timeText } from '../time-text.ts';
import { sendJson } from './errors.ts';
import { answer, jobsOf, refuse } from './jobs-answer.ts';
import { limitOf, readQuery } from './query.ts';
import { readBody } from './read-body.ts';
import type { Route } from './restrict-routes.ts';
import type { RoutesContext } from './routes.ts';

export const DEAD_LETTERS = '/nereid/v1/deadletters';
const LETTER = `${DEAD_LETTERS}/:letter(^.+$)`;
const WEBHOOK = '/v2/jobs/:job(^.+$)/webhook';
export const LETTERS_LISTED_MAX = 1_000;

export function followUpRoutes(context: RoutesContext): readonly Route[] {
  return [
    ['GET', WEBHOOK, (request, reply) => webhook(context, request, reply)],
    ['POST', WEBHOOK, (request, reply) => resendWebhook(context, request, reply)],
    ['GET', DEAD_LETTERS, (request, reply) => listLetters(context, request, reply)],
    ['GET', LETTER, (request, reply) => showLetter(context, request, reply)],
    ['POST', `${LETTER}/replay`, (request, reply) => replayLetter(context, request, reply)],
    ['DELETE', LETTER, (request, reply) => removeLetter(context, request, reply)],
  ];
}

/** GET /v2/jobs/{id}/webhook: how far its delivery is. */
function webhook(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerOrRefuse(context, reply, async () => {
    const id = parameter(request, 'job');
    const found = await jobsOf(context).webhooks.find(id);
    if (found === undefined) return { code: 'NOT_FOUND', message: `no webhook of job '${id}' is known`, field: 'id' };
    sendJson(reply, JSON.stringify(deliveryJson(id, found)));
    return undefined;
  });
}

/** POST /v2/jobs/{id}/webhook: has it sent again. */
function resendWebhook(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerOrRefuse(context, reply, async () => {
    const id = parameter(request, 'job');
    const sent = await jobsOf(context).webhooks.resend(id);
    if (sent === undefined) return unknownJob(id);
    reply.code(202);
    sendJson(reply, JSON.stringify(deliveryJson(id, sent)));
    return undefined;
  });
}

/** GET /nereid/v1/deadletters[?model=m&limit=n&after=…] */
function listLetters(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerOrRefuse(context, reply, async () => {
    const { model = '', limit, after } = readQuery(request, ['model', 'limit', 'after']);
    const query = { model, limit: limitOf(limit, LETTERS_LISTED_MAX), after };
    const { letters, next } = await jobsOf(context).letters.list(query);
    sendJson(reply, JSON.stringify({ deadletters: letters.map(letterJson), next }));
    return undefined;
  });
}

/** GET /nereid/v1/deadletters/{id}: with its input and history. */
function showLetter(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerOrRefuse(context, reply, async () => {
    const id = parameter(request, 'letter');
    const letter = await jobsOf(context).letters.find(id);
    if (letter === undefined) return unknownLetter(id);
    const { data, history } = letter;
    sendJson(reply, JSON.stringify({ ...letterJson(letter), data, history }));
    return undefined;
  });
}

/** POST /nereid/v1/deadletters/{id}/replay with `{data?}`: runs the job again, with those data or its own. */
function replayLetter(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Parameters<Parameters<typeof readBody>[2]>[0]) =>
    answerOrRefuse(context, reply, async () => {
      if (!body.ok) return body.error;
      const id = parameter(request, 'letter');
      const replayed = await jobsOf(context).letters.replay(id, fixedData(body.bytes));
      if (replayed === undefined) return unknownLetter(id);
      const { outcome, job } = replayed;
      if (outcome === 'completed') {
        const message = `job '${id}' has been completed since: remove its letter`;
        return { code: 'ALREADY_EXISTS', message, field: 'id' };
      }
      reply.code(outcome === 'replayed' ? 202 : 200);
      if (job !== undefined) reply.header('Location', jobUrl(job));
      sendJson(reply, JSON.stringify(job === undefined ? { id } : jobJson(job, undefined)));
      return undefined;
    });
  readBody(request.raw, context.inputBytesMax, take, account);
}

/** DELETE /nereid/v1/deadletters/{id}: its job, where that is kept, stays. */
function removeLetter(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  answerOrRefuse(context, reply, async () => {
    const id = parameter(request, 'letter');
    if (!(await jobsOf(context).letters.remove(id))) return unknownLetter(id);
    sendJson(reply, JSON.stringify({ id }));
    return undefined;
  });
}

/** Runs a handler, which gives the error to answer with, if any, or throws it. */
function answerOrRefuse(
  context: RoutesContext,
  reply: FastifyReply,
  handler: () => Promise<ErrorInfo | undefined>,
): void {
  if (context.closing()) reply.header('Connection', 'close');
  answer(context, reply, async () => {
    const error = await handler();
    if (error !== undefined) refuse(context, reply, error);
  });
}

/** A public id is sent as it is: its own escapes are part of it. */
function parameter(request: FastifyRequest, name: string): string {
  return (request.params as Readonly<Record<string, string>>)[name] ?? '';
}

function fixedData(bytes: Uint8Array): unknown {
  if (bytes.byteLength === 0) return undefined;
  let body: unknown;
  try {
    body = JSON.parse(Buffer.from(bytes).toString());
  } catch (failure) {
    const message = `failed to parse the request JSON buffer: ${(failure as Error).message}`;
    throw new NereidError('INVALID_ARG', message, { field: 'body' });
  }
  const names = typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.keys(body) : [''];
  const other = names.find((name) => name !== 'data');
  if (other === undefined) return (body as { readonly data?: unknown }).data;
  const message = `give an object with the member 'data', the job's data as a producer gives them, or no body`;
  throw new NereidError('INVALID_ARG', message, { field: other === '' ? 'body' : other });
}

function unknownLetter(id: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `dead letter '${id}' is not found`, field: 'id' };
}

function letterJson({ model, id, reason, createdMs, diedMs, attemptsMade }: DeadLetter) {
  const { code, message } = parseFailedReason(reason);
  return {
    id: publicJobId(model, id),
    model_name: model,
    error: { code, message },
    attempts_made: attemptsMade,
    created_at: timeText(createdMs),
    died_at: timeText(diedMs),
  };
}

function deliveryJson(id: string, delivery: Delivery) {
  const { url, state, attemptsMade, attemptsMax, error, createdMs, finishedMs } = delivery;
  return {
    job_id: id,
    url,
    state,
    attempts_made: attemptsMade,
    attempts_max: attemptsMax,
    error,
    created_at: timeText(createdMs),
    finished_at: timeText(finishedMs),
  };
}
