import type { UnreadRequest } from '@nereid/caller';
import { traceContext } from '@nereid/protocol';
import type { CallMetadata } from './transport.ts';

/** What is known of a request that is refused before it is one. */
export function unreadCall(
  { id, modelName, modelVersion }: Pick<UnreadRequest, 'id' | 'modelName' | 'modelVersion'>,
  metadata: CallMetadata,
): UnreadRequest {
  const traceparent = metadata.get('traceparent');
  return { id, modelName, modelVersion, trace: traceparent === undefined ? undefined : traceContext(traceparent) };
}
