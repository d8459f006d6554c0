/** The body of a v2 infer response: JSON, and behind it the raw bytes of the binary outputs. */
import { ELEMENT_LENGTH_BYTES } from './bytes-elements.ts';
import { DATATYPE_BYTES } from './datatype.ts';
import { NereidError } from './error.ts';
import type { InferResponse, ParameterValue } from './infer.ts';
import { doubleText } from './json-numbers.ts';
import { finish, flush, type JsonWriter, jsonWriter, writeElements } from './json-writer.ts';
import { elementCount, fixedByteSize, type Tensor } from './tensor.ts';
import type { SharedMemoryPlace } from './v2-shared-memory.ts';

/** How one output travels: as JSON, as raw bytes behind it, or not at all, being in shared memory. */
export interface OutputFormat {
  readonly name: string;
  readonly binary: boolean;
  readonly sharedMemory?: SharedMemoryPlace;
}

export interface EncodedResponse {
  /** `Inference-Header-Content-Length`: bytes of the JSON; undefined where nothing follows it. */
  readonly headerLength: number | undefined;
  readonly contentType: 'application/json' | 'application/octet-stream';
  /** The JSON, then the bytes of each binary output that has any, as they are in the response. */
  readonly parts: readonly Uint8Array[];
}

/** Bytes of the JSON around the elements, as a first guess. */
const FRAME_BYTES = 512;
/** Text of one element and its comma, as a first guess. */
const ELEMENT_TEXT_BYTES = 8;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** A byte of a JSON string takes at most this many as an escape. */
const ESCAPE_BYTES = 6;
/** Bytes of a string printed between two checks for room. */
const BLOCK_BYTES = 4_096;
const HEX = '0123456789ABCDEF';

/**
 * Encodes a response as Triton does (InferRequestClass::FinalizeResponse in http_server.cc), its
 * outputs in the response's order. An output that `formats` does not name goes as JSON; where one is
 * named twice the first counts.
 * Throws INVALID_ARG for FP16 and BF16 as JSON, INTERNAL where data and shape do not fit together.
 */
export function encodeInferResponse(response: InferResponse, formats: readonly OutputFormat[]): EncodedResponse {
  const parts: Uint8Array[] = [];
  const writer = jsonWriter(sizeHint(response, formats));
  writer.pending = response.id === '' ? '{' : `{"id":${JSON.stringify(response.id)},`;
  writer.pending += `"model_name":${JSON.stringify(response.modelName)},"model_version":${JSON.stringify(response.modelVersion)}`;
  writeParameters(writer, response);
  writer.pending += ',"outputs":[';
  let separator = '';
  for (const output of response.outputs) {
    const name = JSON.stringify(output.name);
    writer.pending += `${separator}{"name":${name},"datatype":"${output.datatype}","shape":[${output.shape.join(',')}]`;
    separator = ',';
    const format = formatOf(output.name, formats);
    if (format?.sharedMemory !== undefined) {
      writer.pending += '}';
    } else if (format?.binary === true) {
      const { byteLength } = output.data;
      writer.pending += `,"parameters":{"binary_data_size":${byteLength}}}`;
      if (byteLength > 0) parts.push(output.data);
    } else {
      writer.pending += ',"data":[';
      writeData(writer, output);
      writer.pending += ']}';
    }
  }
  writer.pending += ']}';
  const json = finish(writer);
  const binary = parts.length > 0;
  parts.unshift(json);
  return {
    headerLength: binary ? json.byteLength : undefined,
    contentType: binary ? 'application/octet-stream' : 'application/json',
    parts,
  };
}

/** The first of that name. */
function formatOf(name: string, formats: readonly OutputFormat[]): OutputFormat | undefined {
  for (const format of formats) {
    if (format.name === name) return format;
  }
  return undefined;
}

function sizeHint(response: InferResponse, formats: readonly OutputFormat[]): number {
  let bytes = FRAME_BYTES;
  for (const { name, datatype, data } of response.outputs) {
    const format = formatOf(name, formats);
    if (format?.binary === true || format?.sharedMemory !== undefined) continue;
    bytes += datatype === 'BYTES' ? data.byteLength : (data.byteLength / DATATYPE_BYTES[datatype]) * ELEMENT_TEXT_BYTES;
  }
  return Math.ceil(bytes);
}

function writeParameters(writer: JsonWriter, response: InferResponse): void {
  let separator = ',"parameters":{';
  for (const [name, value] of Object.entries(response.parameters)) {
    writer.pending += `${separator}${JSON.stringify(name)}:${parameterText(value)}`;
    separator = ',';
  }
  if (separator === ',') writer.pending += '}';
}

/** A parameter's value as JSON. */
export function parameterText(value: ParameterValue): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'number' ? doubleText(value) : String(value);
}

/** Writes a tensor's elements as JSON, comma between them. Throws as `encodeInferResponse` does. */
export function writeData(writer: JsonWriter, output: Tensor): void {
  const { name, datatype, shape, data } = output;
  if (datatype === 'BYTES') {
    writeStrings(writer, output);
    return;
  }
  if (datatype === 'FP16' || datatype === 'BF16') {
    throw new NereidError(
      'INVALID_ARG',
      `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
      { field: 'outputs' },
    );
  }
  if (fixedByteSize(datatype, shape) !== data.byteLength) {
    throw new NereidError(
      'INTERNAL',
      `Failed to write 'data' field: output tensor shape does not match size of output for '${name}'`,
    );
  }
  writeElements(writer, datatype, data);
}

/** BYTES elements as JSON strings; bytes that are no UTF-8 are copied as they are, as Triton does. */
function writeStrings(writer: JsonWriter, output: Tensor): void {
  const { data } = output;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const count = elementCount(output.shape);
  let offset = 0;
  let index = 0;
  while (offset < data.byteLength && index !== count) {
    const start = offset + ELEMENT_LENGTH_BYTES;
    const end = start <= data.byteLength ? start + view.getUint32(offset, true) : start;
    if (end > data.byteLength) break;
    writer.pending += index === 0 ? '"' : ',"';
    for (let from = start; from < end; from += BLOCK_BYTES) {
      const to = Math.min(from + BLOCK_BYTES, end);
      flush(writer, (to - from) * ESCAPE_BYTES);
      writer.length = printText(data, from, to, writer.buffer, writer.length);
    }
    writer.pending += '"';
    offset = end;
    index++;
  }
  if (offset !== data.byteLength || index !== count) {
    throw new NereidError('INTERNAL', `output tensor shape does not match size of output for '${output.name}'`);
  }
}

/** Prints bytes of a string at `at`, with room for an escape each; returns the end. */
function printText(data: Uint8Array, start: number, end: number, out: Buffer, at: number): number {
  let position = at;
  for (let index = start; index < end; index++) {
    const byte = data[index] as number;
    if (byte === QUOTE || byte === BACKSLASH) {
      out[position++] = BACKSLASH;
      out[position++] = byte;
    } else if (byte < 0x20) {
      position += out.write(controlEscape(byte), position, 'latin1');
    } else {
      out[position++] = byte;
    }
  }
  return position;
}

function controlEscape(byte: number): string {
  switch (byte) {
    case 0x08:
      return '\\b';
    case 0x09:
      return '\\t';
    case 0x0a:
      return '\\n';
    case 0x0c:
      return '\\f';
    case 0x0d:
      return '\\r';
    default:
      return `\\u00${HEX[byte >> 4]}${HEX[byte & 0xf]}`;
  }
}
