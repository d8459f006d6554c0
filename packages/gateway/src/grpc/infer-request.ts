import type { ModelFound } from '@nereid/caller';
import { LIMITS } from '@nereid/config';
import { type DecodedGrpcRequest, decodeGrpcInferRequest, type GrpcInferDocument } from '@nereid/protocol';
import { type ForwardsHeader, withForwardedHeaders } from '../header-forward.ts';
import type { Result } from '../result.ts';
import { type SharedUse, useSharedMemory } from '../shared-use.ts';
import { traced } from '../traced.ts';
import type { CallContext } from './call-context.ts';
import type { CallMetadata } from './transport.ts';

const REQUEST_LIMITS = { elements_max: LIMITS.json_elements_max, bytes_max: LIMITS.grpc_message_bytes_max };

export type InferRequestContext = Pick<CallContext, 'forwards' | 'sharedMemory' | 'bytesInFlight'>;

export interface CalledInfer extends DecodedGrpcRequest {
  /** To be released once no more answers come. */
  readonly shared: SharedUse | undefined;
}

/**
 * The request of a message, for unary and streamed inference alike. What is wrong with it is thrown
 * as a NereidError or given, in Triton's order; what the config tells is the gateway's to check.
 */
export function inferRequest(
  { forwards, sharedMemory, bytesInFlight }: InferRequestContext,
  document: GrpcInferDocument,
  found: ModelFound,
  metadata: CallMetadata,
): Result<CalledInfer> {
  const modelVersion = document.modelVersion === '' ? '' : found.version;
  const { read: readSharedMemory, bytesRead } = sharedMemory;
  const decoded = decodeGrpcInferRequest(document, { modelVersion, limits: REQUEST_LIMITS, readSharedMemory });
  const plain = forwards === undefined ? decoded.request : forwarded(decoded, metadata, forwards);
  const request = traced(plain, metadata.get('traceparent'));
  // Last: nothing may fail behind it without releasing it.
  const shared = useSharedMemory(sharedMemory, bytesInFlight, sharedMemory.bytesRead - bytesRead, decoded.outputs);
  return shared.ok ? { ok: true, value: { ...decoded, request, shared: shared.value } } : shared;
}

function forwarded({ request }: DecodedGrpcRequest, metadata: CallMetadata, forwards: ForwardsHeader) {
  return { ...request, parameters: withForwardedHeaders(request.parameters, metadata.headers(), forwards) };
}
