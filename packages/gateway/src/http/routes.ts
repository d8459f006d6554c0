import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { BullBoard } from '../bull-board.ts';
import type { RestrictedApis, RestrictedKey } from '../restricted.ts';
import { admitRoute } from './admin-calls.ts';
import { aliasRoutes } from './aliases.ts';
import { getBlob, putBlob } from './blobs.ts';
import { type BulkContext, bulkResults, bulkStatus, dropBulk, listBulk, submitBulk } from './bulk.ts';
import { addBullBoard } from './bull-board.ts';
import { sendError, sendJson } from './errors.ts';
import { explain } from './explain.ts';
import { followUpRoutes } from './follow-ups.ts';
import { generate, generateStream } from './generate.ts';
import { live, modelReady, ready } from './health.ts';
import { infer } from './infer.ts';
import { type JobEventsContext, jobEvents } from './job-events.ts';
import { inferAsJob, jobQueue, jobResult, jobStatus, submitJob } from './jobs.ts';
import { dropJob, listJobs, retryJob } from './jobs-change.ts';
import { journalRoutes } from './journal.ts';
import type { JournalContext } from './journal-found.ts';
import { logging, setLogging } from './logging.ts';
import { modelConfig, modelMetadata, serverMetadataText } from './metadata.ts';
import { createOpenApi } from './openapi.ts';
import { placementRoutes } from './placement.ts';
import { preferenceOf } from './prefer.ts';
import { queues } from './queues.ts';
import { loadModel, repositoryIndex, unloadModel } from './repository.ts';
import { type Route, restrictRoute } from './restrict-routes.ts';
import { evictSequence, sequences } from './sequences.ts';
import type { ServicesContext } from './services-context.ts';
import { sharedMemoryRoutes } from './shared-memory-routes.ts';
import { allStatistics, modelStatistics } from './statistics.ts';
import { setTraceSetting, traceSetting } from './trace.ts';

export interface RoutesContext extends JobEventsContext, BulkContext, JournalContext, ServicesContext {
  readonly serverId: string;
  readonly version: string;
  /** The groups of routes that need a key. */
  readonly restricted: RestrictedApis;
  /** What admin calls must bring; undefined where only callers on this machine may make them. */
  readonly adminKey: RestrictedKey | undefined;
  /** Not served without it. */
  readonly bullBoard: BullBoard | undefined;
}

/** Anything but nothing: the router would take an empty name too. */
const MODEL = '/v2/models/:model(^.+$)';
/** Digits only: any other version is an unknown path. */
const VERSION = `${MODEL}/versions/:version(^[0-9]+$)`;
const JOB = '/v2/jobs/:job(^.+$)';
const BATCH = '/v2/batches/:batch(^.+$)';
const SEQUENCES = '/nereid/v1/sequences';
/** Of the repository as a whole, and of one of its parts by name. */
const REPOSITORY = '/v2/repository';
const NAMED_REPOSITORY = `${REPOSITORY}/:repository(^.+$)`;
const REPOSITORY_MODEL = 'models/:model(^.+$)';

/** Every path served. */
function routeTable(context: RoutesContext): readonly Route[] {
  const { gateway } = context;
  const server = serverMetadataText(context.serverId, context.version);
  const openApi = createOpenApi(gateway, context.version);
  return [
    ['GET', '/v2', (_request, reply) => sendJson(reply, server)],
    ['GET', '/v2/health/live', (request, reply) => live(gateway, request, reply)],
    ['GET', '/v2/health/ready', (request, reply) => ready(gateway, request, reply)],
    // Before the model routes: in Triton a model of that name has no metadata either.
    ['GET', '/v2/models/stats', (request, reply) => allStatistics(gateway, request, reply)],
    ['GET', MODEL, (request, reply) => modelMetadata(gateway, request, reply)],
    ['GET', VERSION, (request, reply) => modelMetadata(gateway, request, reply)],
    ['GET', `${MODEL}/ready`, (request, reply) => modelReady(gateway, request, reply)],
    ['GET', `${VERSION}/ready`, (request, reply) => modelReady(gateway, request, reply)],
    ['GET', `${MODEL}/config`, (request, reply) => modelConfig(gateway, request, reply)],
    ['GET', `${VERSION}/config`, (request, reply) => modelConfig(gateway, request, reply)],
    ['GET', `${MODEL}/stats`, (request, reply) => modelStatistics(gateway, request, reply)],
    ['GET', `${VERSION}/stats`, (request, reply) => modelStatistics(gateway, request, reply)],
    ['POST', `${MODEL}/infer`, (request, reply) => inferOrSubmit(context, request, reply)],
    ['POST', `${VERSION}/infer`, (request, reply) => inferOrSubmit(context, request, reply)],
    ['POST', `${MODEL}/generate`, (request, reply) => generate(context, request, reply)],
    ['POST', `${VERSION}/generate`, (request, reply) => generate(context, request, reply)],
    ['POST', `${MODEL}/generate_stream`, (request, reply) => generateStream(context, request, reply)],
    ['POST', `${VERSION}/generate_stream`, (request, reply) => generateStream(context, request, reply)],
    ['POST', `${MODEL}/jobs`, (request, reply) => submitJob(context, request, reply)],
    ['POST', `${VERSION}/jobs`, (request, reply) => submitJob(context, request, reply)],
    ['GET', `${MODEL}/jobs/queue`, (request, reply) => jobQueue(context, request, reply)],
    ['POST', '/v2/blobs', (request, reply) => putBlob(context, request, reply)],
    ['GET', '/v2/blobs/:ref(^.+$)', (request, reply) => getBlob(context, request, reply)],
    ['GET', '/v2/jobs', (request, reply) => listJobs(context, request, reply)],
    ['GET', JOB, (request, reply) => jobStatus(context, request, reply)],
    ['DELETE', JOB, (request, reply) => dropJob(context, request, reply)],
    ['POST', `${JOB}/retry`, (request, reply) => retryJob(context, request, reply)],
    ['GET', `${JOB}/events`, (request, reply) => jobEvents(context, request, reply)],
    ['GET', `${JOB}/result`, (request, reply) => jobResult(context, request, reply)],
    ...followUpRoutes(context),
    ...bulkRoutes(context),
    ...journalRoutes(context),
    ...aliasRoutes(context),
    ...sharedMemoryRoutes(context),
    ['GET', '/nereid/v1/queues', (request, reply) => queues(gateway, request, reply)],
    ['GET', SEQUENCES, (request, reply) => sequences(gateway, request, reply)],
    ['GET', '/nereid/v1/explain/:id(^.+$)', (request, reply) => explain(context, request, reply)],
    ['DELETE', `${SEQUENCES}/:session(^.+$)`, (request, reply) => evictSequence(gateway, request, reply)],
    ['GET', '/openapi.json', (_request, reply) => openApi.sendDocument(reply)],
    ['GET', '/openapi', (_request, reply) => openApi.sendPage(reply)],
    ...placementRoutes(gateway),
    ...settingRoutes(context),
    ...[REPOSITORY, NAMED_REPOSITORY].flatMap((repository) => repositoryRoutes(repository, context)),
  ];
}

