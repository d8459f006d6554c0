import { type InferRequest, traceContext } from '@nereid/protocol';

/** The request as part of the caller's trace; as it was where the caller gives none, or one that is malformed. */
export function traced(request: InferRequest, traceparent: string | readonly string[] | undefined): InferRequest {
  if (typeof traceparent !== 'string') return request;
  const trace = traceContext(traceparent);
  return trace === undefined ? request : { ...request, trace };
}
