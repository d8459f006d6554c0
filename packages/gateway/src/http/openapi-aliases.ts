/** Aliases (http/aliases.ts). */
import { LIMITS } from '@nereid/config';
import { SHADOW_RESULTS } from '../shadow-verdict.ts';
import { ALIASES } from './aliases.ts';
import { type GeneralRoute, JOB_ERROR_RESPONSE, jsonBody, jsonResponse, named } from './openapi-parts.ts';
import type { Schema } from './openapi-schemas.ts';

const ALIAS = `${ALIASES}/{alias}`;

const text: Schema = { type: 'string' };
const version: Schema = { type: 'string', pattern: '^[0-9]{1,19}$' };
const tolerance: Schema = { type: 'number', minimum: 0 };
const id = named('alias');
const adminKey: Schema = {
  name: 'Nereid-Admin-Key',
  in: 'header',
  description: 'What the server was started with as --admin-key, if it was.',
  schema: text,
};
const common = { tag: 'aliases', failure: JOB_ERROR_RESPONSE };

const versions: Schema = {
  type: 'array',
  minItems: 1,
  maxItems: LIMITS.alias_versions_max,
  items: {
    type: 'object',
    required: ['version', 'weight'],
    properties: { version, weight: { type: 'number', minimum: 0, description: 'Its part of all weights together.' } },
  },
};
const shadow: Schema = {
  type: 'object',
  required: ['version'],
  properties: {
    version,
    share: { type: 'number', minimum: 0, maximum: 1, description: 'Of the requests; 1, all, unless given.' },
    atol: tolerance,
    rtol: tolerance,
  },
};
const given = { model: text, versions, shadow };
const alias: Schema = {
  type: 'object',
  required: ['name', 'model', 'versions'],
  properties: {
    name: text,
    ...given,
    before: { ...versions, description: 'To which a roll back returns.' },
  },
};
const told: Schema = {
  ...alias,
  properties: {
    ...(alias.properties as Schema),
    shadow_results: {
      type: 'object',
      description: 'What became of shadow copies at this gateway.',
      properties: Object.fromEntries(SHADOW_RESULTS.map((result) => [result, { type: 'integer', minimum: 0 }])),
    },
    differences: { type: 'array', items: { type: 'object' }, description: 'The last ones, the newest first.' },
  },
};

export const ALIAS_ROUTES: readonly GeneralRoute[] = [
  [
    ALIASES,
    'get',
    {
      ...common,
      summary: 'Names that stand for versions of models',
      success: jsonResponse('Aliases by name.', {
        type: 'object',
        required: ['aliases'],
        properties: { aliases: { type: 'array', items: alias } },
      }),
    },
  ],
  [
    ALIAS,
    'get',
    {
      ...common,
      summary: 'One alias, and how its shadow copies compare',
      parameters: [id, adminKey],
      success: jsonResponse('The alias.', told),
    },
  ],
  [
    ALIAS,
    'put',
    {
      ...common,
      summary: 'Makes an alias, or replaces it',
      parameters: [id, adminKey],
      body: jsonBody(
        { type: 'object', required: ['model', 'versions'], properties: given },
        { model: 'simple', versions: [{ version: '1', weight: 1 }] },
      ),
      success: jsonResponse('The alias.', alias),
    },
  ],
  [
    ALIAS,
    'delete',
    {
      ...common,
      summary: 'Removes an alias',
      parameters: [id, adminKey],
      success: jsonResponse('What it was.', alias),
    },
  ],
  [
    `${ALIAS}/promote`,
    'post',
    {
      ...common,
      summary: 'Gives one version all requests',
      parameters: [id, adminKey],
      body: jsonBody({ type: 'object', required: ['version'], properties: { version } }, { version: '2' }),
      success: jsonResponse('The alias.', alias),
    },
  ],
  [
    `${ALIAS}/rollback`,
    'post',
    {
      ...common,
      summary: 'Undoes the last change of its weights',
      parameters: [id, adminKey],
      success: jsonResponse('The alias.', alias),
    },
  ],
];
