import { JOB_ERROR_RESPONSE, jsonBody, jsonResponse, type Operation, operation } from './openapi-parts.ts';
import { type Schema, schemaRef } from './openapi-schemas.ts';

const SERVER = 'server';
const JOBS = 'jobs';

const EMPTY: Schema = { description: 'No body.' };
const wait: Schema = {
  name: 'wait',
  in: 'query',
  description: 'How long to wait for the end, like 30s or 500ms.',
  schema: { type: 'string', pattern: '^[0-9]{1,9}(ms|s)?$' },
};
const named = (name: string): Schema => ({ name, in: 'path', required: true, schema: { type: 'string' } });

type Route = readonly [path: string, method: 'get' | 'post', of: Omit<Operation, 'id'>];

const object: Schema = { type: 'object' };
const list: Schema = { type: 'array', items: object };

/** Routes that do not depend on the models. */
const ROUTES: readonly Route[] = [
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
      parameters: [
        { name: 'model', in: 'query', description: 'This model alone.', schema: { type: 'string', minLength: 1 } },
      ],
      success: jsonResponse('Queues by model and version.', schemaRef('Queues')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/v2/repository/index',
    'post',
    {
      tag: SERVER,
      summary: 'The models of the repository with their states',
      body: jsonBody({ type: 'object', properties: { ready: { type: 'boolean' } } }, { ready: true }, false),
      success: jsonResponse('Models.', list),
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
  [
    '/v2/jobs/{job}',
    'get',
    {
      tag: JOBS,
      summary: 'The state of a job',
      parameters: [named('job'), wait],
      success: jsonResponse('The job.', schemaRef('Job')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/v2/jobs/{job}/result',
    'get',
    {
      tag: JOBS,
      summary: 'The answer of a job; 202 with the job while there is none yet',
      parameters: [named('job'), wait],
      success: jsonResponse('What infer would have answered.'),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
];

/** Their path items, by path. */
export function generalPaths(): Record<string, Record<string, Schema>> {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const [path, method, of] of ROUTES) {
    paths[path] = { ...paths[path], [method]: operation({ ...of, id: `${method} ${path}` }) };
  }
  return paths;
}
