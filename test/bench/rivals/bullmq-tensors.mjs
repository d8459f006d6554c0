// Tensors in a job's data and return value, which are JSON: raw bytes as base64, which is shorter than FP32 written as numbers.

const ARRAYS = { FP32: Float32Array, INT32: Int32Array, INT64: BigInt64Array };

export function packTensors(tensors) {
  const packed = {};
  for (const [name, { datatype, shape, values }] of Object.entries(tensors)) {
    const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
    packed[name] = { datatype, shape, base64: bytes.toString('base64') };
  }
  return packed;
}

export function unpackTensors(packed) {
  const tensors = {};
  for (const [name, { datatype, shape, base64 }] of Object.entries(packed)) {
    // Copied out of Buffer's pool, where it may begin anywhere.
    tensors[name] = {
      datatype,
      shape,
      values: new ARRAYS[datatype](Uint8Array.from(Buffer.from(base64, 'base64')).buffer),
    };
  }
  return tensors;
}
