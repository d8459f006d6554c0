import { tellsInside } from './inside.mjs';
import { readMessage, textOf } from './protobuf.mjs';

/** What is wrong with the answer to a call. */

const CODES = {
  OK: 0,
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
};
/** The client's mistakes, and what this server does not do. */
const CLIENTS = [
  CODES.CANCELLED,
  CODES.INVALID_ARGUMENT,
  CODES.NOT_FOUND,
  CODES.ALREADY_EXISTS,
  CODES.RESOURCE_EXHAUSTED,
  CODES.UNIMPLEMENTED,
];
/**
 * Errors of the server that a recorded case has for that kind of call (test/conformance/cases), and what gRPC itself has
 * for a message that is framed or compressed against its rules, and for a deadline that is none (PROTOCOL-HTTP2.md,
 * compression.md).
 */
const SERVER_ERRORS = [
  { case: 'gRPC over HTTP/2', code: CODES.INTERNAL, applies: ({ misframed = false }) => misframed },
  { case: 'errors_grpc/execution_fails', code: CODES.INTERNAL, applies: ({ fails = false }) => fails },
  {
    case: 'repository_refused/load_grpc',
    code: CODES.UNAVAILABLE,
    applies: ({ path }) => path.includes('/RepositoryModelLoad'),
  },
  {
    case: 'repository_refused/unload_grpc',
    code: CODES.UNAVAILABLE,
    applies: ({ path }) => path.includes('/RepositoryModelUnload'),
  },
];
const STREAM = /ModelStreamInfer$/;

export function judgeGrpc(call, result) {
  if (result.problem !== undefined) return result.problem;
  if (result.unsent !== undefined) return undefined;
  const { code, text, messages, headers } = result;
  if (code === undefined) return withoutCode(call, result);
  if (code !== CODES.OK) {
    const isDeadline = code === CODES.DEADLINE_EXCEEDED && call.headers['grpc-timeout'] !== undefined;
    const isKnown = SERVER_ERRORS.some((one) => one.code === code && one.applies(call));
    if (!CLIENTS.includes(code) && !isDeadline && !isKnown) return `code ${code}: ${text}`;
    if (text.trim() === '') return `code ${code} without a text`;
    if (tellsInside(text)) return `a text that tells of the inside: ${text}`;
  }
  if (headers[':status'] !== 200) return `status ${headers[':status']} with code ${code}`;
  if (STREAM.test(call.path)) {
    const wrong = messages.map(streamError).find((found) => found !== undefined);
    if (wrong !== undefined) return wrong;
  }
  if (call.expect === 'refused') return code === CODES.OK ? 'not refused' : undefined;
  if (call.expect !== 'valid') return undefined;
  if (code !== CODES.OK) return `code ${code}: ${text}`;
  try {
    return call.check(messages);
  } catch (error) {
    return error.message;
  }
}

/** Nobody waited for the end, or the server has left the protocol with a client that did. */
function withoutCode(call, { headers, error }) {
  if (call.leaves !== undefined || call.hangs || call.noise !== undefined) return undefined;
  const status = headers[':status'];
  if (call.expect === 'any' && ((status >= 400 && status < 500) || error !== undefined)) return undefined;
  return `no code; status ${status}, ${error ?? 'the stream just ended'}`;
}

/** An answer of a stream is a response, or an error with a text. */
function streamError(message) {
  let fields;
  try {
    fields = readMessage(message);
  } catch (error) {
    return `an answer that is no message: ${error.message}`;
  }
  const text = textOf(fields, 1);
  if (text === '' && !fields.has(2)) return 'an answer with neither response nor error';
  return tellsInside(text) ? `a text that tells of the inside: ${text}` : undefined;
}
