import type { FastifyReply, FastifyRequest } from 'fastify';
import { bringsKey, type RestrictedApis } from '../restricted.ts';
import { apiCategory } from './api-category.ts';
import { sendError } from './errors.ts';
import { sendOwnError } from './jobs-error.ts';

export type Handler = (request: FastifyRequest, reply: FastifyReply) => void;

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** A path as the router has it, with what answers there. */
export type Route = readonly [Method, string, Handler];

const FORBIDDEN_STATUS = 403;
/** Our own routes answer with the code beside the text. */
const OWN_ROUTE = /\/(?:jobs|batches|blobs|nereid|openapi)\b/;

/**
 * The handler of a path, which is asked only where the call brings the key that the path's group
 * needs. Triton checks it before the method and before the model exists (http_server.cc). A group
 * that is open to all costs nothing: its handler is given back as it is.
 */
export function restrictRoute(apis: RestrictedApis, path: string, handler: Handler): Handler {
  const category = apiCategory(path);
  // It would be open to all whatever is restricted.
  if (category === undefined) throw new Error(`the route ${path} has no group in api-category.ts`);
  const key = apis.get(category);
  if (key === undefined) return handler;
  const header = key.name.toLowerCase();
  const refuse = OWN_ROUTE.test(path) ? sendOwnError : sendError;
  return (request, reply) => {
    const given = request.headers[header];
    if (bringsKey(key, Array.isArray(given) ? given.join(', ') : given)) {
      handler(request, reply);
      return;
    }
    const message = `This API is restricted, expecting header '${key.name}'`;
    refuse(reply, { code: 'INVALID_ARG', message, field: key.name }, FORBIDDEN_STATUS);
  };
}
