import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { StreamedAnswer } from '../answer-queue.ts';
import { endAfterAnswers } from './current-answer.ts';
import { answerStatus, type GenerateReply, generateAnswer, isEndAlone, isUnavailable } from './generate-answer.ts';

const CONTENT_TYPE = 'text/event-stream; charset=utf-8';
const PREFIX = Buffer.from('data: ');
const END = Buffer.from('\n\n');

/**
 * Sends each answer as a server-sent event, when it comes: `data: {json}` and an empty line, errors
 * as `data: {"error": text}`, and nothing at the end. The status is that of the first answer, 200
 * where there is none; a stream that could not begin at all is refused like any request.
 *
 * An answer is taken from the queue once the client has read those before it, so what a slow client
 * leaves waits within the queue's bounds, at which the stream is cancelled. One that leaves cancels it
 * by its signal.
 */
export async function sendEvents(
  { reply, closing, fail }: GenerateReply,
  answers: AsyncIterableIterator<StreamedAnswer>,
): Promise<void> {
  let raw: ServerResponse | undefined;
  for await (const streamed of answers) {
    if (isEndAlone(streamed)) break;
    if (raw === undefined && isUnavailable(streamed.outcome)) {
      fail(streamed.outcome.error);
      return;
    }
    const answer = generateAnswer(streamed.outcome);
    raw ??= begin(reply, closing, answerStatus(answer));
    // The client has left.
    if (raw.destroyed) return;
    if (!raw.write(Buffer.concat([PREFIX, answer.json, END]))) await readOn(raw);
  }
  raw ??= begin(reply, closing, 200);
  // Its header may have promised to keep the connection, before the server began to stop.
  if (closing() && raw.socket !== null) endAfterAnswers(raw.socket);
  raw.end();
}

function begin(reply: GenerateReply['reply'], closing: () => boolean, status: number): ServerResponse {
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  raw.writeHead(status, ['Content-Type', CONTENT_TYPE, 'Cache-Control', 'no-cache']);
  return raw;
}

/** Waits until the client has read what was written, or has left. */
async function readOn(raw: ServerResponse): Promise<void> {
  const waiting = new AbortController();
  const { signal } = waiting;
  try {
    await Promise.race([once(raw, 'drain', { signal }), once(raw, 'close', { signal })]);
  } finally {
    waiting.abort();
  }
}
