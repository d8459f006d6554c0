import { type ErrorInfo, errorInfo, NereidError, thrownError } from '@nereid/protocol';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { BullBoard } from '../bull-board.ts';
import { isAdmin } from './admin-calls.ts';
import { sendOwnError } from './jobs-error.ts';
import { type Body, readBody } from './read-body.ts';
import { restrictRoute } from './restrict-routes.ts';
import type { RoutesContext } from './routes.ts';

const BASE = '/bull-board/';
const ADMIN_BASE = `${BASE}admin/`;
const UNAUTHORIZED_STATUS = 401;
/** The page works with its own files and nothing else. */
const POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'self'";

/** Adds bull-board's page: for reading, and with all its buttons for admin calls. */
export function addBullBoard(app: FastifyInstance, context: RoutesContext, board: BullBoard): void {
  const reads = restrictRoute(context.restricted, BASE, (request, reply) =>
    serve(context, request, reply, board, { base: BASE, canWrite: false }),
  );
  const writes = restrictRoute(context.restricted, ADMIN_BASE, (request, reply) => {
    if (isAdmin(context.adminKey, request)) serve(context, request, reply, board, { base: ADMIN_BASE, canWrite: true });
    else refuse(context, reply);
  });
  app.get('/bull-board', (_request, reply) => void reply.redirect(BASE));
  app.get('/bull-board/admin', (_request, reply) => void reply.redirect(ADMIN_BASE));
  app.route({ method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], url: `${ADMIN_BASE}*`, handler: writes });
  app.route({ method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], url: `${BASE}*`, handler: reads });
}

interface Place {
  readonly base: string;
  readonly canWrite: boolean;
}

function serve(
  context: RoutesContext,
  request: FastifyRequest,
  reply: FastifyReply,
  board: BullBoard,
  place: Place,
): void {
  const { base, canWrite } = place;
  const [path = ''] = request.url.split('?', 1);
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    const answer = async () => {
      if (!body.ok) throw thrownError(body.error);
      const headers = request.headers as Readonly<Record<string, string | undefined>>;
      const query = request.query as Readonly<Record<string, unknown>>;
      const asked = {
        method: request.method,
        path: path.slice(base.length - 1),
        query,
        headers,
        body: json(body.bytes),
      };
      const { status, type, body: bytes } = await board.answer(asked, base, canWrite);
      if (context.closing()) reply.header('Connection', 'close');
      reply.code(status).header('Content-Type', type).header('Content-Security-Policy', POLICY);
      reply.header('X-Content-Type-Options', 'nosniff').send(bytes);
    };
    answer().catch((thrown: unknown) => sendOwnError(reply, errorInfo(thrown)));
  };
  readBody(request.raw, context.inputBytesMax, take, account);
}

/** A browser asks its user for the key then, as the password. */
function refuse({ adminKey }: RoutesContext, reply: FastifyReply): void {
  const error = (message: string): ErrorInfo => ({ code: 'INVALID_ARG', message, field: 'Nereid-Admin-Key' });
  if (adminKey === undefined) {
    sendOwnError(
      reply,
      error(`without --admin-key this page is for the server's own machine; ${BASE} is for reading`),
      403,
    );
    return;
  }
  reply.header('WWW-Authenticate', 'Basic realm="nereid", charset="UTF-8"');
  sendOwnError(
    reply,
    error('give the key of --admin-key in the header Nereid-Admin-Key, or as the password of any user'),
    UNAUTHORIZED_STATUS,
  );
}

function json(bytes: Uint8Array): unknown {
  if (bytes.byteLength === 0) return undefined;
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    throw new NereidError('INVALID_ARG', 'the body is no JSON', { field: 'body' });
  }
}
