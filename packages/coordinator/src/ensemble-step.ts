/** What an ensemble asks of a step's model, and what it makes of the answer. */
import type { EnsembleStep } from '@nereid/config';
import {
  type CarriedRequest,
  type CarriedTensor,
  type ErrorInfo,
  type InferMessage,
  type InferResponse,
  QUEUE_FULL,
  QUEUE_TIMEOUT,
  SEQUENCE_TIMEOUT,
} from '@nereid/protocol';

/** Its own words, which are Triton's and name no model. */
const PLAIN: readonly ErrorInfo[] = [QUEUE_FULL, QUEUE_TIMEOUT, SEQUENCE_TIMEOUT];

/**
 * The request to a step's model. What the client said of its request, but for its tensors, it says of each step
 * (ensemble_scheduler.cc, InitStep). `keep`: outputs that only other steps need, by the model's names.
 */
export function stepRequest(
  { id, step: number, request }: InferMessage,
  step: EnsembleStep,
  index: number,
  inputs: ReadonlyMap<string, CarriedTensor>,
  keep: readonly string[],
): CarriedRequest {
  const sequenceStep = request.sequenceStep ?? number;
  const { trace, background, journal } = request;
  return {
    modelName: step.model,
    modelVersion: step.version,
    id: request.id,
    correlationId: request.correlationId,
    sequenceStart: request.sequenceStart,
    sequenceEnd: request.sequenceEnd,
    ...(sequenceStep < 0 ? {} : { sequenceStep }),
    priority: request.priority,
    timeoutUs: request.timeoutUs,
    parameters: request.parameters,
    inputs: [...inputs].map(([name, tensor]) => ({ ...tensor, name })),
    requestedOutputs: step.outputs.map(({ name }) => name),
    ...(trace === undefined ? {} : { trace }),
    ...(background === true ? { background } : {}),
    ...(journal === undefined ? {} : { journal }),
    inner: { keep, parent: { id, step: index } },
  };
}

/** The answer's outputs by the ensemble's names; undefined for the end of a stream, which has none. */
export function stepOutputs(
  { outputs }: InferResponse<CarriedTensor>,
  step: EnsembleStep,
): ReadonlyMap<string, CarriedTensor> | undefined {
  if (outputs.length === 0) return undefined;
  const given = new Map<string, CarriedTensor>();
  for (const tensor of outputs) {
    const mapped = step.outputs.find(({ name }) => name === tensor.name);
    if (mapped !== undefined) given.set(mapped.tensor, { ...tensor, name: mapped.tensor });
  }
  return given;
}

/** Of a step that was lost or not taken: who reads it in the ensemble's answer is to know which model to look after. */
export function stepError(error: ErrorInfo, { model }: EnsembleStep): ErrorInfo {
  const { code, message } = error;
  if (code !== 'UNAVAILABLE' || message.includes(`'${model}'`)) return error;
  if (PLAIN.some((plain) => message.endsWith(plain.message))) return error;
  return { ...error, message: `model '${model}': ${message}` };
}

/** Whether the request is part of a sequence, whose steps are not to be applied twice. */
export function isOfSequence({ request: { correlationId: id } }: InferMessage): boolean {
  return id !== 0n && id !== '';
}
