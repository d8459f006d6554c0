import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { StreamedAnswer } from '@nereid/caller';
import { endAfterAnswers } from './current-answer.ts';
import { answerStatus, type GenerateReply, generateAnswer, isEndAlone, isUnavailable } from './generate-answer.ts';
import { addBytes, dropBytes } from './request-bytes.ts';

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
  { reply, account, signal, closing, fail }: GenerateReply,
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
    if (signal.aborted || raw.destroyed) return;
    const event = Buffer.concat([PREFIX, answer.json, END]);
    if (raw.write(event)) continue;
    addBytes(account, event.byteLength);
    if (!(await isRead(raw, signal))) return;
    dropBytes(account);
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

/**
 * Waits until the client has read what was written; false where it has left, of which a response behind
 * others of its connection has no event of its own.
 */
function isRead(raw: ServerResponse, left: AbortSignal): Promise<boolean> {
  return once(raw, 'drain', { signal: left }).then(
    () => true,
    () => false,
  );
}
