import { difference, inputsOf, outputsOf } from '../models/inputs.mjs';

// Requests in the v2 protocol, as the servers that speak it are asked: Triton's, Nereid's, and the Fastify ones here.

const ARRAYS = { FP32: Float32Array, INT32: Int32Array, INT64: BigInt64Array };
const HEADER_LENGTH = 'inference-header-content-length';

/**
 * One request of a row.
 *
 * @param {{ model: string, encoding: 'json' | 'binary', seed: number, outputs?: object[] }} row `outputs` where what must
 *   be answered is known already
 * @returns {{ path: string, headers: Record<string, string>, body: Buffer, check: (body: Buffer, headers: Headers) =>
 *   string | undefined }} `check` takes an answer's body and headers and says what is wrong with it
 */
export function v2Request({ model, encoding, seed, outputs }) {
  const inputs = inputsOf(model, seed);
  const check = (body, headers) => {
    // Computed here and not before: few answers are checked.
    return difference(outputs ?? outputsOf(model, inputs), readTensors(body, headers.get(HEADER_LENGTH)));
  };
  return { path: `/v2/models/${model}/infer`, ...(encoding === 'json' ? asJson(inputs) : asBinary(inputs)), check };
}

function asJson(inputs) {
  const tensors = inputs.map(({ values, ...tensor }) => ({ ...tensor, data: Array.from(values) }));
  return {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ inputs: tensors })),
  };
}

function asBinary(inputs) {
  const tensors = inputs.map(({ values, ...tensor }) => ({
    ...tensor,
    parameters: { binary_data_size: values.byteLength },
  }));
  const header = Buffer.from(JSON.stringify({ inputs: tensors, parameters: { binary_data_output: true } }));
  const data = inputs.map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  return {
    headers: { 'content-type': 'application/octet-stream', [HEADER_LENGTH]: `${header.length}` },
    body: Buffer.concat([header, ...data]),
  };
}

/** The values of an answer by tensor. */
function readTensors(body, headerLength) {
  let at = headerLength === null ? body.length : Number(headerLength);
  const { outputs, error } = JSON.parse(body.toString('utf8', 0, at));
  if (error !== undefined) throw new Error(error);
  return new Map(
    outputs.map(({ name, datatype, data, parameters }) => {
      if (data !== undefined) return [name, data];
      const size = parameters.binary_data_size;
      // Copied, since a typed array begins at a multiple of its element's size.
      const bytes = Uint8Array.prototype.slice.call(body, at, at + size);
      at += size;
      return [name, new ARRAYS[datatype](bytes.buffer)];
    }),
  );
}
