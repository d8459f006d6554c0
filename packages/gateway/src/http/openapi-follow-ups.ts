/** What follows the ends of jobs: webhooks and dead letters (http/follow-ups.ts). */
import { LETTERS_LISTED_MAX } from './follow-ups.ts';
import { JOB_ERROR_RESPONSE, jsonBody, jsonResponse, type Operation } from './openapi-parts.ts';
import { type Schema, schemaRef } from './openapi-schemas.ts';

const named = (name: string): Schema => ({ name, in: 'path', required: true, schema: { type: 'string' } });
const adminKey: Schema = {
  name: 'Nereid-Admin-Key',
  in: 'header',
  description: 'What the server was started with as --admin-key, if it was.',
  schema: { type: 'string' },
};
const ofQuery = (name: string, description: string, schema: Schema): Schema => ({
  name,
  in: 'query',
  description,
  schema,
});
const object: Schema = { type: 'object' };
const common = { tag: 'jobs', failure: JOB_ERROR_RESPONSE };
const LETTERS = '/nereid/v1/deadletters';

export const FOLLOW_UP_ROUTES: readonly (readonly [string, 'get' | 'post' | 'delete', Omit<Operation, 'id'>])[] = [
  [
    '/v2/jobs/{job}/webhook',
    'get',
    {
      ...common,
      summary: "How far the delivery of a job's webhook is",
      parameters: [named('job')],
      success: jsonResponse('The delivery.'),
    },
  ],
  [
    '/v2/jobs/{job}/webhook',
    'post',
    {
      ...common,
      summary: "Has a job's webhook sent again",
      parameters: [named('job')],
      success: jsonResponse('The delivery.'),
    },
  ],
  [
    LETTERS,
    'get',
    {
      ...common,
      summary: 'Jobs that failed for good and were set aside',
      parameters: [
        ofQuery('model', 'This model alone.', { type: 'string', minLength: 1 }),
        ofQuery('limit', 'How many at most; 100 unless given.', {
          type: 'integer',
          minimum: 1,
          maximum: LETTERS_LISTED_MAX,
        }),
        ofQuery('after', '`next` of an earlier answer: those behind it.', { type: 'string' }),
        adminKey,
      ],
      success: jsonResponse('Dead letters by model, the oldest first.'),
    },
  ],
  [
    `${LETTERS}/{letter}`,
    'get',
    {
      ...common,
      summary: 'One with its input, reason and history',
      parameters: [named('letter'), adminKey],
      success: jsonResponse('The dead letter.'),
    },
  ],
  [
    `${LETTERS}/{letter}`,
    'delete',
    {
      ...common,
      summary: 'Forgets a dead letter; its job stays',
      parameters: [named('letter'), adminKey],
      success: jsonResponse('Its id.'),
    },
  ],
  [
    `${LETTERS}/{letter}/replay`,
    'post',
    {
      ...common,
      summary: 'Runs the job of a dead letter again, with other data where they are given',
      parameters: [named('letter'), adminKey],
      body: jsonBody({ type: 'object', properties: { data: object } }, undefined, false),
      success: jsonResponse('The job.', schemaRef('Job')),
    },
  ],
];
