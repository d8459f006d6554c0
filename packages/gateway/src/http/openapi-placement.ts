/** Where models are held (http/placement.ts). */
import { type GeneralRoute, JOB_ERROR_RESPONSE, jsonResponse, named } from './openapi-parts.ts';
import type { Schema } from './openapi-schemas.ts';

const common = { tag: 'server', failure: JOB_ERROR_RESPONSE };
const MODEL = '/nereid/v1/models/{model}';

const text: Schema = { type: 'string' };
const bytes: Schema = { type: 'integer', minimum: 0 };
const objects = (properties: Schema): Schema => ({ type: 'array', items: { type: 'object', properties } });

const memory = objects({
  device: { ...text, description: 'cpu, gpu0, gpu1 …' },
  budget_bytes: { type: ['integer', 'null'], description: 'Null: without a bound.' },
  used_bytes: { ...bytes, description: 'Loaded, loading, and not yet gone.' },
  fixed_bytes: { ...bytes, description: 'Of that: what does not go for others.' },
  idle_ms: { type: ['integer', 'null'], description: 'Of the model that would go first; null where none may go.' },
});

const placement: Schema = {
  type: 'object',
  required: ['model', 'placement', 'pinned', 'waiting', 'desired_workers', 'holders', 'workers', 'decisions'],
  properties: {
    model: text,
    placement: { enum: ['all', 'on-demand'] },
    pinned: { type: 'boolean' },
    bytes_per_instance: { ...bytes, description: 'Of its files.' },
    waiting: { ...bytes, description: 'Requests in no batch yet.' },
    desired_workers: { ...bytes, description: 'How many its waiting and running work wants.' },
    cannot_load: { ...text, description: 'Why no worker can load it now; absent where one can.' },
    holders: objects({ worker: text, state: { enum: ['ready', 'loading'] } }),
    workers: objects({
      worker: text,
      standing: { enum: ['ready', 'loading', 'room', 'evicts', 'waits', 'never', 'lacks'] },
      why: text,
    }),
    decisions: objects({ at: { ...text, format: 'date-time' }, decision: text }),
  },
};

const ofModel = {
  ...common,
  success: jsonResponse('Where it is held, by whom it could be, and the last decisions.', placement),
};
const admin = {
  name: 'Nereid-Admin-Key',
  in: 'header',
  description: 'What the server was started with as --admin-key, if it was.',
  schema: text,
};

export const PLACEMENT_ROUTES: readonly GeneralRoute[] = [
  [
    '/nereid/v1/workers',
    'get',
    {
      ...common,
      summary: 'The workers, with labels and the memory of their models',
      success: jsonResponse('Workers.', {
        type: 'object',
        properties: {
          workers: objects({
            worker: text,
            state: { enum: ['ready', 'draining'] },
            labels: { type: 'object', additionalProperties: text },
            gpus: bytes,
            memory,
            loads: bytes,
            evictions: bytes,
            refusals: bytes,
          }),
        },
      }),
    },
  ],
  [
    '/nereid/v1/capacity',
    'get',
    {
      ...common,
      summary: 'The memory for models, by device, over all workers',
      success: jsonResponse('Devices.', {
        type: 'object',
        properties: {
          workers: bytes,
          devices: objects({
            device: text,
            workers: bytes,
            budget_bytes: { type: ['integer', 'null'] },
            used_bytes: bytes,
            free_bytes: { type: ['integer', 'null'] },
          }),
        },
      }),
    },
  ],
  [`${MODEL}/placement`, 'get', { ...ofModel, summary: 'Where a model is held and why', parameters: [named('model')] }],
  [
    `${MODEL}/pin`,
    'post',
    { ...ofModel, summary: 'Keeps a model where it is loaded, and loads it', parameters: [named('model'), admin] },
  ],
  [
    `${MODEL}/pin`,
    'delete',
    { ...ofModel, summary: 'Lets a model that was pinned go for others', parameters: [named('model'), admin] },
  ],
  [
    `${MODEL}/prefetch`,
    'post',
    { ...ofModel, summary: 'Loads a model before it is asked for', parameters: [named('model'), admin] },
  ],
];
