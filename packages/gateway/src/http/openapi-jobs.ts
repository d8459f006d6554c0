/** What the OpenAPI document says of jobs. */
import { JOBS_LISTED_MAX } from '../job-pages.ts';
import { PUBLIC_JOB_STATES } from '../job-state.ts';
import { type GeneralRoute, JOB_ERROR_RESPONSE, jsonResponse, limited, named, ofModel } from './openapi-parts.ts';
import { type Schema, schemaRef } from './openapi-schemas.ts';

const JOBS = 'jobs';

const wait: Schema = {
  name: 'wait',
  in: 'query',
  description: 'How long to wait for the end, like 30s or 500ms; 60 s at most.',
  schema: { type: 'string', pattern: '^[0-9]{1,9}(ms|s)?$' },
};

const query = (name: string, description: string, schema: Schema): Schema => ({
  name,
  in: 'query',
  description,
  schema,
});

const header = (name: string, description: string, schema: Schema): Schema => ({
  name,
  in: 'header',
  description,
  schema,
});

const whole = (minimum: number, maximum?: number): Schema => ({
  type: 'integer',
  minimum,
  ...(maximum === undefined ? {} : { maximum }),
});

/** Of infer. */
export const PREFER: Schema = header(
  'Prefer',
  '`respond-async`: a job, with 202. `wait=n`: the same, but the outputs where they come within n seconds.',
  { type: 'string' },
);

/** What a submission may say of its job. */
export const JOB_HEADERS: readonly Schema[] = [
  header('Idempotency-Key', 'The same key and request within 24 h are the same job.', {
    type: 'string',
    maxLength: 255,
  }),
  header('Nereid-Priority', '0 goes first; 100 unless given.', whole(0, 1000)),
  header('Nereid-Delay-Ms', 'Not to be run before that time is over.', whole(0)),
  header('Nereid-Deadline-Ms', 'Not to be begun after that time is over.', whole(1)),
  header('Nereid-Attempts', 'How often it is tried; 3 unless given.', whole(1, 100)),
  header('Nereid-Result-Ttl-S', 'How long its result can be asked for; 3600 unless given.', whole(1)),
  header('Nereid-Tag', 'Tags between commas, by which it can be listed.', { type: 'string' }),
];

const ONE = '/v2/jobs/{job}';

export const JOB_ROUTES: readonly GeneralRoute[] = [
  [
    '/v2/blobs',
    'post',
    {
      tag: JOBS,
      summary: 'Puts a tensor, raw as in the binary form, for a job to come',
      parameters: [header('Nereid-Ttl-S', 'How long it is kept; 3600 s unless given.', whole(1))],
      status: 201,
      success: jsonResponse('Its reference, `ref`, and `byte_size`.'),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/v2/blobs/{ref}',
    'get',
    {
      tag: JOBS,
      summary: 'A tensor that was put, or that the result of a job names',
      parameters: [named('ref')],
      success: { description: 'Its bytes.', content: { 'application/octet-stream': {} } },
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    '/v2/jobs',
    'get',
    {
      tag: JOBS,
      summary: 'The jobs of all models, by model, then by state',
      parameters: [
        ofModel,
        query('state', 'In this state alone.', { enum: PUBLIC_JOB_STATES }),
        query('tag', 'With this tag alone.', { type: 'string' }),
        limited(JOBS_LISTED_MAX),
        query('after', '`next` of an earlier answer: those behind it.', { type: 'string' }),
      ],
      success: jsonResponse('A page of jobs.', schemaRef('Jobs')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    ONE,
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
    ONE,
    'delete',
    {
      tag: JOBS,
      summary: 'Cancels a job; where it is over, removes it and its result, with 204',
      parameters: [
        named('job'),
        query('only', 'Only this one of both; 409 where it would be the other.', { enum: ['cancel', 'remove'] }),
      ],
      success: jsonResponse('The cancelled job.', schemaRef('Job')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    `${ONE}/retry`,
    'post',
    {
      tag: JOBS,
      summary: 'Runs a failed or cancelled job anew',
      parameters: [named('job')],
      status: 202,
      success: jsonResponse('The job.', schemaRef('Job')),
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    `${ONE}/events`,
    'get',
    {
      tag: JOBS,
      summary: 'What becomes of a job, as server-sent events: state, progress, output, end',
      parameters: [
        named('job'),
        header('Last-Event-ID', 'The id of an earlier event: those behind it.', {
          type: 'string',
          pattern: '^[0-9]{1,15}-[0-9]{1,15}$',
        }),
      ],
      success: {
        description: 'Events until the job is over; 204 where there are none behind that one.',
        content: { 'text/event-stream': {} },
      },
      failure: JOB_ERROR_RESPONSE,
    },
  ],
  [
    `${ONE}/result`,
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
