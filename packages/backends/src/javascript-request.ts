import type { ParameterValue, Tensor } from '@nereid/protocol';
import type { BatchRequest } from './backend.ts';
import { FLAG_SEQUENCE_END, FLAG_SEQUENCE_START, type ModelRequest, type ModelTensor } from './javascript-model.ts';
import { bytesElements, numericView } from './tensor-data.ts';

/** A request as a JavaScript model sees it. */
export function modelRequest(from: BatchRequest): ModelRequest {
  const { request } = from;
  return {
    id: request.id,
    correlationId: request.correlationId,
    flags: (request.sequenceStart ? FLAG_SEQUENCE_START : 0) | (request.sequenceEnd ? FLAG_SEQUENCE_END : 0),
    parameters: Object.fromEntries(Object.entries(request.parameters).map(([name, value]) => [name, plain(value)])),
    inputs: new Map(request.inputs.map((input) => [input.name, modelTensor(input)])),
    // Only made for models that look at it.
    get signal() {
      return from.signal;
    },
  };
}

function modelTensor({ name, datatype, shape, data }: Tensor): ModelTensor {
  return { datatype, shape, data: datatype === 'BYTES' ? bytesElements(name, data) : numericView(datatype, data) };
}

function plain(value: ParameterValue): ParameterValue {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return typeof number === 'number' && typeof value === 'bigint' && !Number.isSafeInteger(number) ? value : number;
}
