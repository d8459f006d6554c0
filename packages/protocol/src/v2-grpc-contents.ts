/** A tensor's InferTensorContents (grpc_service.proto): values in fields by type, packed or one by one. */
import { ELEMENT_LENGTH_BYTES } from './bytes-elements.ts';
import { DATATYPE_BYTES, type Datatype } from './datatype.ts';
import { NereidError } from './error.ts';
import {
  DELIMITED,
  FIXED32,
  FIXED32_BYTES,
  FIXED64,
  FIXED64_BYTES,
  openSpan,
  type ProtobufReader,
  protobufReader,
  readTag,
  readVarint,
  skipField,
  take,
  VARINT,
} from './protobuf-reader.ts';
import type { GrpcRequestLimits } from './protocol-limits.ts';

interface ContentsField {
  /** Of one value that is not packed. */
  readonly wire: number;
  /** What it counts as where the tensor's datatype is none of `datatypes`. */
  readonly label: Datatype;
  readonly datatypes: readonly Datatype[];
}

/** By field number, in the order in which Triton looks at them; 0 is none. */
const FIELDS: readonly (ContentsField | undefined)[] = [
  undefined,
  { wire: VARINT, label: 'BOOL', datatypes: ['BOOL'] },
  { wire: VARINT, label: 'INT32', datatypes: ['INT32', 'INT16', 'INT8'] },
  { wire: VARINT, label: 'INT64', datatypes: ['INT64'] },
  { wire: VARINT, label: 'UINT32', datatypes: ['UINT32', 'UINT16', 'UINT8'] },
  { wire: VARINT, label: 'UINT64', datatypes: ['UINT64'] },
  { wire: FIXED32, label: 'FP32', datatypes: ['FP32'] },
  { wire: FIXED64, label: 'FP64', datatypes: ['FP64'] },
  { wire: DELIMITED, label: 'BYTES', datatypes: ['BYTES'] },
];

/** The tensor that the contents are of. */
export interface ContentsTensor {
  readonly name: string;
  /** undefined for a name that is no datatype's. */
  readonly datatype: Datatype | undefined;
  readonly modelName: string;
  /** Where it stands in the request, for errors. */
  readonly field: string;
}

/** What typed contents take of a request's limits. */
export interface ContentsUse {
  elements: number;
}

/**
 * The values in their binary form, which the shape need not fit. Integers narrower than their field
 * are cut to their low bytes. Throws INVALID_ARG with Triton's texts (infer_handler.cc,
 * InferGRPCToInput) for fields of another datatype and for two fields with values.
 */
export function contentsData(
  contents: readonly Uint8Array[],
  tensor: ContentsTensor,
  limits: GrpcRequestLimits,
  use: ContentsUse,
): Uint8Array {
  const counts = FIELDS.map(() => 0);
  let textBytes = 0;
  walkValues(contents, (number, field, reader) => {
    counts[number] = (counts[number] ?? 0) + 1;
    if (field.wire === DELIMITED) {
      const end = openSpan(reader);
      textBytes += end - reader.at;
      reader.at = end;
    } else passValue(field, reader);
  });
  const chosen = fieldWithValues(counts, tensor);
  if (chosen === 0 || tensor.datatype === undefined) return new Uint8Array(0);
  const count = counts[chosen] ?? 0;
  const size = count * (DATATYPE_BYTES[tensor.datatype] || ELEMENT_LENGTH_BYTES) + textBytes;
  use.elements += count;
  checkLimits(tensor, size, limits, use);
  const out = new Uint8Array(size);
  fill(out, contents, chosen, tensor.datatype);
  return out;
}

type Visit = (number: number, field: ContentsField, reader: ProtobufReader) => void;

