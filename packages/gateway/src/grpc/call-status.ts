import type { OutgoingHttpHeaders } from 'node:http2';
import { ERROR_TABLE, type ErrorInfo } from '@nereid/protocol';
import { errorHeader } from '../error-header.ts';

/** How a call ends, as its trailers tell it. */
export interface CallStatus {
  /** A gRPC status number. */
  readonly code: number;
  readonly message: string;
  /** The trailer `nereid-error`; absent where the transport itself refuses. */
  readonly detail?: string;
}

/** gRPC's status numbers that no error of ours stands for, by what the transport means with them. */
const DEADLINE_EXCEEDED_CODE = 4;
const RESOURCE_EXHAUSTED_CODE = 8;
const UNIMPLEMENTED_CODE = 12;
const INTERNAL_CODE = 13;

export const OK: CallStatus = { code: 0, message: '' };

/** The words of gRPC's own libraries. */
export const DEADLINE_EXCEEDED: CallStatus = { code: DEADLINE_EXCEEDED_CODE, message: 'Deadline Exceeded' };

/** Once the server stops (grpc_server.cc). */
export const SHUTTING_DOWN: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'GRPC server is shutting down and has stopped accepting new requests.',
};

/** A message over the limit cannot be taken, nor what follows it be found. */
export function messageTooLarge(bytes: number, bytes_max: number): CallStatus {
  const message = `Received message larger than max (${bytes} vs. ${bytes_max})`;
  return { code: RESOURCE_EXHAUSTED_CODE, message };
}

export function unimplemented(message: string): CallStatus {
  return { code: UNIMPLEMENTED_CODE, message };
}

/** What came is no gRPC. */
export function brokenCall(message: string): CallStatus {
  return { code: INTERNAL_CODE, message };
}

export function errorStatus(error: ErrorInfo): CallStatus {
  return { code: ERROR_TABLE[error.code].grpc, message: error.message, detail: errorHeader(error) };
}

/** As encoded. Clients take some 8 KiB of trailers in all. */
const MESSAGE_CHARS_MAX = 6_144;
const PLAIN = /^(?:[\x21-\x24\x26-\x7e](?:[\x20-\x24\x26-\x7e]*[\x21-\x24\x26-\x7e])?)?$/;
const CUT = '...';

/** The trailers of a status. */
export function statusTrailers({ code, message, detail }: CallStatus): OutgoingHttpHeaders {
  if (code === OK.code) return { 'grpc-status': code };
  return {
    'grpc-status': code,
    'grpc-message': encodedMessage(message),
    ...(detail === undefined ? {} : { 'nereid-error': detail }),
  };
}

/** Percent-encoded UTF-8 where it is not printable ASCII, as gRPC over HTTP/2 has it; cut where it is too long. */
export function encodedMessage(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX && PLAIN.test(message)) return message;
  const text: string[] = [];
  let chars = 0;
  // By code points, so that none is cut in half; a lone surrogate becomes U+FFFD.
  for (const point of message) {
    const encoded = encodedPoint(point, chars === 0);
    if (chars + encoded.length > MESSAGE_CHARS_MAX) {
      text.push(CUT);
      return text.join('');
    }
    text.push(encoded);
    chars += encoded.length;
  }
  // Blanks at the ends of a header are not kept.
  if (text.at(-1) === ' ') text[text.length - 1] = '%20';
  return text.join('');
}

function encodedPoint(point: string, first: boolean): string {
  if (point !== '%' && (first ? /^[\x21-\x7e]$/ : /^[\x20-\x7e]$/).test(point)) return point;
  let encoded = '';
  for (const byte of Buffer.from(point)) encoded += `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  return encoded;
}
