import type { ModelFound } from '@nereid/caller';
import type { InputSignature, ModelSignature, TensorSignature } from '@nereid/config';
import type { Datatype } from '@nereid/protocol';
import { metadataShape } from '../model-metadata.ts';
import { modelPath } from './model-path.ts';
import { generateExample, inferExample } from './openapi-example.ts';
import { JOB_HEADERS, PREFER } from './openapi-jobs.ts';
import { JOB_ERROR_RESPONSE, jsonBody, jsonResponse, operation } from './openapi-parts.ts';
import { dataSchemaName, elementSchema, hasJsonForm, type Schema, schemaRef } from './openapi-schemas.ts';

/** What a model adds to the document. */
export interface ModelPart {
  readonly paths: Readonly<Record<string, Record<string, Schema>>>;
  readonly schemas: Readonly<Record<string, Schema>>;
  readonly datatypes: readonly Datatype[];
}

const HEADER_LENGTH: Schema = {
  name: 'Inference-Header-Content-Length',
  in: 'header',
  description: 'Bytes of the JSON, where the raw bytes of tensors follow it; 0 where the whole body is the one input.',
  schema: { type: 'integer', minimum: 0 },
};

/** The paths of a model and of each of its READY versions. `key` names its schemas. */
export function modelPart(found: ModelFound, key: string): ModelPart {
  const { signature, readyVersions } = found;
  const names = {
    request: `${key}.InferRequest`,
    response: `${key}.InferResponse`,
    generate: `${key}.GenerateRequest`,
  };
  const schemas: Record<string, Schema> = {};
  const paths: Record<string, Record<string, Schema>> = {};
  const generates = canGenerate(signature);
  schemas[names.request] = requestSchema(signature);
  if (!signature.decoupled) schemas[names.response] = responseSchema(signature);
  if (generates) schemas[names.generate] = generateSchema(signature);
  for (const version of ['', ...readyVersions]) {
    const base = `/v2/models/${modelPath(signature.name)}${version === '' ? '' : `/versions/${version}`}`;
    Object.assign(paths, aboutPaths(signature.name, version, base));
    Object.assign(paths, inferPaths(signature, version, base, names));
    if (generates) Object.assign(paths, generatePaths(signature, version, base, names.generate));
  }
  const tensors = [...signature.inputs, ...signature.outputs];
  return { paths, schemas, datatypes: tensors.map(({ datatype }) => datatype) };
}

const idOf = (what: string, name: string, version: string) => `${what} ${name}${version === '' ? '' : ` ${version}`}`;

function aboutPaths(name: string, version: string, base: string): Record<string, Record<string, Schema>> {
  const get = (what: string, summary: string, success: Schema) => ({
    get: operation({ id: idOf(what, name, version), summary, tag: name, success }),
  });
  return {
    [base]: get('metadata', 'Inputs, outputs and versions', jsonResponse('Metadata.', schemaRef('ModelMetadata'))),
    [`${base}/ready`]: get('ready', 'Whether it takes requests', { description: 'No body.' }),
    [`${base}/config`]: get('config', 'The whole configuration', jsonResponse('The configuration.')),
    [`${base}/stats`]: get('stats', 'Statistics', jsonResponse('Statistics.')),
  };
}

function inferPaths(
  signature: ModelSignature,
  version: string,
  base: string,
  names: { readonly request: string; readonly response: string },
): Record<string, Record<string, Schema>> {
  const { name } = signature;
  const example = inferExample(signature);
  const { required, content } = jsonBody(schemaRef(names.request), example) as { required: boolean; content: Schema };
  // JSON with the bytes of tensors behind it.
  const body = { required, content: { ...content, 'application/octet-stream': {} } };
  const success = {
    description: 'The outputs.',
    content: { 'application/json': { schema: schemaRef(names.response) }, 'application/octet-stream': {} },
  };
  const more = { 'x-nereid-model': modelFacts(signature, version) };
  const infer = operation({
    id: idOf('infer', name, version),
    summary: 'Runs the model',
    tag: name,
    parameters: [HEADER_LENGTH, PREFER],
    body,
    success,
    more,
  });
  const job = operation({
    id: idOf('job', name, version),
    summary: 'Runs the model later; the answer is asked for by the id',
    tag: name,
    parameters: [HEADER_LENGTH, ...JOB_HEADERS],
    body,
    status: 202,
    success: jsonResponse('The job.', schemaRef('Job')),
    failure: JOB_ERROR_RESPONSE,
  });
  // A decoupled model may give any number of answers, which infer cannot.
  return { ...(signature.decoupled ? {} : { [`${base}/infer`]: { post: infer } }), [`${base}/jobs`]: { post: job } };
}

