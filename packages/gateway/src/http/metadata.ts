import { modelConfigJson, resolveInstances, type TensorSignature } from '@nereid/config';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import type { ModelFound } from '../model-lookup.ts';
import { sendError, sendJson } from './errors.ts';
import { modelOf } from './model-path.ts';

/** Triton's list, in its order (http.md of its protocol documents; tritonserver.cc). */
const EXTENSIONS = [
  'classification',
  'sequence',
  'model_repository',
  'model_repository(unload_dependents)',
  'schedule_policy',
  'model_configuration',
  'system_shared_memory',
  'cuda_shared_memory',
  'binary_tensor_data',
  'parameters',
  'statistics',
  'trace',
  'logging',
];

/** GET /v2. The text never changes while the server runs. */
export function serverMetadataText(name: string, version: string): string {
  return JSON.stringify({ name, version, extensions: EXTENSIONS });
}

/** GET /v2/models/{m}[/versions/{v}] */
export function modelMetadata(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  const found = gateway.model(name, version);
  if (found.ok) sendJson(reply, modelMetadataText(found));
  else sendError(reply, found.error);
}

/** GET /v2/models/{m}[/versions/{v}]/config */
export function modelConfig(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  const found = gateway.model(name, version);
  if (!found.ok) {
    sendError(reply, found.error);
    return;
  }
  const { config, gpus } = found.record;
  sendJson(reply, modelConfigJson(resolveInstances(config, gpus ?? 0)));
}

/** Triton's platform falls back to the backend's name (model.cc). */
function modelMetadataText({ record, signature, readyVersions }: ModelFound): string {
  const tensor = ({ name, datatype, dims }: TensorSignature) => {
    return { name, datatype, shape: signature.maxBatchSize > 0 ? [-1, ...dims] : dims };
  };
  return JSON.stringify({
    name: record.name,
    versions: readyVersions,
    platform: record.config.platform === '' ? record.config.backend : record.config.platform,
    inputs: signature.inputs.map(tensor),
    outputs: signature.outputs.map(tensor),
  });
}
