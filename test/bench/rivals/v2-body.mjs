// The v2 protocol at a server, as far as the bench needs it.

import { ARRAYS, HEADER_LENGTH } from '../../v2-tensors.mjs';

/**
 * Reads an infer request.
 *
 * @param {Buffer} body
 * @param {Record<string, string | undefined>} headers
 * @returns {{ inputs: Record<string, { datatype: string, shape: number[], values: Float32Array | Int32Array }>,
 *   wantsBinary: boolean }}
 */
export function readRequest(body, headers) {
  let at = headers[HEADER_LENGTH] === undefined ? body.length : Number(headers[HEADER_LENGTH]);
  const request = JSON.parse(body.toString('utf8', 0, at));
  const inputs = {};
  for (const { name, datatype, shape, data, parameters } of request.inputs) {
    const array = ARRAYS[datatype];
    if (data !== undefined) inputs[name] = { datatype, shape, values: array.from(data) };
    else {
      const size = parameters.binary_data_size;
      inputs[name] = {
        datatype,
        shape,
        values: new array(body.buffer.slice(body.byteOffset + at, body.byteOffset + at + size)),
      };
      at += size;
    }
  }
  return { inputs, wantsBinary: request.parameters?.binary_data_output === true };
}

/** An infer response. @returns {{ body: Buffer | string, headers: Record<string, string> }} */
export function writeResponse(model, outputs, wantsBinary) {
  const entries = Object.entries(outputs);
  const tensor = (name, { datatype, shape }, rest) => ({ name, datatype, shape, ...rest });
  const document = (tensors) => JSON.stringify({ model_name: model, model_version: '1', outputs: tensors });
  if (!wantsBinary) {
    const tensors = entries.map(([name, output]) => tensor(name, output, { data: Array.from(output.values) }));
    return { body: document(tensors), headers: { 'content-type': 'application/json' } };
  }
  const header = Buffer.from(
    document(
      entries.map(([name, output]) =>
        tensor(name, output, { parameters: { binary_data_size: output.values.byteLength } }),
      ),
    ),
  );
  const data = entries.map(([, { values }]) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  const headers = { 'content-type': 'application/octet-stream', [HEADER_LENGTH]: `${header.length}` };
  return { body: Buffer.concat([header, ...data]), headers };
}
