import { asBinary, asJson, HEADER_LENGTH, readTensors } from '../../v2-tensors.mjs';
import { difference, inputsOf, outputsOf } from '../models/inputs.mjs';

// Requests in the v2 protocol, as the servers that speak it are asked: Triton's, Nereid's, and the Fastify ones here.

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
