import { LIMITS } from '@nereid/config';
import { type DecodedGrpcRequest, decodeGrpcInferRequest, type GrpcInferDocument } from '@nereid/protocol';
import { withForwardedHeaders } from '../header-forward.ts';
import type { ModelFound } from '../model-lookup.ts';
import type { CallContext } from './call-context.ts';
import type { CallMetadata, CallResult } from './transport.ts';

const REQUEST_LIMITS = { elements_max: LIMITS.json_elements_max, bytes_max: LIMITS.grpc_message_bytes_max };

/**
 * The request of a message, for unary and streamed inference alike. What is wrong with it is thrown
 * as a NereidError or given, in Triton's order; what the config tells is the gateway's to check.
 */
export function inferRequest(
  { forwards }: Pick<CallContext, 'forwards'>,
  document: GrpcInferDocument,
  found: ModelFound,
  metadata: CallMetadata,
): CallResult<DecodedGrpcRequest> {
  const modelVersion = document.modelVersion === '' ? '' : found.version;
  const value = decodeGrpcInferRequest(document, { modelVersion, limits: REQUEST_LIMITS });
  if (forwards === undefined) return { ok: true, value };
  const { request } = value;
  const parameters = withForwardedHeaders(request.parameters, metadata.headers(), forwards);
  return { ok: true, value: { ...value, request: { ...request, parameters } } };
}
