import type { Datatype } from '@nereid/protocol';

/** A JSON schema (2020-12), or another object of an OpenAPI 3.1 document. */
export type Schema = Readonly<Record<string, unknown>>;

export function schemaRef(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Datatypes that have a form in JSON; FP16 and BF16 travel as bytes only. */
export function hasJsonForm(datatype: Datatype): boolean {
  return datatype !== 'FP16' && datatype !== 'BF16';
}

/** One element as JSON. INT64 and UINT64 have no bounds here: JSON schemas are read with doubles. */
export function elementSchema(datatype: Datatype): Schema {
  switch (datatype) {
    case 'BOOL':
      return { type: 'boolean' };
    case 'BYTES':
      return { type: 'string' };
    case 'FP16':
    case 'BF16':
    case 'FP32':
    case 'FP64':
      return { type: 'number' };
    case 'INT64':
      return { type: 'integer', format: 'int64' };
    case 'UINT64':
      return { type: 'integer', minimum: 0 };
    default:
      return integerSchema(datatype);
  }
}

function integerSchema(datatype: 'INT8' | 'INT16' | 'INT32' | 'UINT8' | 'UINT16' | 'UINT32'): Schema {
  const bits = Number(/[0-9]+$/.exec(datatype)?.[0]);
  return datatype.startsWith('U')
    ? { type: 'integer', minimum: 0, maximum: 2 ** bits - 1 }
    : { type: 'integer', minimum: -(2 ** (bits - 1)), maximum: 2 ** (bits - 1) - 1 };
}

/** The name of the schema of a tensor's `data`: its elements, in lists nested in any way. */
export function dataSchemaName(datatype: Datatype): string {
  return `Data_${datatype}`;
}

export function dataSchema(datatype: Datatype): Schema {
  return { type: 'array', items: { anyOf: [elementSchema(datatype), schemaRef(dataSchemaName(datatype))] } };
}

const amount: Schema = { type: 'integer', minimum: 0 };

/** Schemas that do not depend on the models. */
export const GENERAL_SCHEMAS: Readonly<Record<string, Schema>> = {
  Error: {
    type: 'object',
    required: ['error'],
    properties: { error: { type: 'string', minLength: 1, description: 'What is wrong and how to mend it.' } },
    additionalProperties: false,
  },
  JobError: {
    type: 'object',
    required: ['error', 'code'],
    properties: {
      error: { type: 'string', minLength: 1 },
      code: { type: 'string' },
      field: { type: 'string', description: 'The member or header at fault.' },
    },
  },
  Parameters: {
    type: 'object',
    description: 'Settings of the request, and values for the model.',
    properties: {
      binary_data_output: { type: 'boolean', description: 'Outputs that are not listed come as bytes.' },
      priority: { type: 'integer', minimum: 0 },
      timeout: { type: 'integer', minimum: 0, description: 'Microseconds that the request may wait in a queue.' },
    },
    additionalProperties: { type: ['string', 'number', 'boolean'] },
  },
  TensorMetadata: {
    type: 'object',
    required: ['name', 'datatype', 'shape'],
    properties: {
      name: { type: 'string' },
      datatype: { type: 'string' },
      shape: { type: 'array', items: { type: 'integer' }, description: '-1 is a dimension of any size.' },
    },
  },
  ModelMetadata: {
    type: 'object',
    required: ['name', 'versions', 'platform', 'inputs', 'outputs'],
    properties: {
      name: { type: 'string' },
      versions: { type: 'array', items: { type: 'string' } },
      platform: { type: 'string' },
      inputs: { type: 'array', items: schemaRef('TensorMetadata') },
      outputs: { type: 'array', items: schemaRef('TensorMetadata') },
    },
  },
  ServerMetadata: {
    type: 'object',
    required: ['name', 'version', 'extensions'],
    properties: {
      name: { type: 'string' },
      version: { type: 'string' },
      extensions: { type: 'array', items: { type: 'string' } },
    },
  },
  Queues: {
    type: 'object',
    required: ['queues'],
    properties: { queues: { type: 'array', items: schemaRef('Queue') } },
  },
  Sequences: {
    type: 'object',
    required: ['sequences'],
    properties: {
      sequences: { type: 'array', items: schemaRef('Sequence') },
      next: { type: 'string', description: 'There may be more: ask with it as `after`.' },
    },
  },
  Sequence: {
    type: 'object',
    required: ['model', 'version', 'sequence_id', 'session', 'steps', 'waiting', 'idle_ms', 'age_ms'],
    properties: {
      model: { type: 'string' },
      version: { type: 'string' },
      sequence_id: { type: ['integer', 'string'], description: 'Its correlation id.' },
      session: { type: 'string', description: 'Names this run of it.' },
      worker: { type: 'string' },
      instance: { type: 'string' },
      slot: amount,
      backlog: { ...amount, description: 'In place of the three before: its place among those that wait for a slot.' },
      steps: { ...amount, description: 'Done so far.' },
      waiting: { ...amount, description: 'Steps that wait for their turn.' },
      idle_ms: { type: 'number', minimum: 0, description: 'Since its last step came.' },
      age_ms: { type: 'number', minimum: 0, description: 'Since it began, or its present owner learned of it.' },
    },
  },
  Queue: {
    type: 'object',
    required: [
      'model',
      'version',
      'waiting',
      'running',
      'pending',
      'oldest_waiting_ms',
      'delayed',
      'levels',
      'batches',
    ],
    properties: {
      model: { type: 'string' },
      version: { type: 'string' },
      waiting: { ...amount, description: 'Requests in no batch yet.' },
      running: { ...amount, description: 'Requests in batches that workers hold.' },
      pending: { ...amount, description: 'Those of both that do not execute yet.' },
      oldest_waiting_ms: { type: 'number', minimum: 0 },
      delayed: { ...amount, description: 'Waiting requests past their time-out.' },
      levels: {
        type: 'array',
        items: { type: 'object', properties: { level: amount, waiting: amount, delayed: amount } },
      },
      batches: {
        type: 'object',
        description: 'Executed batches by why they were closed.',
        additionalProperties: {
          type: 'object',
          required: ['count', 'rows', 'sizes'],
          properties: {
            count: amount,
            rows: amount,
            sizes: { type: 'object', description: 'Batches by their rows.', additionalProperties: amount },
          },
        },
      },
    },
  },
  Jobs: {
    type: 'object',
    required: ['jobs'],
    properties: {
      jobs: { type: 'array', items: schemaRef('Job') },
      next: {
        type: 'string',
        description: 'There may be more, also where this page is empty: ask with it as `after`.',
      },
    },
  },
  Job: {
    type: 'object',
    required: ['id', 'model_name', 'state', 'created_at', 'result_url'],
    properties: {
      id: { type: 'string' },
      model_name: { type: 'string' },
      model_version: { type: 'string' },
      state: { enum: ['waiting', 'delayed', 'running', 'completed', 'failed', 'cancelled', 'expired'] },
      created_at: { type: 'string', format: 'date-time' },
      started_at: { type: 'string', format: 'date-time' },
      finished_at: { type: 'string', format: 'date-time' },
      attempts_made: { type: 'integer' },
      attempts_max: { type: 'integer' },
      position: { ...amount, description: 'Waiting jobs that go before it.' },
      tags: { type: 'array', items: { type: 'string' } },
      batch_size: { ...amount, description: 'Rows of the batch that it ran in.' },
      worker: { type: 'string', description: 'Which ran it.' },
      progress: { description: 'What whoever runs it told last; `{n}` of a stream: how many answers there were.' },
      result_url: { type: 'string' },
      expires_at: { type: 'string', format: 'date-time' },
      request_id: { type: 'string' },
    },
  },
};
