import { DATATYPE_BYTES } from './datatype.ts';
import type { InferResponse } from './infer.ts';
import { finish, type JsonWriter, jsonWriter } from './json-writer.ts';
import { elementCount, type Tensor } from './tensor.ts';
import { parameterText, writeData } from './v2-response.ts';

/** Bytes of the JSON around the elements, as a first guess. */
const FRAME_BYTES = 256;
/** Text of one element and its comma, as a first guess. */
const ELEMENT_TEXT_BYTES = 8;

/**
 * A response as generate gives it (GenerateRequestClass in http_server.cc): one flat object, its
 * members in the order of their names: the response's id (where there is one), model and version, its
 * parameters and its tensors, a tensor of one element as that element and any other as a flat array.
 * Where two have one name, the one named first here is given.
 * Throws INVALID_ARG for FP16 and BF16, INTERNAL where data and shape do not fit together.
 */
export function encodeGenerateResponse(response: InferResponse): Buffer {
  const members = new Map<string, string | Tensor>();
  const add = (name: string, value: string | Tensor) => {
    if (!members.has(name)) members.set(name, value);
  };
  if (response.id !== '') add('id', JSON.stringify(response.id));
  add('model_name', JSON.stringify(response.modelName));
  add('model_version', JSON.stringify(response.modelVersion));
  for (const [name, value] of Object.entries(response.parameters)) add(name, parameterText(value));
  for (const output of response.outputs) add(output.name, output);

  const writer = jsonWriter(sizeHint(response));
  let separator = '{';
  for (const name of [...members.keys()].sort()) {
    writer.pending += `${separator}${JSON.stringify(name)}:`;
    separator = ',';
    const value = members.get(name) ?? '';
    if (typeof value === 'string') writer.pending += value;
    else writeTensor(writer, value);
  }
  writer.pending += '}';
  return finish(writer);
}

function writeTensor(writer: JsonWriter, output: Tensor): void {
  if (elementCount(output.shape) === 1) {
    writeData(writer, output);
    return;
  }
  writer.pending += '[';
  writeData(writer, output);
  writer.pending += ']';
}

function sizeHint({ outputs }: InferResponse): number {
  let bytes = FRAME_BYTES;
  for (const { datatype, data } of outputs) {
    bytes += datatype === 'BYTES' ? data.byteLength : (data.byteLength / DATATYPE_BYTES[datatype]) * ELEMENT_TEXT_BYTES;
  }
  return Math.ceil(bytes);
}
