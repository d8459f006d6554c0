/** Tensors in job data and return values: the v2 JSON form, or `b64` or `blob` in place of `data`. */
import type { Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import { blobBytes, type JobBlobs, NO_BLOBS } from './job-blobs.ts';
import { floatText, isJsonObject, type JsonObject, jsonText, longText } from './job-json.ts';
import type { Tensor } from './tensor.ts';

/** The v2 JSON of tensors, and the bytes that stand behind it. */
export interface TensorsText {
  readonly text: string;
  readonly binary: readonly Uint8Array[];
}

export const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * The `inputs` (or `outputs`) of a job as those of a v2 request in binary form, so that one reader
 * judges both. Throws INVALID_ARG for what only jobs can get wrong, NOT_FOUND for a blob that is not among `blobs`.
 */
export function tensorsText(tensors: unknown, depthMax: number, blobs: JobBlobs = NO_BLOBS): TensorsText {
  if (!Array.isArray(tensors)) return { text: jsonText(tensors, depthMax), binary: [] };
  const binary: Uint8Array[] = [];
  const texts = tensors.map((tensor: unknown, index) =>
    isJsonObject(tensor)
      ? tensorText(tensor, { field: `inputs[${index}]`, depthMax, binary, blobs })
      : jsonText(tensor, depthMax),
  );
  return { text: `[${texts.join(',')}]`, binary };
}

interface Surroundings {
  readonly field: string;
  readonly depthMax: number;
  readonly binary: Uint8Array[];
  readonly blobs: JobBlobs;
}

function tensorText(tensor: JsonObject, { field, depthMax, binary, blobs }: Surroundings): string {
  const { name, datatype, shape, data, b64, blob } = tensor;
  checkForm(tensor, field);
  // What says how to read the data stands before it, which lets the reader read it in one pass.
  const members = [
    ...member('name', name, depthMax),
    ...member('datatype', datatype, depthMax),
    ...member('shape', shape, depthMax),
  ];
  if (data !== undefined) members.push(`"data":${jsonText(data, depthMax, elementText(datatype))}`);
  const parameters = tensorParameters(tensor.parameters, field);
  if (b64 === undefined && blob === undefined) {
    members.push(...member('parameters', parameters, depthMax));
  } else {
    const bytes = blob === undefined ? decodeBase64(b64, field) : blobBytes(blob, field, blobs);
    binary.push(bytes);
    const sized = isJsonObject(parameters) ? parameters : {};
    members.push(...member('parameters', { ...sized, binary_data_size: bytes.byteLength }, depthMax));
  }
  return `{${members.join(',')}}`;
}

function member(name: string, value: unknown, depthMax: number): readonly string[] {
  return value === undefined ? [] : [`"${name}":${jsonText(value, depthMax)}`];
}

function elementText(datatype: unknown): ((value: unknown) => string) | undefined {
  if (datatype === 'INT64' || datatype === 'UINT64') return longText;
  return datatype === 'FP32' || datatype === 'FP64' ? floatText : undefined;
}

/** More than one form; none at all is left to the reader. */
function checkForm(tensor: JsonObject, field: string): void {
  const set = ['data', 'b64', 'blob'].filter((form) => tensor[form] !== undefined);
  if (set.length <= 1) return;
  throw new NereidError(
    'INVALID_ARG',
    `Input must set only one of the following fields: 'data', 'b64', 'blob'. But set ${set.map((form) => `'${form}'`).join(' ')}`,
    { field },
  );
}

function tensorParameters(parameters: unknown, field: string): unknown {
  if (isJsonObject(parameters) && parameters.binary_data_size !== undefined) {
    throw new NereidError(
      'INVALID_ARG',
      "no bytes follow the data of a job; send 'b64' instead of 'binary_data_size'",
      {
        field: `${field}.parameters.binary_data_size`,
      },
    );
  }
  return parameters;
}

function decodeBase64(b64: unknown, field: string): Uint8Array {
  if (typeof b64 === 'string' && BASE64.test(b64)) return Buffer.from(b64, 'base64');
  throw new NereidError('INVALID_ARG', "Unable to parse 'b64': it is not base64 text with padding", {
    field: `${field}.b64`,
  });
}

export interface Base64Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly b64: string;
}

export function base64Tensor({ name, datatype, shape, data }: Tensor): Base64Tensor {
  const b64 = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
  return { name, datatype, shape, b64 };
}
