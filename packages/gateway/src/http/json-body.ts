import { type ErrorInfo, errorInfo, type JsonMember, NereidError, readMembers } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendError } from './errors.ts';
import type { InferContext } from './infer.ts';
import { type Body, readBody } from './read-body.ts';

/** What the handlers of small JSON bodies need. */
export type JsonBodyContext = Pick<InferContext, 'log' | 'inputBytesMax' | 'requestLimits' | 'openBytes' | 'closing'>;

export type Members = ReadonlyMap<string, JsonMember>;

const NO_MEMBERS: Members = new Map();

/**
 * Hands the body's members to `handle`. What that, or reading them, throws is the answer. An empty body
 * has none where it `mayBeEmpty`, else it is no JSON.
 */
export function withMembers(
  context: JsonBodyContext,
  request: FastifyRequest,
  reply: FastifyReply,
  mayBeEmpty: boolean,
  handle: (members: Members) => Promise<void> | void,
): void {
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    const run = async () => {
      if (!body.ok) {
        refuse(context, reply, body.error);
        return;
      }
      const isEmpty = mayBeEmpty && body.bytes.byteLength === 0;
      await handle(isEmpty ? NO_MEMBERS : readMembers(body.bytes, context.requestLimits.json_depth_max));
    };
    run().catch((thrown: unknown) => {
      if (!(thrown instanceof NereidError)) context.log.error({ err: thrown, path: request.url }, 'request threw');
      refuse(context, reply, errorInfo(thrown));
    });
  };
  readBody(request.raw, context.inputBytesMax, take, account);
}

/** Answers with an error; once the server stops, as the last on its connection. */
export function refuse(context: Pick<JsonBodyContext, 'log' | 'closing'>, reply: FastifyReply, error: ErrorInfo): void {
  context.log.debug({ err: error }, 'request refused');
  if (context.closing()) reply.header('Connection', 'close');
  sendError(reply, error);
}
