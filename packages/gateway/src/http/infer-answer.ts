import {
  type DecodedRequest,
  type ErrorInfo,
  encodeInferResponse,
  errorInfo,
  type InferResponse,
  type OutputFormat,
} from '@nereid/protocol';
import type { FastifyReply } from 'fastify';

/** Up to so many bytes, copying an answer's parts into one write is cheaper than several writes. */
const JOINED_BYTES_MAX = 65_536;

/**
 * Encodes and sends an answer. Where an output has no form of the kind asked for, nothing is sent
 * and the error is returned. Written past Fastify's own reply, which takes one payload: the tensors
 * of a large answer would have to be copied into one.
 */
export function sendInferResponse(
  reply: FastifyReply,
  response: InferResponse,
  request: Pick<DecodedRequest, 'outputs' | 'binaryDefault'>,
  closeConnection: boolean,
): ErrorInfo | null {
  const formats = outputFormats(response, request);
  try {
    const { headerLength, contentType, parts } = encodeInferResponse(response, formats);
    let length = 0;
    for (const part of parts) length += part.byteLength;
    const headers = ['Content-Type', contentType, 'Content-Length', String(length)];
    if (headerLength !== undefined) headers.push('Inference-Header-Content-Length', String(headerLength));
    const { raw } = reply.hijack();
    if (closeConnection) raw.setHeader('Connection', 'close');
    raw.writeHead(200, headers);
    if (length <= JOINED_BYTES_MAX) {
      raw.end(join(parts, length));
    } else {
      for (const part of parts) raw.write(part);
      raw.end();
    }
    return null;
  } catch (thrown) {
    return errorInfo(thrown);
  }
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
