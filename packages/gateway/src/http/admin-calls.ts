import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { FORWARDED, isLoopback } from '../loopback.ts';
import { bringsKey, ADMIN_KEY_HEADER as HEADER, type RestrictedKey } from '../restricted.ts';
import { sendOwnError } from './jobs-error.ts';
import type { Handler, Method } from './restrict-routes.ts';

const FORBIDDEN_STATUS = 403;
/** Our own routes that change something; what Triton serves has `--http-restricted-api`. */
const OWN = /^\/nereid\//;
/** Those that show what clients have sent, or were answered. */
const SHOWS_INPUTS = /^\/nereid\/v1\/(?:deadletters|journal|aliases\/)/;

/**
 * The handler of a path, which is asked only where the caller may: each call of ours that writes, or shows what
 * clients have sent, is an admin call, taken with the key of `--admin-key`, or without one from this machine alone. All others' handlers are given back as they are.
 */
export function admitRoute(key: RestrictedKey | undefined, method: Method, path: string, handler: Handler): Handler {
  if (!SHOWS_INPUTS.test(path) && (method === 'GET' || !OWN.test(path))) return handler;
  return (request, reply) => {
    if (key === undefined ? isLocal(request) : bringsKey(key, adminKeyOf(request.headers))) handler(request, reply);
    else refuse(reply, key === undefined);
  };
}

/** As `admitRoute` has it, for a page in a browser: that may bring the key as the password of its user. */
export function isAdmin(key: RestrictedKey | undefined, request: FastifyRequest): boolean {
  if (key === undefined) return isLocal(request);
  if (bringsKey(key, adminKeyOf(request.headers))) return true;
  // A browser sends the password along with what pages of other sites have it send.
  return isOwnOrigin(request.headers) && bringsKey(key, passwordOf(request.headers));
}

function isOwnOrigin({ origin, host }: IncomingHttpHeaders): boolean {
  return origin === undefined || (URL.canParse(origin) && new URL(origin).host === host);
}

function passwordOf({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  const [, credentials] = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(authorization) ?? [];
  if (credentials === undefined) return undefined;
  const text = Buffer.from(credentials, 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : text.slice(colon + 1);
}

/** The key that came along. */
export function adminKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const given = headers[HEADER.toLowerCase()];
  return Array.isArray(given) ? given.join(', ') : given;
}

/** The caller is on this machine, and no page of another site in its browser. */
export function isLocal({ headers, socket }: FastifyRequest): boolean {
  const { remoteAddress } = socket;
  if (remoteAddress === undefined || FORWARDED.some((name) => headers[name] !== undefined)) return false;
  const { host, origin } = headers;
  // A page's own name may have been made to lead here.
  if (!namesLoopback(`http://${host ?? ''}`) || (origin !== undefined && !namesLoopback(origin))) return false;
  return isLoopback(remoteAddress);
}

function namesLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const name = new URL(url).hostname.replace(/^\[|\]$/g, '');
  return isLoopback(name);
}

function refuse(reply: FastifyReply, isKeyless: boolean): void {
  const message = isKeyless
    ? `this call is taken from the server's own machine only, by localhost or a loopback address; start it with --admin-key to take it from elsewhere with the header ${HEADER}`
    : `this call needs the key of --admin-key in the header ${HEADER}`;
  sendOwnError(reply, { code: 'INVALID_ARG', message, field: HEADER }, FORBIDDEN_STATUS);
}
