/** Recordings of requests (http/journal.ts). */
import { RECORDING_STATES } from '@nereid/protocol';
import { RECORDINGS_LISTED_MAX, STEPS_LISTED_MAX } from './journal.ts';
import { type GeneralRoute, JOB_ERROR_RESPONSE, jsonResponse, limited, named, ofModel } from './openapi-parts.ts';
import type { Schema } from './openapi-schemas.ts';

const JOURNAL = '/nereid/v1/journal';
const RECORDING = `${JOURNAL}/{recording}`;

const ofQuery = (name: string, description: string, schema: Schema): Schema => ({
  name,
  in: 'query',
  description,
  schema,
});
const text: Schema = { type: 'string' };
const number: Schema = { type: 'integer', minimum: 0 };
const time: Schema = { type: 'string', format: 'date-time' };
const id = named('recording');
const adminKey: Schema = {
  name: 'Nereid-Admin-Key',
  in: 'header',
  description: 'What the server was started with as --admin-key, if it was.',
  schema: text,
};
const common = { tag: 'journal', failure: JOB_ERROR_RESPONSE };

const recording: Schema = {
  type: 'object',
  required: ['id', 'model_name', 'model_version', 'kind', 'state', 'steps', 'bytes', 'started_at', 'last_at'],
  properties: {
    id: text,
    model_name: text,
    model_version: text,
    kind: { enum: ['sequence', 'request'] },
    sequence_id: { type: ['integer', 'string'] },
    request_id: text,
    state: { enum: RECORDING_STATES },
    steps: number,
    steps_applied: number,
    bytes: number,
    started_at: time,
    last_at: time,
    worker: text,
    config_sha256: text,
    content_hash: text,
    imported: { type: 'boolean' },
  },
};

/** For openapi-general.ts. */
export const JOURNAL_ROUTES: readonly GeneralRoute[] = [
  [
    JOURNAL,
    'get',
    {
      ...common,
      summary: 'Recordings of sequences and of single requests',
      parameters: [
        ofModel,
        ofQuery('state', 'In this state alone.', { enum: RECORDING_STATES }),
        ofQuery('sequence_id', 'Of this sequence id alone.', text),
        limited(RECORDINGS_LISTED_MAX),
        ofQuery('after', '`next` of an earlier answer: those behind it.', text),
        adminKey,
      ],
      success: jsonResponse('Recordings by model, of each the newest first.', {
        type: 'object',
        properties: { recordings: { type: 'array', items: recording }, next: text },
      }),
    },
  ],
  [
    RECORDING,
    'get',
    {
      ...common,
      summary: 'A recording with its steps',
      parameters: [
        id,
        ofQuery('from', 'The first step to show; 0 unless given.', number),
        limited(STEPS_LISTED_MAX),
        ofQuery('data', 'With the data of tensors.', { type: 'boolean' }),
        adminKey,
      ],
      success: jsonResponse('The recording and its steps; `next` goes into `from`.', {
        type: 'object',
        properties: { recording, steps: { type: 'array', items: { type: 'object' } }, next: number },
      }),
    },
  ],
  [
    RECORDING,
    'delete',
    {
      ...common,
      summary: 'Forgets a recording',
      parameters: [id, adminKey],
      success: jsonResponse('What it was.', recording),
    },
  ],
];
