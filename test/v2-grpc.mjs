/**
 * Messages of the v2 protocol over gRPC (service inference.GRPCInferenceService), written and read by hand: only what the
 * bench and the tests send, apart from the server's own codec.
 */
import { ARRAYS } from './v2-tensors.mjs';

export const MODEL_INFER = '/inference.GRPCInferenceService/ModelInfer';

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    const low = Number(rest & 0x7fn);
    if (rest < 0x80n) return Buffer.from([...bytes, low]);
    bytes.push(low | 0x80);
  }
}

const field = (number, content) => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([varint((number << 3) | LENGTH), varint(bytes.length), bytes]);
};

/** A ModelInferRequest with raw contents. `inputs`: `{ name, datatype, shape, values }`, `values` a typed array. */
export function inferRequestBytes({ model, inputs }) {
  const bytesOf = (values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  const tensors = inputs.map(({ name, datatype, shape }) =>
    field(5, Buffer.concat([field(1, name), field(2, datatype), field(3, Buffer.concat(shape.map(varint)))])),
  );
  return Buffer.concat([field(1, model), ...tensors, ...inputs.map(({ values }) => field(7, bytesOf(values)))]);
}

/** The fields of a message in their order: `[number, value]`, a value being bytes, or a bigint where it is a varint. */
function fieldsOf(message) {
  const fields = [];
  let at = 0;
  const readVarint = () => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      if (byte === undefined) throw new Error('the message ends within a number');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length) => {
    at += length;
    if (at > message.length) throw new Error('the message ends within a field');
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = Number(readVarint());
    const kind = key & 7;
    if (kind === VARINT) fields.push([key >> 3, readVarint()]);
    else if (kind === LENGTH) fields.push([key >> 3, take(Number(readVarint()))]);
    else if (kind === FIXED64 || kind === FIXED32) fields.push([key >> 3, take(kind === FIXED64 ? 8 : 4)]);
    else throw new Error(`a field of kind ${kind}`);
  }
  return fields;
}

/** The values of a ModelInferResponse by output, as typed arrays. */
export function inferResponseTensors(message) {
  const fields = fieldsOf(message);
  const of = (number) => fields.filter(([each]) => each === number).map(([, value]) => value);
  const raw = of(6);
  return new Map(
    of(5).map((output, index) => {
      const [[, name], [, datatype]] = [1, 2].map((number) => fieldsOf(output).find(([each]) => each === number));
      // Copied, since a typed array begins at a multiple of its element's size.
      const bytes = Uint8Array.prototype.slice.call(raw[index]);
      return [name.toString(), new ARRAYS[datatype.toString()](bytes.buffer)];
    }),
  );
}
