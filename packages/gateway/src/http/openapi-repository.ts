/** The model repository (http/repository.ts). */
import { type GeneralRoute, jsonBody, jsonResponse, named } from './openapi-parts.ts';
import { type Schema, schemaRef } from './openapi-schemas.ts';

const REPOSITORY = '/v2/repository';
const MODEL = `${REPOSITORY}/models/{model}`;

const tag = 'server';
const text: Schema = { type: 'string' };
const DONE: Schema = { description: 'Done. No body.' };

const entry: Schema = {
  type: 'object',
  required: ['name'],
  properties: {
    name: text,
    version: text,
    state: { enum: ['READY', 'LOADING', 'UNLOADING', 'UNAVAILABLE'] },
    reason: { ...text, description: 'Why it is in that state, where there is anything to say.' },
  },
};
const adminKey: Schema = {
  name: 'Nereid-Admin-Key',
  in: 'header',
  description: 'For files that carry code: what the server was started with as --admin-key.',
  schema: text,
};

/** A body whose `parameters` these are. */
function parametersBody(parameters: Schema, example: object): Schema {
  const body = { type: 'object', properties: { parameters: { type: 'object', ...parameters } } };
  return jsonBody(body, { parameters: example }, false);
}

export const REPOSITORY_ROUTES: readonly GeneralRoute[] = [
  [
    `${REPOSITORY}/index`,
    'post',
    {
      tag,
      summary: 'The models of the repository with their states',
      body: jsonBody({ type: 'object', properties: { ready: { type: 'boolean' } } }, { ready: true }, false),
      success: jsonResponse('Models by name; of a folder that was never loaded the name alone.', {
        type: 'array',
        items: entry,
      }),
    },
  ],
  [
    `${MODEL}/load`,
    'post',
    {
      tag,
      summary: 'Loads a model, or loads it anew; answered once it is ready',
      parameters: [named('model'), adminKey],
      body: parametersBody(
        {
          properties: { config: { ...text, description: 'A ModelConfig as JSON, in place of its config.pbtxt.' } },
          patternProperties: {
            '^file:': { ...text, contentEncoding: 'base64', description: 'The model is made of such files alone.' },
          },
          additionalProperties: false,
        },
        { config: '{"backend":"onnxruntime","max_batch_size":4}' },
      ),
      success: DONE,
      failure: jsonResponse(
        '400: a parameter is wrong. 403: a file carries code, and the key is missing. 500: the model does not load; what served before still does. 503: --model-control-mode is not explicit, or it cannot be done now.',
        schemaRef('Error'),
      ),
    },
  ],
  [
    `${MODEL}/unload`,
    'post',
    {
      tag,
      summary: 'Unloads a model; answered once it takes no new request, also where nobody knows it',
      parameters: [named('model')],
      body: parametersBody(
        {
          properties: {
            unload_dependents: {
              type: 'boolean',
              description: 'Also what an ensemble was made of, where nobody else wants that; false unless given.',
            },
          },
        },
        { unload_dependents: true },
      ),
      success: DONE,
      failure: jsonResponse(
        '400: a parameter is wrong. 503: --model-control-mode is not explicit, or it cannot be done now.',
        schemaRef('Error'),
      ),
    },
  ],
];
