/** Tensors in requests and answers of the v2 protocol, as its clients write and read them. */

export const ARRAYS = { FP32: Float32Array, INT32: Int32Array, INT64: BigInt64Array };
export const HEADER_LENGTH = 'inference-header-content-length';

/** A request in JSON. `inputs`: `{ name, datatype, shape, values }`. */
export function asJson(inputs) {
  const tensors = inputs.map(({ values, ...tensor }) => ({ ...tensor, data: Array.from(values) }));
  return {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ inputs: tensors })),
  };
}

/** A request in binary, which asks for binary outputs; `parameters` are further ones of the request. */
export function asBinary(inputs, parameters = {}) {
  const tensors = inputs.map(({ values, ...tensor }) => ({
    ...tensor,
    parameters: { binary_data_size: values.byteLength },
  }));
  const header = Buffer.from(
    JSON.stringify({ inputs: tensors, parameters: { ...parameters, binary_data_output: true } }),
  );
  const data = inputs.map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  return {
    headers: { 'content-type': 'application/octet-stream', [HEADER_LENGTH]: `${header.length}` },
    body: Buffer.concat([header, ...data]),
  };
}

/** The values of an answer by tensor; `headerLength` is its header of that name, null where it is all JSON. */
export function readTensors(body, headerLength) {
  let at = headerLength === null ? body.length : Number(headerLength);
  const { outputs, error } = JSON.parse(body.toString('utf8', 0, at));
  if (error !== undefined) throw new Error(error);
  const tensors = new Map(
    outputs.map(({ name, datatype, data, parameters }) => {
      if (data !== undefined) return [name, data];
      const size = parameters.binary_data_size;
      // Copied, since a typed array begins at a multiple of its element's size.
      const bytes = Uint8Array.prototype.slice.call(body, at, at + size);
      at += size;
      return [name, new ARRAYS[datatype](bytes.buffer)];
    }),
  );
  if (at !== body.length) throw new Error(`${body.length - at} bytes stand behind the outputs`);
  return tensors;
}
