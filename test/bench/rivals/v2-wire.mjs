import { asBinary, asJson, HEADER_LENGTH, readTensors } from '../../v2-tensors.mjs';
import { difference, inputsOf, outputsOf } from '../models/inputs.mjs';
import { inferRequestBytes, inferResponseTensors, MODEL_INFER } from './v2-grpc.mjs';

// Requests in the v2 protocol, as the servers that speak it are asked: Triton's, Nereid's, and the Fastify ones here.

/**
 * One request of a row.
 *
 * @param {{ model: string, encoding: 'json' | 'binary' | 'grpc', seed: number, outputs?: object[] }} row `outputs` where
 *   what must be answered is known already
 * @returns {{ mode?: 'grpc', path: string, headers: Record<string, string>, body: Buffer, check: (body: Buffer,
 *   headers: Headers) => string | undefined }} `check` takes an answer's body and headers and says what is wrong with it;
 *   over gRPC the body is the message
 */
export function v2Request({ model, encoding, seed, outputs }) {
  const inputs = inputsOf(model, seed);
  // Computed here and not before: few answers are checked.
  const wrong = (found) => difference(outputs ?? outputsOf(model, inputs), found);
  if (encoding === 'grpc') {
    const check = (body) => wrong(inferResponseTensors(body));
    return { mode: 'grpc', path: MODEL_INFER, headers: {}, body: inferRequestBytes({ model, inputs }), check };
  }
  const check = (body, headers) => wrong(readTensors(body, headers.get(HEADER_LENGTH)));
  return { path: `/v2/models/${model}/infer`, ...(encoding === 'json' ? asJson(inputs) : asBinary(inputs)), check };
}
