import type { CallMark } from '@nereid/caller';
import {
  type ErrorInfo,
  encodeGrpcResponse,
  errorInfo,
  type GrpcInferDocument,
  NereidError,
  type Outcome,
  readGrpcInferDocument,
} from '@nereid/protocol';
import { answerOutputs } from '../answer-outputs.ts';
import type { Result } from '../result.ts';
import type { CallContext } from './call-context.ts';
import { findModel } from './find-model.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { inferRequest } from './infer-request.ts';
import type { CallInfo, GrpcCall, MessageBytes } from './transport.ts';
import { pathOf } from './unary.ts';
import { unreadCall } from './unread-call.ts';

type Answer = Result<MessageBytes>;

/** ModelInfer, by the hand-written codec (protocol/v2-grpc-request.ts, v2-grpc-response.ts). */
export function inferCalls(context: CallContext): readonly GrpcCall[] {
  const { modelInfer } = GRPCInferenceService.method;
  return [
    {
      kind: 'unary',
      path: pathOf(modelInfer),
      compressed: true,
      handle: (message, info) => infer(context, readGrpcInferDocument(message), info),
    },
  ];
}

const DECOUPLED: ErrorInfo = {
  code: 'UNSUPPORTED',
  message: "ModelInfer RPC doesn't support models with decoupled transaction policy",
};

/** Refuses in Triton's order (infer_handler.cc): version, model, decoupled model, parameters, inputs, outputs. */
function infer(context: CallContext, document: GrpcInferDocument, info: CallInfo): Answer | Promise<Answer> {
  const mark: CallMark = { door: 'grpc', id: '' };
  const fail = (error: ErrorInfo): Answer => {
    if (mark.id === '') context.gateway.refused(mark, unreadCall(document, info.metadata), error);
    info.requestId(mark.id);
    context.log.debug({ request_id: document.id, model: document.modelName, err: error }, 'infer failed');
    return { ok: false, error };
  };
  try {
    const found = findModel(context.gateway, document.modelName, document.modelVersion);
    if (!found.ok) return fail(found.error);
    if (found.signature.decoupled) return fail(DECOUPLED);
    const decoded = inferRequest(context, document, found, info.metadata);
    if (!decoded.ok) return fail(decoded.error);
    const { request, outputs, shared } = decoded.value;
    // Never rejects: an infer's failure is an outcome, and an answer that is too large becomes an error.
    const outcome = context.gateway.infer(request, info.signal, info.msLeft(), mark);
    info.requestId(mark.id);
    return outcome.then((outcome) => {
      const placed = shared === undefined ? outcome : shared.place(outcome);
      shared?.release();
      const answer = answered(answerOutputs(placed, outputs, found));
      return answer.ok ? answer : fail(answer.error);
    });
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    return fail(errorInfo(thrown));
  }
}

function answered(outcome: Outcome): Answer {
  if (!outcome.ok) return outcome;
  try {
    return { ok: true, value: encodeGrpcResponse(outcome.response) };
  } catch (thrown) {
    return { ok: false, error: errorInfo(thrown) };
  }
}
