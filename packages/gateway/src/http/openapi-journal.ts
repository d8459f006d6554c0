/** Recordings of requests (http/journal.ts). */
import { RECORDING_STATES } from '@nereid/protocol';
import { RECORDINGS_LISTED_MAX, STEPS_LISTED_MAX } from './journal.ts';
import {
  type GeneralRoute,
  JOB_ERROR_RESPONSE,
  jsonBody,
  jsonResponse,
  limited,
  named,
  ofModel,
} from './openapi-parts.ts';
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

const files: Schema = { 'application/octet-stream': {}, 'application/gzip': {} };
const tolerance: Schema = { type: 'number', minimum: 0 };
const wishes: Schema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    version: { type: 'string', pattern: '^[0-9]+$', description: 'The recorded one unless given.' },
    pace: {
      oneOf: [{ enum: ['flat', 'recorded'] }, { type: 'number', exclusiveMinimum: 0 }],
      description: 'As fast as it goes, at the recorded pace, or so many times faster; flat unless given.',
    },
    from: { ...number, description: 'The first step that is compared; those before make the state.' },
    until: { ...number, description: 'The first step that is not run.' },
    replace: {
      type: 'object',
      required: ['step', 'inputs'],
      properties: { step: number, inputs: { type: 'array', items: { type: 'object' } } },
      description: 'Inputs of one step, in place of those of the same names.',
    },
    atol: { ...tolerance, description: 'Of floating point; bit for bit where neither is given.' },
    rtol: { ...tolerance, description: 'Of floating point, times the recorded value.' },
    record: { type: 'boolean', description: 'Records the run.' },
    stop_at_first: { type: 'boolean', description: 'No step behind the first that differs.' },
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
    JOURNAL,
    'post',
    {
      ...common,
      summary: 'Takes a recording from a file, gzipped or not',
      parameters: [adminKey],
      body: { required: true, content: files },
      status: 201,
      success: jsonResponse('The recording, under an id of its own.', recording),
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
  [
    `${RECORDING}/export`,
    'get',
    {
      ...common,
      summary: 'A recording as a file',
      parameters: [id, ofQuery('gzip', 'Gzipped.', { type: 'boolean' }), adminKey],
      success: { description: 'The file.', content: files },
    },
  ],
  [
    `${RECORDING}/replay`,
    'post',
    {
      ...common,
      summary: 'Runs a recording again, and compares what comes with what was recorded',
      parameters: [id, adminKey],
      body: jsonBody(wishes, { version: '2', atol: 0.001 }, false),
      success: {
        description: 'A line for each compared step, then one for the end.',
        content: { 'application/x-ndjson': {} },
      },
    },
  ],
  [
    `${RECORDING}/diff`,
    'get',
    {
      ...common,
      summary: 'Whether two recordings have the same answers',
      parameters: [
        id,
        { ...ofQuery('with', 'The id of the other recording.', text), required: true },
        ofQuery('atol', 'Absolute tolerance of floating point.', tolerance),
        ofQuery('rtol', 'Relative tolerance of floating point.', tolerance),
        adminKey,
      ],
      success: jsonResponse('The first difference, if there is one.', {
        type: 'object',
        properties: { result: { enum: ['equal', 'differs'] }, compared: number, first_difference: { type: 'object' } },
      }),
    },
  ],
];
