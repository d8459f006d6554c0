/**
 * ModelStreamInfer: requests in and answers out over one call (stream_infer_handler.cc; decoupled_models.md).
 *
 * A stream is *open* until the client has sent its last message, then *half-closed*, and *over* once it has its status:
 * OK when a half-closed one has nothing in flight, else what ended it. Then whatever is in flight is cancelled, and what
 * comes of it is dropped. Requests go to their models as they are read, at most so many at a time; stream-order.ts says
 * when their answers are written. While the client does not read its answers, its requests are not read either.
 *
 * Errors are messages and leave the stream open. Where the client asked for it (`triton_grpc_error`), the first one of a
 * model is the status of the call; one of a request that was refused unsent is a message all the same.
 */
import { setMaxListeners } from 'node:events';
import type { CallMark } from '@nereid/caller';
import { CANCELLED, errorInfo, NereidError, type Outcome } from '@nereid/protocol';
import { answerOutputs } from '../answer-outputs.ts';
import type { CallContext } from './call-context.ts';
import { SHUTTING_DOWN } from './call-status.ts';
import type { InferRequestContext } from './infer-request.ts';
import { messageLength } from './message-frame.ts';
import {
  type AskedInfer,
  endMessage,
  outcomeMessage,
  type ReadInfer,
  readInfer,
  refusalMessage,
} from './stream-messages.ts';
import { createStreamOrder, type StreamOrder, type StreamOrderLimits } from './stream-order.ts';
import type { BidiCall, MessageBytes } from './transport.ts';
import { unreadCall } from './unread-call.ts';

export interface StreamInferContext extends Pick<CallContext, 'gateway' | 'log'>, InferRequestContext {
  readonly limits: StreamOrderLimits;
}

/** Metadata that asks for errors of models as the status of the call. */
const ERRORS_AS_STATUS = 'triton_grpc_error';

interface InferStream {
  readonly context: StreamInferContext;
  readonly call: BidiCall;
  readonly order: StreamOrder<MessageBytes>;
  /** Cancels what is in flight. */
  readonly leaving: AbortController;
  readonly errorsAsStatus: boolean;
  halfClosed: boolean;
  over: boolean;
  /** The client's reading, while it does not keep up. */
  unread: Promise<void> | undefined;
  /** Wakes the reader of messages where it waits for room. */
  wake: () => void;
  /** Resolves the call's promise. */
  readonly done: () => void;
}

/** Resolves when the stream is over. */
export function streamInfer(context: StreamInferContext, call: BidiCall): Promise<void> {
  return new Promise((done) => {
    const leaving = new AbortController();
    // Each request in flight has its listener.
    setMaxListeners(0, leaving.signal);
    const stream: InferStream = {
      context,
      call,
      order: createStreamOrder(context.limits),
      leaving,
      errorsAsStatus: call.metadata.get(ERRORS_AS_STATUS) === 'true',
      halfClosed: false,
      over: false,
      unread: undefined,
      wake: () => {},
      done,
    };
    call.signal.addEventListener('abort', () => finish(stream, () => call.fail(CANCELLED)));
    // That signal is the server's: no listener may outlive its stream.
    call.stopping.addEventListener('abort', () => settle(stream), { signal: leaving.signal });
    if (call.signal.aborted) finish(stream, () => call.fail(CANCELLED));
    readMessages(stream).catch((thrown: unknown) => broken(stream, thrown));
  });
}

function finish(stream: InferStream, end: () => void): void {
  if (stream.over) return;
  stream.over = true;
  end();
  stream.leaving.abort();
  stream.wake();
  stream.done();
}

/** What is thrown past a request ends its stream: nobody would hear of it otherwise. */
function broken(stream: InferStream, thrown: unknown): void {
  if (!(thrown instanceof NereidError)) stream.context.log.error({ err: thrown }, 'a stream of requests failed');
  finish(stream, () => stream.call.fail(errorInfo(thrown)));
}

/** Ends a stream that waits for nothing more. */
function settle(stream: InferStream): void {
  const { call, order } = stream;
  if (!order.idle) return;
  if (stream.halfClosed) finish(stream, () => call.end());
  else if (call.stopping.aborted) finish(stream, () => call.fail(SHUTTING_DOWN));
}

