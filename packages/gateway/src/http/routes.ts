import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendError, sendJson } from './errors.ts';
import { generate, generateStream } from './generate.ts';
import { live, modelReady, ready } from './health.ts';
import { type InferContext, infer } from './infer.ts';
import { type JobsContext, jobQueue, jobResult, jobStatus, submitJob } from './jobs.ts';
import { modelConfig, modelMetadata, serverMetadataText } from './metadata.ts';

export interface RoutesContext extends InferContext, JobsContext {
  readonly serverId: string;
  readonly version: string;
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => void;

/** Anything but nothing: the router would take an empty name too. */
const MODEL = '/v2/models/:model(^.+$)';
/** Digits only: any other version is an unknown path. */
const VERSION = `${MODEL}/versions/:version(^[0-9]+$)`;
const JOB = '/v2/jobs/:job(^.+$)';

/** Every path served. */
function routeTable(context: RoutesContext): readonly (readonly ['GET' | 'POST', string, Handler])[] {
  const { gateway } = context;
  const server = serverMetadataText(context.serverId, context.version);
  return [
    ['GET', '/v2', (_request, reply) => sendJson(reply, server)],
    ['GET', '/v2/health/live', (request, reply) => live(gateway, request, reply)],
    ['GET', '/v2/health/ready', (request, reply) => ready(gateway, request, reply)],
    // Statistics of all models in Triton, so a model of that name has no metadata there either.
    ['GET', '/v2/models/stats', notServed],
    ['GET', MODEL, (request, reply) => modelMetadata(gateway, request, reply)],
    ['GET', VERSION, (request, reply) => modelMetadata(gateway, request, reply)],
    ['GET', `${MODEL}/ready`, (request, reply) => modelReady(gateway, request, reply)],
    ['GET', `${VERSION}/ready`, (request, reply) => modelReady(gateway, request, reply)],
    ['GET', `${MODEL}/config`, (request, reply) => modelConfig(gateway, request, reply)],
    ['GET', `${VERSION}/config`, (request, reply) => modelConfig(gateway, request, reply)],
    ['POST', `${MODEL}/infer`, (request, reply) => infer(context, request, reply)],
    ['POST', `${VERSION}/infer`, (request, reply) => infer(context, request, reply)],
    ['POST', `${MODEL}/generate`, (request, reply) => generate(context, request, reply)],
    ['POST', `${VERSION}/generate`, (request, reply) => generate(context, request, reply)],
    ['POST', `${MODEL}/generate_stream`, (request, reply) => generateStream(context, request, reply)],
    ['POST', `${VERSION}/generate_stream`, (request, reply) => generateStream(context, request, reply)],
    ['POST', `${MODEL}/jobs`, (request, reply) => submitJob(context, request, reply)],
    ['POST', `${VERSION}/jobs`, (request, reply) => submitJob(context, request, reply)],
    ['GET', `${MODEL}/jobs/queue`, (request, reply) => jobQueue(context, request, reply)],
    ['GET', JOB, (request, reply) => jobStatus(context, request, reply)],
    ['GET', `${JOB}/result`, (request, reply) => jobResult(context, request, reply)],
  ];
}

/** Triton's routes that this version does not have: an answer that says so, not a bare 404. */
const NOT_SERVED = [
  '/v2/models/[^/]+(/versions/[0-9]+)?/stats',
  '/v2(/models/[^/]+)?/trace/setting',
  '/v2/logging',
  '/v2/repository(/[^/]+)?/(index|models/[^/]+/(load|unload))',
  '/v2/(system|cuda)sharedmemory(/region/[^/]+)?/(status|register|unregister)',
].map(fullMatch);

/** Adds all routes, and the answers for what is none of them (evhtp's in Triton). */
export function addRoutes(app: FastifyInstance, context: RoutesContext): void {
  const table = routeTable(context);
  for (const [method, url, handler] of table) app.route({ method, url, handler });

  const known = [...new Set(table.map(([, url]) => pathPattern(url)))].map(fullMatch);
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?', 1);
    const matches = (pattern: RegExp) => pattern.test(path);
    if (known.some(matches)) sendError(reply, { code: 'UNSUPPORTED', message: 'Method Not Allowed' }, 405);
    else if (NOT_SERVED.some(matches)) notServed(request, reply);
    else sendError(reply, { code: 'NOT_FOUND', message: 'Not Found' });
  });
}

function notServed(request: FastifyRequest, reply: FastifyReply): void {
  const [path = ''] = request.url.split('?', 1);
  sendError(reply, { code: 'UNSUPPORTED', message: `this version does not serve ${request.method} ${path}` });
}

/** A route's path as a regular expression over a whole path. */
function pathPattern(url: string): string {
  return url.replace(':version(^[0-9]+$)', '[0-9]+').replace(/:(model|job)\(\^\.\+\$\)/, '[^/]+');
}

function fullMatch(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}
