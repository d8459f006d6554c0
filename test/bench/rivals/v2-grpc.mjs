/**
 * Messages of the v2 protocol over gRPC (service inference.GRPCInferenceService): only what the bench sends, apart from
 * the server's own codec.
 */
import { bytesField, packedField, readFields, stringField, writeFields } from '../../../deploy/setup/protobuf.mjs';
import { ARRAYS } from '../../v2-tensors.mjs';

export const MODEL_INFER = '/inference.GRPCInferenceService/ModelInfer';

/** A ModelInferRequest with raw contents. `inputs`: `{ name, datatype, shape, values }`, `values` a typed array. */
export function inferRequestBytes({ model, inputs }) {
  const bytesOf = (values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  const tensor = ({ name, datatype, shape }) =>
    writeFields([stringField(1, name), stringField(2, datatype), packedField(3, shape)]);
  return writeFields([
    stringField(1, model),
    ...inputs.map((input) => bytesField(5, tensor(input))),
    ...inputs.map(({ values }) => bytesField(7, bytesOf(values))),
  ]);
}

/** The values of a ModelInferResponse by output, as typed arrays. */
export function inferResponseTensors(message) {
  const raw = valuesOf(message, 6);
  return new Map(
    valuesOf(message, 5).map((output, index) => {
      const [name, datatype] = [1, 2].map((number) => Buffer.from(valuesOf(output, number)[0]).toString());
      // Copied, since a typed array begins at a multiple of its element's size.
      const bytes = Uint8Array.prototype.slice.call(raw[index]);
      return [name, new ARRAYS[datatype](bytes.buffer)];
    }),
  );
}

/** The values of a message's fields of that number. */
function valuesOf(message, number) {
  return readFields(message)
    .filter((field) => field.number === number)
    .map(({ value }) => value);
}
