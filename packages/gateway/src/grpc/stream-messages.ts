/** What comes and goes in a ModelStreamInfer call: requests as they are asked, answers as ModelStreamInferResponse. */

import type { ModelFound } from '@nereid/caller';
import {
  type ErrorInfo,
  encodeGrpcStreamResponse,
  errorInfo,
  type InferResponse,
  NereidError,
  type Outcome,
  type Parameters,
  readGrpcInferDocument,
  sequenceNeedsStart,
} from '@nereid/protocol';
import type { Result } from '../result.ts';
import type { CallContext } from './call-context.ts';
import { findModel } from './find-model.ts';
import { type CalledInfer, type InferRequestContext, inferRequest } from './infer-request.ts';
import type { CallMetadata, MessageBytes } from './transport.ts';

/** A request of a stream, as far as it could be read. */
export interface AskedInfer {
  /** As the client gave them. */
  readonly id: string;
  readonly modelName: string;
  readonly modelVersion: string;
  /** Its model may give any number of answers. */
  readonly decoupled: boolean;
  readonly read: Result<ReadInfer>;
}

export interface ReadInfer extends CalledInfer {
  readonly model: ModelFound;
}

/** Throws INVALID_ARG for what is no ModelInferRequest. */
export function readInfer(
  context: Pick<CallContext, 'gateway'> & InferRequestContext,
  metadata: CallMetadata,
  message: Uint8Array,
): AskedInfer {
  const document = readGrpcInferDocument(message);
  const { id, modelName, modelVersion } = document;
  const found = findModel(context.gateway, modelName, modelVersion);
  const named = { id, modelName, modelVersion };
  if (!found.ok) return { ...named, decoupled: false, read: found };
  const { decoupled } = found.signature;
  try {
    const decoded = inferRequest(context, document, found, metadata);
    return {
      ...named,
      decoupled,
      read: decoded.ok ? { ok: true, value: { ...decoded.value, model: found } } : decoded,
    };
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return { ...named, decoupled, read: { ok: false, error: errorInfo(thrown) } };
  }
}

/** Whether more answers of the request follow; one that was refused has none. */
const FINAL = 'triton_final_response';
const MORE_FOLLOW: Parameters = { [FINAL]: false };
const LAST: Parameters = { [FINAL]: true };

/** Of a request that was refused unsent: nothing but its id tells whose it is. */
export function refusalMessage(id: string, error: ErrorInfo): MessageBytes {
  const refused: InferResponse = { modelName: '', modelVersion: '', id, parameters: {}, outputs: [] };
  return encodeGrpcStreamResponse(refused, error.message);
}

/** The end of a decoupled model's answers, come alone. Its version is the one that was asked for. */
export function endMessage(asked: AskedInfer): MessageBytes {
  return encodeGrpcStreamResponse(withoutOutputs(asked, LAST));
}

export interface OutcomeMessage {
  readonly message: MessageBytes;
  readonly error: ErrorInfo | undefined;
  /** Its owner did not take it: in Triton it was not sent. */
  readonly refused?: true;
}

/** An answer; with `error` where it is one, also because its outputs cannot be written as they were asked for. */
export function outcomeMessage(asked: AskedInfer, outcome: Outcome, last: boolean): OutcomeMessage {
  const flag = last ? LAST : MORE_FOLLOW;
  if (!outcome.ok) {
    const { error } = outcome;
    if (isUnknownSequence(asked, error)) return { message: refusalMessage(asked.id, error), error, refused: true };
    return failure(asked, error, flag);
  }
  try {
    const { response } = outcome;
    const parameters = { ...response.parameters, ...flag };
    return { message: encodeGrpcStreamResponse({ ...response, parameters }), error: undefined };
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return failure(asked, errorInfo(thrown), flag);
  }
}

/** Whether it is the error of a step whose sequence nobody has. */
function isUnknownSequence({ read }: AskedInfer, { message }: ErrorInfo): boolean {
  if (!read.ok || read.value.model.signature.sequence === undefined) return false;
  const { modelName, correlationId } = read.value.request;
  return message === sequenceNeedsStart(modelName, correlationId).message;
}

/** An empty text would be a success to the client. */
const WITHOUT_TEXT = 'the model answered an error without a text';

function failure(asked: AskedInfer, error: ErrorInfo, flag: Parameters): OutcomeMessage {
  return { message: encodeGrpcStreamResponse(withoutOutputs(asked, flag), error.message || WITHOUT_TEXT), error };
}

function withoutOutputs({ id, modelName, modelVersion }: AskedInfer, parameters: Parameters): InferResponse {
  return { modelName, modelVersion, id, parameters, outputs: [] };
}
