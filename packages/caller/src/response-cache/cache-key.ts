import { createHash } from 'node:crypto';
import type { InferRequest, Parameters, ParameterValue } from '@nereid/protocol';
import type { ModelFound } from '../model-lookup.ts';

/** Changes with whatever goes into a key, so that processes of different builds do not take each other's answers for theirs. */
const KEY_FORM = 1;

/**
 * The name under which the answer to a request is kept: SHA-256 over all that a model's answer may depend on. That is the
 * model with the version that was chosen and its `files` (model-files.ts), so that a reload begins anew; the inputs by name, each
 * with datatype, shape and bytes; the outputs wanted; custom parameters. Not the request's id, priority and time-out, which
 * no answer shows. Triton hashes to 64 bits and leaves out shapes, datatypes, outputs and parameters
 * (cache_manager.cc, HashInputs): two requests that differ only there get each other's answers.
 */
export function cacheKey(
  { record, version }: Pick<ModelFound, 'record' | 'version'>,
  files: string,
  request: InferRequest,
): string {
  const inputs = request.inputs.length > 1 ? [...request.inputs].sort(byName) : request.inputs;
  // JSON tells where each part ends and what kind it is; it says how many bytes follow it.
  const head = JSON.stringify([
    KEY_FORM,
    record.name,
    version,
    files,
    inputs.map((input) => [input.name, input.datatype, input.shape, input.data.byteLength]),
    [...new Set(request.requestedOutputs)].sort(),
    parameterTexts(request.parameters),
  ]);
  const hash = createHash('sha256').update(head);
  for (const { data } of inputs) hash.update(data);
  return hash.digest('base64url');
}

function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function parameterTexts(parameters: Parameters): readonly (readonly [string, string, string])[] {
  const names = Object.keys(parameters);
  if (names.length === 0) return [];
  return names.sort().map((name) => [name, typeof parameters[name], parameterText(parameters[name])]);
}

function parameterText(value: ParameterValue | undefined): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
