/** Pieces that the operations of an OpenAPI document share. */
import { type Schema, schemaRef } from './openapi-schemas.ts';

const json = (schema: Schema) => ({ 'application/json': { schema } });

export function jsonResponse(description: string, schema: Schema = { type: 'object' }): Schema {
  return { description, content: json(schema) };
}

/** Whatever is no success is an error with a text. */
export const ERROR_RESPONSE: Schema = jsonResponse('What is wrong, in words.', schemaRef('Error'));
export const JOB_ERROR_RESPONSE: Schema = jsonResponse('What is wrong, in words.', schemaRef('JobError'));

export interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly tag: string;
  readonly success: Schema;
  /** 200 unless given. */
  readonly status?: number;
  readonly failure?: Schema;
  readonly parameters?: readonly Schema[];
  readonly body?: Schema;
  /** Members `x-…` of ours. */
  readonly more?: Schema;
}

export function operation(of: Operation): Schema {
  return {
    operationId: of.id,
    summary: of.summary,
    tags: [of.tag],
    ...(of.parameters === undefined ? {} : { parameters: of.parameters }),
    ...(of.body === undefined ? {} : { requestBody: of.body }),
    responses: { [of.status ?? 200]: of.success, default: of.failure ?? ERROR_RESPONSE },
    ...of.more,
  };
}

export function jsonBody(schema: Schema, example?: unknown, required = true): Schema {
  return {
    required,
    content: { 'application/json': { schema, ...(example === undefined ? {} : { example }) } },
  };
}

/** A route that does not depend on the models. */
export type GeneralRoute = readonly [
  path: string,
  method: 'get' | 'post' | 'put' | 'delete',
  of: Omit<Operation, 'id'>,
];

export const named = (name: string): Schema => ({ name, in: 'path', required: true, schema: { type: 'string' } });

export const ofModel: Schema = {
  name: 'model',
  in: 'query',
  description: 'This model alone.',
  schema: { type: 'string', minLength: 1 },
};

/** How many rows of a list. */
export const limited = (maximum: number): Schema => ({
  name: 'limit',
  in: 'query',
  description: 'How many at most; 100 unless given.',
  schema: { type: 'integer', minimum: 1, maximum },
});
