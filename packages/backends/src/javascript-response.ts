/** What a JavaScript model returned, checked and in the one internal form. */
import type { ModelSignature } from '@nereid/config';
import { clientShape } from '@nereid/config/reshape.js';
import {
  bytesOf,
  type Datatype,
  ELEMENT_ARRAYS,
  ERROR_TABLE,
  type ErrorCode,
  type ErrorInfo,
  elementCount,
  encodeBytesElements,
  errorInfo,
  type InferRequest,
  NereidError,
  type Parameters,
  type ParameterValue,
  type Tensor,
  thrownText,
} from '@nereid/protocol';
import type { RequestOutcome } from './backend.ts';

const INT64_MIN = -(2n ** 63n);
const UINT64_MAX = 2n ** 64n - 1n;

/** One element of what `execute` returned. Never throws: whatever is wrong is that request's INTERNAL error. */
export function modelOutcome(
  signature: ModelSignature,
  request: InferRequest,
  version: string,
  returned: unknown,
): RequestOutcome {
  try {
    if (returned instanceof Error) return { ok: false, error: modelError(returned) };
    return modelResponse(signature, request, version, returned);
  } catch (wrong) {
    // Reading what a model made may throw anything: getters, proxies, arrays whose buffer is gone.
    const { code, message } = errorInfo(wrong);
    return { ok: false, error: { code, message } };
  }
}

/** A model's Error with its `code` where that is one of ours, else INTERNAL. */
export function modelError(error: Error): ErrorInfo {
  const code = 'code' in error ? error.code : undefined;
  const known = typeof code === 'string' && Object.hasOwn(ERROR_TABLE, code);
  return { code: known ? (code as ErrorCode) : 'INTERNAL', message: thrownText(error) };
}

function modelResponse(
  signature: ModelSignature,
  request: InferRequest,
  version: string,
  returned: unknown,
): RequestOutcome {
  const where = `model '${signature.name}'`;
  if (!isRecord(returned)) throw internal(`${where} returned ${kind(returned)} in place of a response`);
  const { parameters, state, release } = returned;
  const again = runsAgain(signature, release);
  const outputs = again && returned.outputs === undefined ? {} : returned.outputs;
  if (!isRecord(outputs)) throw internal(`${where} returned a response whose 'outputs' is ${kind(outputs)}`);
  const tensors = Object.entries(outputs).map(([name, value]) => outputTensor(signature, name, value));
  for (const { name } of signature.outputs) {
    if (again || !isWanted(request, name) || Object.hasOwn(outputs, name)) continue;
    throw internal(`${where}, output '${name}': the request wants it and the model did not return it`);
  }
  const response = {
    modelName: signature.name,
    modelVersion: version,
    id: request.id,
    parameters: responseParameters(where, parameters),
    outputs: tensors,
  };
  return {
    ok: true,
    response,
    ...(again ? { again } : {}),
    ...(state === undefined ? {} : { states: responseStates(signature, state) }),
  };
}

/** True where the model wants the request once more, which only iterative sequences may. */
function runsAgain({ name, sequence }: ModelSignature, release: unknown): boolean {
  if (release === undefined || release === 'all') return false;
  if (release !== 'reschedule') {
    const got = typeof release === 'string' ? `'${release}'` : kind(release);
    throw internal(`model '${name}' returned 'release' ${got}; it is 'all' or 'reschedule'`);
  }
  if (sequence?.iterative === true) return true;
  // Triton's text (infer_request.cc, Release).
  const text = 'Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured';
  throw new NereidError('INVALID_ARG', `${text} to handle such a flag.`);
}

function responseStates(signature: ModelSignature, state: unknown): Tensor[] {
  const where = `model '${signature.name}'`;
  if (!isRecord(state)) throw internal(`${where} returned a response whose 'state' is ${kind(state)}`);
  return Object.entries(state).map(([name, value]) => {
    const declared = signature.sequence?.states.find(({ outputName }) => outputName === name);
    // Triton's words (sequence_state.cc, OutputState).
    if (declared === undefined) throw internal(`${where}: state '${name}' is not a valid state name.`);
    return checkedTensor(`${where}, state '${name}'`, name, declared.datatype, value);
  });
}

/** A request that names no outputs wants all. */
function isWanted({ requestedOutputs }: InferRequest, name: string): boolean {
  return requestedOutputs.length === 0 || requestedOutputs.includes(name);
}

function responseParameters(where: string, parameters: unknown): Parameters {
  if (parameters === undefined) return {};
  if (!isRecord(parameters)) throw internal(`${where} returned 'parameters' that are ${kind(parameters)}`);
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]): [string, ParameterValue] => {
      if (typeof value === 'number') return [name, Number.isSafeInteger(value) ? BigInt(value) : value];
      if (typeof value === 'string' || typeof value === 'boolean') return [name, value];
      if (typeof value === 'bigint') {
        if (value >= INT64_MIN && value <= UINT64_MAX) return [name, value];
        throw internal(`${where} returned parameter '${name}', ${value}, that is no 64-bit integer`);
      }
      throw internal(`${where} returned parameter '${name}' that is ${kind(value)}`);
    }),
  );
}

function outputTensor(signature: ModelSignature, name: string, value: unknown): Tensor {
  const where = `model '${signature.name}', output '${name}'`;
  const declared = signature.outputs.find((output) => output.name === name);
  if (declared === undefined) throw internal(`${where}: the model configuration has no such output`);
  const tensor = checkedTensor(where, name, declared.datatype, value);
  return { ...tensor, shape: clientShape(declared, tensor.shape, signature.maxBatchSize > 0) };
}

/** What a model gave for a tensor of that datatype, in the shape that it says. */
function checkedTensor(where: string, name: string, expected: Datatype, value: unknown): Tensor {
  if (!isRecord(value)) throw internal(`${where}: expected { datatype, shape, data }, got ${kind(value)}`);
  const { datatype, shape, data } = value;
  if (datatype !== expected) {
    throw internal(`${where}: datatype is ${String(datatype)}, the model configuration says ${expected}`);
  }
  if (!isShape(shape)) throw internal(`${where}: shape must be an array of whole numbers`);
  const count = elementCount(shape);
  const bytes = outputData(where, expected, data);
  if (bytes.count !== count) {
    throw internal(`${where}: shape [${shape.join(',')}] has ${count} elements, data ${bytes.count}`);
  }
  return { name, datatype: expected, shape, data: bytes.data };
}

function outputData(
  where: string,
  datatype: Datatype,
  data: unknown,
): { readonly count: number; readonly data: Uint8Array } {
  if (datatype === 'BYTES') {
    if (!Array.isArray(data) || !data.every((element) => element instanceof Uint8Array)) {
      throw internal(`${where}: data of a BYTES tensor must be an array of Uint8Array`);
    }
    return { count: data.length, data: encodeBytesElements(data) };
  }
  const expected = ELEMENT_ARRAYS[datatype];
  // Buffers are Uint8Arrays; an array of another kind would be read as other numbers.
  if (!(data instanceof expected))
    throw internal(`${where}: data of a ${datatype} tensor must be a ${expected.name}, got ${kind(data)}`);
  return { count: data.length, data: bytesOf(data) };
}

function internal(text: string): NereidError {
  return new NereidError('INTERNAL', text);
}

function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

function isShape(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
}

function kind(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'object') return value.constructor?.name ?? 'an object';
  return typeof value;
}
