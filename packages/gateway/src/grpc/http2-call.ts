/** One call, an HTTP/2 stream: what comes is taken apart into messages, what goes is framed (gRPC over HTTP/2). */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { BytesInFlight } from '@nereid/caller';
import { createLeaving } from '@nereid/caller';
import { type ErrorInfo, errorInfo, NereidError } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Result } from '../result.ts';
import { type CallBytes, createCallBytes } from './call-bytes.ts';
import { callMetadata, callTimeoutUs } from './call-metadata.ts';
import { type CallReply, createCallReply } from './call-reply.ts';
import {
  brokenCall,
  type CallStatus,
  DEADLINE_EXCEEDED,
  errorStatus,
  messageTooLarge,
  OK,
  unimplemented,
} from './call-status.ts';
import { type AnswerCompression, answerCompression, decompressed, type Plain } from './message-compression.ts';
import { createMessageInbox } from './message-inbox.ts';
import { createMessageReader, PREFIX_BYTES } from './message-reader.ts';
import type { CallInfo, CallMetadata, GrpcCall, MessageBytes, StreamCall, UnaryCall } from './transport.ts';

export interface CallParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Why a call is not taken from this client, before any of it is read. */
  readonly refusal: (call: GrpcCall, metadata: CallMetadata) => ErrorInfo | undefined;
  /** Of the gateway, whatever door they came by. */
  readonly bytesInFlight: BytesInFlight;
  /** A longer message is refused. */
  readonly message_bytes_max: number;
  /** A client that takes nothing of its answer for so long loses its call. */
  readonly answer_unread_timeout_ms: number;
  /** none, low, medium or high. */
  readonly compressionLevel: string;
  /** Aborted once the server takes nothing new. */
  readonly stopping: AbortSignal;
  /** Called for each frame that is sent. */
  readonly sent: () => void;
}

/** A call without a limit of its own may take as long as it likes; a longer limit is none. */
const TIMEOUT_US_MAX = 1e15;

/** A call as both kinds have it. */
interface OpenCall {
  readonly stream: ServerHttp2Stream;
  readonly header: IncomingHttpHeaders;
  readonly info: CallInfo;
  readonly reply: CallReply;
  readonly account: CallBytes;
  readonly parts: CallParts;
  /** Ends it; false where it was over. */
  end(status: CallStatus): boolean;
}

/** Serves one call to its end. */
export function serveCall(
  call: GrpcCall,
  stream: ServerHttp2Stream,
  header: IncomingHttpHeaders,
  parts: CallParts,
): void {
  const timeoutUs = callTimeoutUs(header) ?? TIMEOUT_US_MAX;
  const open = openCall(call, stream, header, timeoutUs, parts);
  const refusal = parts.refusal(call, open.info.metadata);
  if (Number.isNaN(timeoutUs)) {
    open.end(brokenCall(`Invalid grpc-timeout value "${String(header['grpc-timeout'])}"`));
  } else if (refusal !== undefined) {
    open.end(errorStatus(refusal));
  } else if (call.kind === 'unary') {
    serveUnary(call, open);
  } else {
    serveStream(call, open);
  }
}

/** An answer to what is none of our calls. */
export function refuseUnknown(stream: ServerHttp2Stream, path: string, parts: CallParts): void {
  const reply = replyTo(stream, undefined, createCallBytes(parts.bytesInFlight), parts);
  reply.status(unimplemented(`unknown method ${path}`));
}

function replyTo(
  stream: ServerHttp2Stream,
  compression: AnswerCompression | undefined,
  account: CallBytes,
  { answer_unread_timeout_ms: unread_timeout_ms, sent }: CallParts,
): CallReply {
  return createCallReply(stream, { compression, account, unread_timeout_ms, sent });
}

function openCall(
  call: GrpcCall,
  stream: ServerHttp2Stream,
  header: IncomingHttpHeaders,
  timeoutUs: number,
  parts: CallParts,
): OpenCall {
  const compression = call.compressed
    ? answerCompression(parts.compressionLevel, header['grpc-accept-encoding']?.toString())
    : undefined;
  const account = createCallBytes(parts.bytesInFlight);
  const reply = replyTo(stream, compression, account, parts);
  const leaving = createLeaving();
  let deadline: Timer | undefined;

  const end = (status: CallStatus) => {
    deadline?.cancel();
    return reply.status(status);
  };
  const deadlineUs = timeoutUs < TIMEOUT_US_MAX ? parts.clock.nowUs() + timeoutUs : undefined;
  if (deadlineUs !== undefined) {
    deadline = parts.clock.at(deadlineUs, () => {
      if (end(DEADLINE_EXCEEDED)) leaving.leave('the deadline of the call has passed');
    });
  }
  stream.once('close', () => {
    deadline?.cancel();
    account.close();
    // A stream may have something that runs still, also after its status.
    if (call.kind === 'stream' || !reply.over) leaving.leave('the client has left');
  });
  const info: CallInfo = {
    metadata: callMetadata(header),
    signal: leaving,
    requestId: reply.requestId,
    msLeft: () => (deadlineUs === undefined ? 0 : Math.max(1, Math.ceil((deadlineUs - parts.clock.nowUs()) / 1000))),
  };
  return { stream, header, info, reply, account, parts, end };
}

