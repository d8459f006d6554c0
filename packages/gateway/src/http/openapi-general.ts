import { SEQUENCES_LISTED_MAX } from '../sequences.ts';
import { EXPLAIN_LIMIT_MAX } from './explain.ts';
import { ALIAS_ROUTES } from './openapi-aliases.ts';
import { BULK_ROUTES } from './openapi-bulk.ts';
import { FOLLOW_UP_ROUTES } from './openapi-follow-ups.ts';
import { JOB_ROUTES } from './openapi-jobs.ts';
import { JOURNAL_ROUTES } from './openapi-journal.ts';
import {
  type GeneralRoute,
  JOB_ERROR_RESPONSE,
  jsonBody,
  jsonResponse,
  limited,
  named,
  ofModel,
  operation,
} from './openapi-parts.ts';
import { PLACEMENT_ROUTES } from './openapi-placement.ts';
import { REPOSITORY_ROUTES } from './openapi-repository.ts';
import { type Schema, schemaRef } from './openapi-schemas.ts';

const SERVER = 'server';

const EMPTY: Schema = { description: 'No body.' };

const object: Schema = { type: 'object' };
const list: Schema = { type: 'array', items: object };

/** Routes that do not depend on the models. */
const ROUTES: readonly GeneralRoute[] = [
  [
    '/v2',
    'get',
    {
      tag: SERVER,
      summary: 'Name, version and extensions',
      success: jsonResponse('Metadata.', schemaRef('ServerMetadata')),
    },
  ],
  ['/v2/health/live', 'get', { tag: SERVER, summary: 'Whether the server answers', success: EMPTY, failure: EMPTY }],
  ['/v2/health/ready', 'get', { tag: SERVER, summary: 'Whether all models are ready', success: EMPTY, failure: EMPTY }],
  [
    '/v2/models/stats',
    'get',
    { tag: SERVER, summary: 'Statistics of all models', success: jsonResponse('Statistics.') },
  ],
  [
    '/nereid/v1/queues',
    'get',
    {
      tag: SERVER,
      summary: 'What queues hold, and the batches that they have formed',
      parameters: [ofModel],
      success: jsonResponse('Queues by model and version.', schemaRef('Queues')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/nereid/v1/sequences',
    'get',
    {
      tag: SERVER,
      summary: 'The sequences that are kept, where, and since when',
      parameters: [
        ofModel,
        limited(SEQUENCES_LISTED_MAX),
        {
          name: 'after',
          in: 'query',
          description: '`next` of an earlier answer: those behind it.',
          schema: { type: 'string', pattern: '^[^/]+/.*$' },
        },
      ],
      success: jsonResponse('Sequences by model and session.', schemaRef('Sequences')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/nereid/v1/sequences/{session}',
    'delete',
    {
      tag: SERVER,
      summary: 'Ends a sequence: its waiting steps fail, its slot is free',
      parameters: [
        named('session'),
        ofModel,
        {
          name: 'Nereid-Admin-Key',
          in: 'header',
          description: 'What the server was started with as --admin-key, if it was.',
          schema: { type: 'string' },
        },
      ],
      success: jsonResponse('What it was.', schemaRef('Sequence')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/nereid/v1/explain/{id}',
    'get',
    {
      tag: SERVER,
      summary: 'What became of a request: where it waited, with whom it ran, how long each part took',
      parameters: [
        {
          ...named('id'),
          description: "Its client's id, the `Nereid-Request-Id` of its answer, a job's id, or the id of a trace.",
        },
        {
          name: 'limit',
          in: 'query',
          description: 'Requests of that id at most, the newest first; 10 unless given.',
          schema: { type: 'integer', minimum: 1, maximum: EXPLAIN_LIMIT_MAX },
        },
      ],
      success: jsonResponse('The requests of that id.', schemaRef('Explained')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  ['/v2/logging', 'get', { tag: SERVER, summary: 'Log settings', success: jsonResponse('Settings.') }],
  [
    '/v2/logging',
    'post',
    {
      tag: SERVER,
      summary: 'Changes log settings',
      body: jsonBody(object, { log_info: true }),
      success: jsonResponse('Settings.'),
    },
  ],
  ['/v2/trace/setting', 'get', { tag: SERVER, summary: 'Trace settings', success: jsonResponse('Settings.') }],
  [
    '/v2/trace/setting',
    'post',
    {
      tag: SERVER,
      summary: 'Changes trace settings',
      body: jsonBody(object, { trace_rate: '1000' }),
      success: jsonResponse('Settings.'),
    },
  ],
  [
    '/v2/systemsharedmemory/status',
    'get',
    { tag: SERVER, summary: 'Regions of shared memory', success: jsonResponse('Regions.', list) },
  ],
  ...REPOSITORY_ROUTES,
  ...JOB_ROUTES,
  ...BULK_ROUTES,
  ...FOLLOW_UP_ROUTES,
  ...JOURNAL_ROUTES,
  ...ALIAS_ROUTES,
  ...PLACEMENT_ROUTES,
];

/** Their path items, by path. */
export function generalPaths(): Record<string, Record<string, Schema>> {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const [path, method, of] of ROUTES) {
    paths[path] = { ...paths[path], [method]: operation({ ...of, id: `${method} ${path}` }) };
  }
  return paths;
}
