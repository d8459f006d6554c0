import type { IncomingHttpHeaders } from 'node:http';
import type { UnreadRequest } from '@nereid/caller';
import { ownText, traceContext } from '@nereid/protocol';
import type { Body } from './read-body.ts';

/** The token under which the cluster knows a request, for `nereid explain`. */
export const REQUEST_ID = 'Nereid-Request-Id';

/** What is known of a request that is refused before it is one. */
export function unreadRequest(
  modelName: string,
  modelVersion: string,
  id: string,
  { traceparent }: IncomingHttpHeaders,
): UnreadRequest {
  const trace = typeof traceparent === 'string' ? traceContext(traceparent) : undefined;
  // Parts of the path are cut from the whole URL.
  return { modelName: ownText(modelName), modelVersion: ownText(modelVersion), id, trace };
}

/** Of a longer one no id is looked for: it is read a second time for that. */
const WRITTEN_BYTES_MAX = 65_536;

/** The id that a client wrote into a body that cannot be taken; '' where none is found. */
export function writtenId(body: Body, jsonLength: string | readonly string[] | undefined): string {
  if (!body.ok) return '';
  const length = jsonLength === undefined ? body.bytes.byteLength : Number(jsonLength);
  if (!(length >= 0 && length <= WRITTEN_BYTES_MAX)) return '';
  try {
    const { id } = JSON.parse(Buffer.from(body.bytes.subarray(0, length)).toString());
    return typeof id === 'string' ? id : '';
  } catch {
    return '';
  }
}
