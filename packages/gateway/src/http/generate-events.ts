import type { StreamedAnswer } from '@nereid/caller';
import type { AnswerStream } from './answer-stream.ts';
import { openEventStream } from './event-stream.ts';
import { answerStatus, type GenerateReply, generateAnswer, isEndAlone, isUnavailable } from './generate-answer.ts';

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
export async function sendEvents(given: GenerateReply, answers: AsyncIterableIterator<StreamedAnswer>): Promise<void> {
  let stream: AnswerStream | undefined;
  for await (const streamed of answers) {
    if (isEndAlone(streamed)) break;
    if (stream === undefined && isUnavailable(streamed.outcome)) {
      given.fail(streamed.outcome.error);
      return;
    }
    const answer = generateAnswer(streamed.outcome);
    stream ??= openEventStream(given, answerStatus(answer));
    if (!(await stream.write(Buffer.concat([PREFIX, answer.json, END])))) return;
  }
  stream ??= openEventStream(given, 200);
  stream.end();
}
