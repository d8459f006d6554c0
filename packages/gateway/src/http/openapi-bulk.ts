import { type GeneralRoute, JOB_ERROR_RESPONSE, jsonResponse, named } from './openapi-parts.ts';
import type { Schema } from './openapi-schemas.ts';

const BATCHES = 'batches';

const asked = (name: string, schema: Schema, description: string): Schema => ({
  name,
  in: 'query',
  description,
  schema,
});
const number: Schema = { type: 'integer', minimum: 0 };
const time: Schema = { type: 'string', format: 'date-time' };

const batch: Schema = {
  type: 'object',
  required: ['id', 'model_name', 'state', 'created_at', 'request_counts', 'results_url'],
  properties: {
    id: { type: 'string' },
    model_name: { type: 'string' },
    model_version: { type: 'string' },
    state: { enum: ['waiting', 'running', 'completed', 'cancelled', 'expired', 'failed'] },
    created_at: time,
    started_at: time,
    finished_at: time,
    deadline_at: time,
    expires_at: time,
    request_counts: { type: 'object', properties: { total: number, completed: number, failed: number } },
    attempts_max: number,
    error: { type: 'object', properties: { code: { type: 'string' }, message: { type: 'string' } } },
    results_url: { type: 'string' },
  },
};
const wait = asked(
  'wait',
  { type: 'string', pattern: '^[0-9]{1,9}(ms|s)?$' },
  'How long to wait for the end, like 30s.',
);
const inputBlob: Schema = {
  type: 'object',
  required: ['input_blob'],
  description: 'A file that was put by `POST /v2/blobs`.',
  properties: {
    input_blob: { type: 'object', required: ['ref'], properties: { ref: { type: 'string' }, byte_size: number } },
  },
};
const failure = JOB_ERROR_RESPONSE;
const lines: Schema = { 'application/x-ndjson': {} };

/** Of batches, for openapi-general.ts. */
export const BULK_ROUTES: readonly GeneralRoute[] = [
  [
    '/v2/models/{model}/batches',
    'post',
    {
      tag: BATCHES,
      summary: 'Runs a file of requests, one `{custom_id, body}` a line, on what the model has to spare',
      parameters: [named('model')],
      body: {
        required: true,
        content: { ...lines, 'application/jsonl': {}, 'application/json': { schema: inputBlob } },
      },
      status: 202,
      success: jsonResponse('The batch.', batch),
      failure,
    },
  ],
  [
    '/v2/models/{model}/batches',
    'get',
    {
      tag: BATCHES,
      summary: 'Batches of a model, the newest first',
      parameters: [
        named('model'),
        asked('after', { type: 'string' }, 'What the page before told as `next`.'),
        asked('limit', { type: 'integer', minimum: 1, maximum: 100 }, 'So many at most; 20 by default.'),
      ],
      success: jsonResponse('A page.', {
        type: 'object',
        properties: { batches: { type: 'array', items: batch }, next: { type: ['string', 'null'] } },
      }),
      failure,
    },
  ],
  [
    '/v2/batches/{batch}',
    'get',
    {
      tag: BATCHES,
      summary: 'The state of a batch',
      parameters: [named('batch'), wait],
      success: jsonResponse('The batch.', batch),
      failure,
    },
  ],
  [
    '/v2/batches/{batch}',
    'delete',
    {
      tag: BATCHES,
      summary: 'Cancels a batch, or removes one that is over',
      parameters: [
        named('batch'),
        asked('only', { enum: ['cancel', 'remove'] }, 'Only this one of both; 409 where it would be the other.'),
      ],
      success: jsonResponse('What it is then, or was.', batch),
      failure,
    },
  ],
  [
    '/v2/batches/{batch}/results',
    'get',
    {
      tag: BATCHES,
      summary: 'The results that there are, one a line, in the order of their lines',
      parameters: [
        named('batch'),
        asked('status', { enum: ['completed', 'failed'] }, 'Such results alone.'),
        asked('after', number, 'Those of lines behind this one, which are counted from 0.'),
        asked('limit', { type: 'integer', minimum: 1 }, 'So many at most.'),
      ],
      success: { description: 'Results.', content: lines },
      failure,
    },
  ],
];
