import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { CallBytes } from './call-bytes.ts';
import { brokenCall, type CallStatus, OK, statusTrailers } from './call-status.ts';
import { ACCEPTED_ENCODINGS, type AnswerCompression, compressed } from './message-compression.ts';
import { framed, whole } from './message-frame.ts';
import { createPieceWriter } from './piece-writer.ts';
import type { MessageBytes } from './transport.ts';

const CONTENT_TYPE = 'application/grpc';
const REQUEST_ID = 'nereid-request-id';
/** Trailers come behind the messages; Node would add a date. */
const WITH_TRAILERS = { waitForTrailers: true, sendDate: false };
const WITHOUT_MESSAGES = { endStream: true, sendDate: false };

/**
 * The answer to one call. It is *open* until its status is given, then *over*: what is written after
 * that is dropped. Messages that are compressed by a thread keep their order.
 */
export interface CallReply {
  /** Gives a promise where the client does not keep up; it resolves when it does, or has left. */
  message(message: MessageBytes): Promise<void> | undefined;
  /** To be told with the answer, if that has not begun. */
  requestId(id: string): void;
  /** Ends the call after the messages before. Only the first counts; false for another. */
  status(status: CallStatus): boolean;
  readonly over: boolean;
}

export interface CallReplyOptions {
  readonly compression: AnswerCompression | undefined;
  readonly account: CallBytes;
  /** A client that takes nothing of what waits for it for so long loses its call. */
  readonly unread_timeout_ms: number;
  /** Called for each frame. */
  readonly sent: () => void;
}

export function createCallReply(
  stream: ServerHttp2Stream,
  { compression, account, unread_timeout_ms, sent }: CallReplyOptions,
): CallReply {
  let over = false;
  let finished = false;
  let requestId = '';
  /** What must be written before the next message, where a thread compresses it. */
  let queue: Promise<void> | undefined;
  const writer = createPieceWriter(stream, account, unread_timeout_ms);

  const begin = () => {
    const header: OutgoingHttpHeaders = {
      ':status': 200,
      'content-type': CONTENT_TYPE,
      'grpc-accept-encoding': ACCEPTED_ENCODINGS,
    };
    if (requestId !== '') header[REQUEST_ID] = requestId;
    if (compression !== undefined) header['grpc-encoding'] = compression.encoding;
    stream.respond(header, WITH_TRAILERS);
  };

  const write = (message: MessageBytes, isCompressed: boolean): Promise<void> | undefined => {
    if (isGone(stream)) return undefined;
    sent();
    if (!stream.headersSent) begin();
    return writer.write(framed(message, isCompressed));
  };

  const finish = (status: CallStatus) => {
    if (finished || isGone(stream)) return;
    finished = true;
    sent();
    if (!stream.headersSent && status === OK) begin();
    if (stream.headersSent) {
      stream.once('wantTrailers', () => {
        if (isGone(stream)) return;
        stream.sendTrailers(statusTrailers(status));
        takeNoMore(stream);
      });
      writer.afterAll(() => {
        if (!isGone(stream)) stream.end();
      });
    } else {
      const named = requestId === '' ? {} : { [REQUEST_ID]: requestId };
      const header = { ':status': 200, 'content-type': CONTENT_TYPE, ...named, ...statusTrailers(status) };
      stream.respond(header, WITHOUT_MESSAGES);
      takeNoMore(stream);
    }
  };

  /** In the order of the calls; a failure to compress, which only a lack of memory explains, ends the call. */
  const enqueue = (step: () => unknown): Promise<void> => {
    queue = (queue ?? Promise.resolve()).then(step).then(
      () => {},
      () => finish(brokenCall('the answer could not be compressed')),
    );
    return queue;
  };

  return {
    message(message) {
      if (over) return undefined;
      if (compression === undefined) return write(message, false);
      const packed = compressed(whole(message), compression);
      if (packed instanceof Uint8Array && queue === undefined) return write(packed, true);
      return enqueue(async () => write(await packed, true));
    },
    requestId(id) {
      requestId = id;
    },
    status(status) {
      if (over) return false;
      over = true;
      if (queue === undefined) finish(status);
      else void enqueue(() => finish(status));
      return true;
    },
    get over() {
      return over;
    },
  };
}

function isGone(stream: ServerHttp2Stream): boolean {
  return stream.destroyed || stream.closed;
}

/** After the status: what the client sends still is dropped, and it is told to stop. Mostly it has done so. */
export function takeNoMore(stream: ServerHttp2Stream): void {
  stream.resume();
  if (stream.readableEnded) return;
  setImmediate(() => {
    if (!isGone(stream) && !stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
  });
}
