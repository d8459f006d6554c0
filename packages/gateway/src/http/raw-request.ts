import type { ModelSignature } from '@nereid/config';
import {
  DATATYPE_BYTES,
  type ErrorInfo,
  elementCount,
  encodeBytesElements,
  fixedByteSize,
  type InferRequest,
  REQUEST_DEFAULTS,
  type Tensor,
  withRequestId,
} from '@nereid/protocol';

export type RawRequest =
  | { readonly ok: true; readonly request: InferRequest }
  | { readonly ok: false; readonly error: ErrorInfo };

/**
 * A request whose whole body is the model's one input (`Inference-Header-Content-Length: 0`): the
 * batch dimension is 1, one variable dimension is told by the size, and a BYTES input must hold one
 * element, whose length is put before it (infer_request.cc, Normalize). Outputs are binary.
 */
export function rawRequest(signature: ModelSignature, modelVersion: string, body: Uint8Array): RawRequest {
  const [input, second] = signature.inputs;
  if (input === undefined || second !== undefined) {
    const count = signature.inputs.length;
    return refuse(
      'Raw request must only have 1 input (found 1) to be deduced ' +
        `but got ${count} inputs in '${signature.name}' model configuration`,
    );
  }
  const variable = input.dims.filter((dim) => dim === -1).length;
  if (variable > 1) {
    return refuse(
      `The shape of the raw input '${input.name}' can not be deduced ` +
        'because there are more than one variable-sized dimension',
    );
  }
  const fixed = elementCount(input.dims.filter((dim) => dim !== -1)) ?? 0;
  const batch = signature.maxBatchSize > 0 ? [1] : [];

  if (input.datatype === 'BYTES') {
    if (variable > 0 || fixed !== 1) {
      return refuse(`For BYTE datatype raw input '${input.name}', the model must have input shape [1]`);
    }
    const { name, datatype } = input;
    const data = encodeBytesElements([body]);
    return accept(signature, modelVersion, { name, datatype, shape: [...batch, ...input.dims], data });
  }

  const rowBytes = fixed * DATATYPE_BYTES[input.datatype];
  const deduced = rowBytes === 0 ? 0 : Math.floor(body.byteLength / rowBytes);
  const shape = [...batch, ...input.dims.map((dim) => (dim === -1 ? deduced : dim))];
  const expected = fixedByteSize(input.datatype, shape);
  if (expected !== body.byteLength) {
    return refuse(
      `input byte size mismatch for input 'raw_input' for model '${signature.name}'. ` +
        `Expected ${expected}, got ${body.byteLength}`,
    );
  }
  return accept(signature, modelVersion, { name: input.name, datatype: input.datatype, shape, data: body });
}

function accept(signature: ModelSignature, modelVersion: string, input: Tensor): RawRequest {
  return { ok: true, request: { ...REQUEST_DEFAULTS, modelName: signature.name, modelVersion, inputs: [input] } };
}

/** A raw request has no place for an id, so its texts all carry Triton's stand-in. */
function refuse(text: string): RawRequest {
  return { ok: false, error: withRequestId({ id: '' }, { code: 'INVALID_ARG', message: text, field: 'body' }) };
}