async function readMessages(stream: InferStream): Promise<void> {
  const { order } = stream;
  const messages = stream.call.messages[Symbol.asyncIterator]();
  settle(stream);
  while (!stream.over) {
    if (order.full || stream.unread !== undefined) {
      await new Promise<void>((resolve) => {
        stream.wake = resolve;
      });
      continue;
    }
    const step = await messages.next();
    if (stream.over) return;
    if (step.done === true) break;
    takeMessage(stream, step.value);
  }
  stream.halfClosed = true;
  settle(stream);
}

/** Throws INVALID_ARG for what is no message of this call. */
function takeMessage(stream: InferStream, message: Uint8Array): void {
  const { context, call, order } = stream;
  const asked = readInfer(context, call.metadata, message);
  const mark: CallMark = { door: 'grpc', id: '' };
  const request = order.begin(asked.decoupled ? 'as-produced' : 'in-turn', message.byteLength);
  call.holds(order.bytes);
  const { read } = asked;
  const refusal = call.stopping.aborted
    ? SHUTTING_DOWN
    : read.ok
      ? context.gateway.refusal(read.value.request)
      : read.error;
  if (refusal !== null) {
    context.gateway.refused(mark, unreadCall(asked, call.metadata), refusal);
    context.log.debug({ request_id: asked.id, model: asked.modelName, err: refusal }, 'request of a stream refused');
    if (read.ok) read.value.shared?.release();
    letGo(stream, request, refusalMessage(asked.id, refusal), true);
  } else if (read.ok) {
    const answer = asked.decoupled ? answerMany : answerOne;
    answer(stream, request, asked, read.value, mark)
      .catch((thrown: unknown) => broken(stream, thrown))
      .finally(() => read.value.shared?.release());
  }
}

async function answerOne(
  stream: InferStream,
  request: number,
  asked: AskedInfer,
  read: ReadInfer,
  mark: CallMark,
): Promise<void> {
  const { context, call, leaving } = stream;
  const outcome = await context.gateway.infer(read.request, leaving.signal, call.msLeft(), mark);
  takeOutcome(stream, request, asked, asAsked(read, outcome), true);
}

async function answerMany(
  stream: InferStream,
  request: number,
  asked: AskedInfer,
  read: ReadInfer,
  mark: CallMark,
): Promise<void> {
  const { context, call, leaving } = stream;
  const { gateway, bytesInFlight } = context;
  const answers = gateway.inferStream(read.request, leaving.signal, call.msLeft(), bytesInFlight, mark);
  for await (const { outcome, last } of answers) {
    const isEnd = last && outcome.ok && outcome.response.outputs.length === 0;
    if (!isEnd) takeOutcome(stream, request, asked, asAsked(read, outcome), last);
    else if (read.emptyFinalResponse) letGo(stream, request, endMessage(asked), true);
    else write(stream, stream.order.end(request));
    // What the model sends meanwhile waits in its own queue, within that queue's bounds.
    while (stream.unread !== undefined && !stream.over) await stream.unread;
  }
}

/** An answer with its outputs in the form and the place that the request names. */
function asAsked({ outputs, model, shared }: ReadInfer, outcome: Outcome): Outcome {
  return answerOutputs(shared === undefined ? outcome : shared.place(outcome), outputs, model);
}

function takeOutcome(stream: InferStream, request: number, asked: AskedInfer, outcome: Outcome, last: boolean): void {
  if (stream.over) return;
  const { message, error, refused } = outcomeMessage(asked, outcome, last);
  if (error !== undefined) {
    stream.context.log.debug(
      { request_id: asked.id, model: asked.modelName, err: error },
      'request of a stream failed',
    );
  }
  if (error !== undefined && refused === undefined && stream.errorsAsStatus)
    finish(stream, () => stream.call.fail(error));
  else letGo(stream, request, message, last);
}

function letGo(stream: InferStream, request: number, message: MessageBytes, last: boolean): void {
  write(stream, stream.order.answer(request, message, messageLength(message), last));
}

/** Writes what is let go by the order, and sees what that changes. */
function write(stream: InferStream, messages: readonly MessageBytes[]): void {
  for (const message of messages) {
    if (stream.over) return;
    const unread = stream.call.write(message);
    if (unread === undefined) continue;
    stream.unread = unread;
    void unread.then(() => {
      // A later one that is not read either takes its place.
      if (stream.unread !== unread) return;
      stream.unread = undefined;
      stream.wake();
    });
  }
  stream.call.holds(stream.order.bytes);
  settle(stream);
  stream.wake();
}