/** Reads a message as plain bytes. */
function plain(bytes: Uint8Array, isCompressed: boolean, open: OpenCall): Plain | Promise<Plain> {
  if (!isCompressed) return { ok: true, bytes };
  const encoding = open.header['grpc-encoding']?.toString() ?? 'identity';
  return decompressed(bytes, encoding, open.parts.message_bytes_max, open.account);
}

/** Hands what comes to the reader, as long as the gateway has room for it. */
function readChunks({ stream, account, reply, end }: OpenCall, add: (chunk: Buffer) => void): void {
  stream.on('data', (chunk: Buffer) => {
    if (reply.over) return;
    if (account.take(chunk.length)) add(chunk);
    else end(errorStatus(account.refusal()));
  });
}

function serveUnary(call: UnaryCall, open: OpenCall): void {
  const { stream, parts, reply, end } = open;
  const { message_bytes_max: bytes_max } = parts;
  let taken = false;

  const answer = (result: Result<MessageBytes>) => {
    if (reply.over) return;
    if (result.ok) {
      void reply.message(result.value);
      end(OK);
    } else {
      end(errorStatus(result.error));
    }
  };
  const take = (message: Plain) => {
    if (reply.over) return;
    if (!message.ok) {
      end(message.status);
      return;
    }
    try {
      const result = call.handle(message.bytes, open.info);
      if (result instanceof Promise) void result.then(answer, (thrown) => end(thrownStatus(thrown, call, parts)));
      else answer(result);
    } catch (thrown) {
      end(thrownStatus(thrown, call, parts));
    }
  };
  const reader = createMessageReader({
    bytes_max,
    message(bytes, isCompressed) {
      // A second one is none of the protocol's; it is not looked at.
      if (taken) return;
      taken = true;
      const message = plain(bytes, isCompressed, open);
      if (message instanceof Promise) void message.then(take);
      else take(message);
    },
    tooLarge: (bytes) => end(messageTooLarge(bytes, bytes_max)),
  });
  readChunks(open, (chunk) => {
    if (!taken) reader.add(chunk);
  });
  stream.once('end', () => {
    if (taken) return;
    end(reader.partial ? brokenCall('the call ended within its message') : unimplemented('the call has no message'));
  });
}

function serveStream(call: StreamCall, open: OpenCall): void {
  const { stream, parts, reply, account, info, end } = open;
  const { message_bytes_max: bytes_max } = parts;
  const inbox = createMessageInbox(stream, account, end);
  let held = 0;
  const reader = createMessageReader({
    bytes_max,
    message: (bytes, isCompressed) =>
      inbox.push(plain(bytes, isCompressed, open), PREFIX_BYTES + bytes.byteLength, isCompressed),
    tooLarge(bytes) {
      end(messageTooLarge(bytes, bytes_max));
      inbox.end();
    },
  });
  readChunks(open, reader.add);
  stream.once('end', () => {
    if (reader.partial) end(brokenCall('the call ended within a message'));
    inbox.end();
  });
  stream.once('close', inbox.end);
  const bidi = {
    ...info,
    messages: inbox.messages,
    stopping: parts.stopping,
    write: reply.message,
    holds(bytes: number) {
      if (bytes > held) account.add(bytes - held);
      else account.release(held - bytes);
      held = bytes;
    },
    end: () => void end(OK),
    fail: (error: ErrorInfo) => void end(errorStatus(error)),
  };
  const over = (status: CallStatus) => {
    end(status);
    inbox.end();
  };
  void call.handle(bidi).then(
    () => over(OK),
    (thrown) => over(thrownStatus(thrown, call, parts)),
  );
}

function thrownStatus(thrown: unknown, { path }: GrpcCall, { log }: CallParts): CallStatus {
  if (!(thrown instanceof NereidError)) log.error({ err: thrown, path }, 'call handler failed');
  return errorStatus(errorInfo(thrown));
}