function generatePaths(
  signature: ModelSignature,
  version: string,
  base: string,
  schema: string,
): Record<string, Record<string, Schema>> {
  const { name, decoupled } = signature;
  const body = jsonBody(schemaRef(schema), generateExample(signature));
  const generate = operation({
    id: idOf('generate', name, version),
    summary: 'Runs the model: named values in, named values out',
    tag: name,
    body,
    success: jsonResponse('The outputs by name.'),
  });
  const stream = operation({
    id: idOf('generate_stream', name, version),
    summary: 'The same, each answer as an event',
    tag: name,
    body,
    success: { description: 'Server-sent events.', content: { 'text/event-stream': {} } },
    more: { 'x-nereid-model': modelFacts(signature, version) },
  });
  // Of a decoupled model `generate` takes only requests with exactly one answer.
  return {
    ...(decoupled ? {} : { [`${base}/generate`]: { post: generate } }),
    [`${base}/generate_stream`]: { post: stream },
  };
}

/** Text goes in, and every tensor can be told from a list of values: what generate is for. */
function canGenerate({ inputs, outputs }: ModelSignature): boolean {
  const known = inputs.every(({ datatype, dims }) => hasJsonForm(datatype) && dims.every((dim) => dim !== 0));
  return (
    known &&
    inputs.some(({ datatype }) => datatype === 'BYTES') &&
    outputs.every(({ datatype }) => hasJsonForm(datatype))
  );
}

/** The same as data, for the try-it page. */
function modelFacts(signature: ModelSignature, version: string): Schema {
  const tensor = ({ name, datatype, dims }: TensorSignature) => ({
    name,
    datatype,
    shape: metadataShape(signature, dims),
  });
  return {
    name: signature.name,
    version,
    inputs: signature.inputs.map((input) => ({ ...tensor(input), optional: input.optional })),
    outputs: signature.outputs.map(tensor),
  };
}

function requestSchema(signature: ModelSignature): Schema {
  const required = signature.inputs.filter(({ optional }) => !optional).length;
  return {
    type: 'object',
    required: ['inputs'],
    properties: {
      id: { type: 'string' },
      parameters: schemaRef('Parameters'),
      inputs: {
        type: 'array',
        minItems: required,
        maxItems: signature.inputs.length,
        items: { oneOf: signature.inputs.map((input) => inputSchema(signature, input)) },
      },
      outputs: { type: 'array', items: { oneOf: signature.outputs.map(({ name }) => requestedSchema(name)) } },
    },
  };
}

function inputSchema(signature: ModelSignature, { name, datatype, dims, optional }: InputSignature): Schema {
  const form: Schema = {
    binary_data_size: { type: 'integer', minimum: 0, description: 'Bytes of it behind the JSON.' },
  };
  return {
    title: name,
    type: 'object',
    required: ['name', 'datatype', 'shape'],
    properties: {
      name: { const: name },
      datatype: { const: datatype },
      shape: shapeSchema(signature, dims),
      ...(hasJsonForm(datatype) ? { data: schemaRef(dataSchemaName(datatype)) } : {}),
      parameters: { type: 'object', properties: form },
    },
    ...(optional ? { description: 'May be left out.' } : {}),
  };
}

function shapeSchema({ maxBatchSize }: ModelSignature, dims: readonly number[]): Schema {
  const sizes = dims.map((dim): Schema => (dim === -1 ? { type: 'integer', minimum: 0 } : { const: dim }));
  const batch: Schema = { type: 'integer', minimum: 1, maximum: maxBatchSize };
  const places = maxBatchSize > 0 ? [batch, ...sizes] : sizes;
  const count = { minItems: places.length, maxItems: places.length };
  return places.length === 0 ? { type: 'array', ...count } : { type: 'array', prefixItems: places, ...count };
}

function requestedSchema(name: string): Schema {
  return {
    type: 'object',
    required: ['name'],
    properties: {
      name: { const: name },
      parameters: {
        type: 'object',
        properties: {
          binary_data: { type: 'boolean' },
          classification: { type: 'integer', minimum: 0, description: 'So many classes in place of the values.' },
        },
      },
    },
  };
}

function responseSchema(signature: ModelSignature): Schema {
  const output = ({ name, datatype }: TensorSignature): Schema => ({
    title: name,
    type: 'object',
    required: ['name', 'datatype', 'shape'],
    properties: {
      name: { const: name },
      // BYTES where classes were asked for.
      datatype: { enum: [...new Set([datatype, 'BYTES'])] },
      shape: { type: 'array', items: { type: 'integer', minimum: 0 } },
      data: { type: 'array' },
      parameters: { type: 'object' },
    },
  });
  return {
    type: 'object',
    required: ['model_name', 'model_version', 'outputs'],
    properties: {
      id: { type: 'string' },
      model_name: { const: signature.name },
      model_version: { type: 'string' },
      parameters: { type: 'object' },
      outputs: { type: 'array', items: { oneOf: signature.outputs.map(output) } },
    },
  };
}

function generateSchema({ inputs }: ModelSignature): Schema {
  const value = ({ datatype }: InputSignature): Schema => {
    const element = elementSchema(datatype);
    return { oneOf: [element, { type: 'array', items: element }] };
  };
  return {
    type: 'object',
    required: inputs.filter(({ optional }) => !optional).map(({ name }) => name),
    properties: Object.fromEntries(inputs.map((input) => [input.name, value(input)])),
  };
}
