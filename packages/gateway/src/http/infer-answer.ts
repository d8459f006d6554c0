import {
  type DecodedRequest,
  type EncodedResponse,
  type ErrorInfo,
  encodeInferResponse,
  errorInfo,
  type InferResponse,
  type OutputFormat,
} from '@nereid/protocol';
import type { FastifyReply } from 'fastify';
import { answerCoding } from './content-coding.ts';
import { deflateParts } from './deflate.ts';
import { addBytes, type RequestBytes } from './request-bytes.ts';
import { REQUEST_ID } from './request-id.ts';

/** Up to so many bytes, copying an answer's parts into one write is cheaper than several writes. */
const JOINED_BYTES_MAX = 65_536;

/**
 * Encodes and sends an answer, compressed where the client asks for it. Where an output has no form
 * of the kind asked for, nothing is sent and the error is returned. `requestId`: its token in the cluster, '' for none. Written past Fastify's own reply,
 * which takes one payload: the tensors of a large answer would have to be copied into one.
 */
export function sendInferResponse(
  reply: FastifyReply,
  response: InferResponse,
  request: Pick<DecodedRequest, 'outputs' | 'binaryDefault'>,
  closing: () => boolean,
  account: RequestBytes,
  requestId = '',
): ErrorInfo | null {
  const formats = outputFormats(response, request);
  try {
    const encoded = encodeInferResponse(response, formats);
    addBytes(account, lengthOf(encoded.parts));
    const accepted = reply.request.headers['accept-encoding'];
    if (accepted === undefined) writeAnswer(reply, answerHeaders(encoded, requestId), encoded.parts, closing);
    else sendAsAccepted(reply, encoded, accepted, closing, requestId);
    return null;
  } catch (thrown) {
    return errorInfo(thrown);
  }
}

function answerHeaders({ contentType, headerLength }: EncodedResponse, requestId: string): string[] {
  const headers = ['Content-Type', contentType];
  if (requestId !== '') headers.push(REQUEST_ID, requestId);
  // Of the JSON before it is compressed.
  if (headerLength !== undefined) headers.push('Inference-Header-Content-Length', String(headerLength));
  return headers;
}

function sendAsAccepted(
  reply: FastifyReply,
  encoded: EncodedResponse,
  accepted: string,
  closing: () => boolean,
  requestId: string,
): void {
  const coding = answerCoding(accepted);
  const headers = answerHeaders(encoded, requestId);
  // Takes the place of what CORS has set.
  headers.push('Vary', reply.raw.hasHeader('Vary') ? 'Origin, Accept-Encoding' : 'Accept-Encoding');
  if (coding === 'identity') {
    writeAnswer(reply, headers, encoded.parts, closing);
    return;
  }
  deflateParts(encoded.parts, lengthOf(encoded.parts), coding, (parts, used) => {
    if (used !== 'identity') headers.push('Content-Encoding', used);
    writeAnswer(reply, headers, parts, closing);
  });
}

function writeAnswer(
  reply: FastifyReply,
  headers: string[],
  parts: readonly Uint8Array[],
  closing: () => boolean,
): void {
  const length = lengthOf(parts);
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  headers.push('Content-Length', String(length));
  raw.writeHead(200, headers);
  if (length <= JOINED_BYTES_MAX) {
    raw.end(join(parts, length));
  } else {
    for (const part of parts) raw.write(part);
    raw.end();
  }
}

function lengthOf(parts: readonly Uint8Array[]): number {
  let length = 0;
  for (const part of parts) length += part.byteLength;
  return length;
}

function join(parts: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts, length);
}

/** The default form is for requests that list no outputs; what they list is JSON unless it says otherwise. */
function outputFormats(
  response: InferResponse,
  { outputs, binaryDefault }: Pick<DecodedRequest, 'outputs' | 'binaryDefault'>,
): readonly OutputFormat[] {
  if (outputs.length > 0 || !binaryDefault) return outputs;
  return response.outputs.map(({ name }) => ({ name, binary: true }));
}