/** Without a Redis nothing is preferred: whoever prefers takes the plain answer too. */
function inferOrSubmit(context: RoutesContext, request: FastifyRequest, reply: FastifyReply): void {
  const preference = context.jobs === undefined ? undefined : preferenceOf(request.headers);
  if (preference === undefined) infer(context, request, reply);
  else inferAsJob(context, request, reply, preference);
}

function bulkRoutes(context: RoutesContext): readonly Route[] {
  return [
    ['POST', `${MODEL}/batches`, (request, reply) => submitBulk(context, request, reply)],
    ['POST', `${VERSION}/batches`, (request, reply) => submitBulk(context, request, reply)],
    ['GET', `${MODEL}/batches`, (request, reply) => listBulk(context, request, reply)],
    ['GET', BATCH, (request, reply) => bulkStatus(context, request, reply)],
    ['DELETE', BATCH, (request, reply) => dropBulk(context, request, reply)],
    ['GET', `${BATCH}/results`, (request, reply) => bulkResults(context, request, reply)],
  ];
}

function settingRoutes(context: RoutesContext): readonly Route[] {
  const traces = ['/v2/trace/setting', `${MODEL}/trace/setting`] as const;
  return [
    ['GET', '/v2/logging', (_request, reply) => logging(context, reply)],
    ['POST', '/v2/logging', (request, reply) => setLogging(context, request, reply)],
    ...traces.flatMap((url): Route[] => [
      ['GET', url, (request, reply) => traceSetting(context, request, reply)],
      ['POST', url, (request, reply) => setTraceSetting(context, request, reply)],
    ]),
  ];
}

function repositoryRoutes(of: string, context: RoutesContext): readonly Route[] {
  return [
    ['POST', `${of}/index`, (request, reply) => repositoryIndex(context, request, reply)],
    ['POST', `${of}/${REPOSITORY_MODEL}/load`, (request, reply) => loadModel(context, request, reply)],
    ['POST', `${of}/${REPOSITORY_MODEL}/unload`, (request, reply) => unloadModel(context, request, reply)],
  ];
}

/** Adds all routes, and the answers for what is none of them (evhtp's in Triton). */
export function addRoutes(app: FastifyInstance, context: RoutesContext): void {
  const table = routeTable(context);
  const { restricted } = context;
  for (const [method, url, handler] of table) {
    const path = samplePath(url);
    const admitted = admitRoute(context.adminKey, method, path, handler);
    app.route({ method, url, handler: restrictRoute(restricted, path, admitted) });
  }

  if (context.bullBoard !== undefined) addBullBoard(app, context, context.bullBoard);

  const known = [...new Set(table.map(([, url]) => pathPattern(url)))].map(fullMatch);
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?', 1);
    if (known.some((pattern) => pattern.test(path))) restrictRoute(restricted, path, wrongMethod)(request, reply);
    else sendError(reply, { code: 'NOT_FOUND', message: 'Not Found' });
  });
}

function wrongMethod(_request: FastifyRequest, reply: FastifyReply): void {
  sendError(reply, { code: 'UNSUPPORTED', message: 'Method Not Allowed' }, 405);
}

/** A path of the route. */
function samplePath(url: string): string {
  return url.replaceAll(/:(\w+)\([^/]*\)/g, (_, name: string) => (name === 'version' ? '1' : 'name'));
}

/** A route's path as a regular expression over a whole path. */
function pathPattern(url: string): string {
  return url
    .replace('.json', '\\.json')
    .replace(':version(^[0-9]+$)', '[0-9]+')
    .replaceAll(/:\w+\(\^\.\+\$\)/g, '[^/]+');
}

function fullMatch(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}
