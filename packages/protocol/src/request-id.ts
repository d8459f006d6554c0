import type { ProcessId } from './message.ts';

/** Whom a request's answers are for in the end: ids of requests are `{process}:{number}` (docs/protocol.md, section 2). */
export function senderOf(requestId: string): ProcessId {
  return requestId.slice(0, requestId.lastIndexOf(':'));
}