/** Calls back at each value, which is to be passed. */
function walkValues(contents: readonly Uint8Array[], visit: Visit): void {
  for (const piece of contents) {
    const reader = protobufReader(piece);
    while (reader.at < reader.end) {
      const tag = readTag(reader);
      const number = tag >>> 3;
      const wire = tag & 7;
      const field = FIELDS[number];
      if (field !== undefined && wire === field.wire) {
        visit(number, field, reader);
      } else if (field !== undefined && wire === DELIMITED) {
        const outer = reader.end;
        reader.end = openSpan(reader);
        while (reader.at < reader.end) visit(number, field, reader);
        reader.end = outer;
      } else {
        skipField(reader, tag);
      }
    }
  }
}

function passValue(field: ContentsField, reader: ProtobufReader): void {
  if (field.wire === VARINT) readVarint(reader);
  else if (field.wire === FIXED32) take(reader, FIXED32_BYTES);
  else if (field.wire === FIXED64) take(reader, FIXED64_BYTES);
  else reader.at = openSpan(reader);
}

/** The number of the one field that has values, 0 where none has. */
function fieldWithValues(counts: readonly number[], tensor: ContentsTensor): number {
  let chosen = 0;
  for (const [number, field] of FIELDS.entries()) {
    if (field === undefined || counts[number] === 0) continue;
    const where = `unexpected explicit tensor data for input tensor '${tensor.name}' for model '${tensor.modelName}'`;
    if (chosen !== 0) throw refused(`${where}, binary data was already supplied.`, tensor);
    if (tensor.datatype === undefined || !field.datatypes.includes(tensor.datatype)) {
      const expected = tensor.datatype ?? '<invalid>';
      throw refused(`${where} of type '${field.label}', expected datatype '${expected}'`, tensor);
    }
    chosen = number;
  }
  return chosen;
}

function checkLimits(tensor: ContentsTensor, size: number, limits: GrpcRequestLimits, use: ContentsUse): void {
  const advice = 'Please use raw_input_contents.';
  if (use.elements > limits.elements_max) {
    const text = `with input '${tensor.name}' the request has ${use.elements} explicit elements, more than ${limits.elements_max}. ${advice}`;
    throw refused(text, tensor);
  }
  if (size > limits.bytes_max) {
    const text = `input '${tensor.name}' has a byte_size (${size} bytes) that exceeds the maximum allowed value of ${limits.bytes_max} bytes. ${advice}`;
    throw refused(text, tensor);
  }
}

function refused(text: string, tensor: ContentsTensor): NereidError {
  return new NereidError('INVALID_ARG', text, { field: `${tensor.field}.contents` });
}

function fill(out: Uint8Array, contents: readonly Uint8Array[], chosen: number, datatype: Datatype): void {
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength);
  const width = DATATYPE_BYTES[datatype];
  let at = 0;
  walkValues(contents, (number, field, reader) => {
    if (number !== chosen) {
      passValue(field, reader);
    } else if (field.wire === DELIMITED) {
      const end = openSpan(reader);
      view.setUint32(at, end - reader.at, true);
      out.set(reader.bytes.subarray(reader.at, end), at + ELEMENT_LENGTH_BYTES);
      at += ELEMENT_LENGTH_BYTES + end - reader.at;
      reader.at = end;
    } else if (field.wire === VARINT) {
      readVarint(reader);
      if (datatype === 'BOOL') out[at] = reader.low !== 0 || reader.high !== 0 ? 1 : 0;
      else writeInteger(view, at, width, reader);
      at += width;
    } else {
      const from = take(reader, width);
      view.setInt32(at, reader.bytes.readInt32LE(from), true);
      if (width === FIXED64_BYTES) {
        view.setInt32(at + FIXED32_BYTES, reader.bytes.readInt32LE(from + FIXED32_BYTES), true);
      }
      at += width;
    }
  });
}

function writeInteger(view: DataView, at: number, width: number, { low, high }: ProtobufReader): void {
  if (width === 1) view.setInt8(at, low);
  else if (width === 2) view.setInt16(at, low, true);
  else view.setInt32(at, low, true);
  if (width === FIXED64_BYTES) view.setInt32(at + FIXED32_BYTES, high, true);
}
