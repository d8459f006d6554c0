import type { StreamedAnswer } from '@nereid/caller';
import type { Outcome } from '@nereid/protocol';
import { answerStatus, type GenerateReply, generateAnswer, isEndAlone, isUnavailable } from './generate-answer.ts';
import { addBytes } from './request-bytes.ts';

const NOT_ONE = Buffer.from(
  JSON.stringify({
    error:
      'generate expects model to produce exactly 1 response, ' +
      'use generate stream for model that generates various number of responses',
  }),
);

/**
 * Sends the one answer of the model. Of none, or of more than one, the client is told in the body:
 * the status is that of the first answer, 200 where there is none (http_server.cc). At the second
 * answer the model is cancelled.
 */
export async function sendOnlyAnswer(
  { reply, account, closing, fail }: GenerateReply,
  answers: AsyncIterableIterator<StreamedAnswer>,
): Promise<void> {
  let first: Outcome | undefined;
  let several = false;
  for await (const answer of answers) {
    if (isEndAlone(answer)) break;
    const { outcome } = answer;
    if (isUnavailable(outcome)) {
      fail(outcome.error);
      return;
    }
    several = first !== undefined;
    first ??= outcome;
    if (several) break;
  }
  const answer = first === undefined ? undefined : generateAnswer(first);
  if (answer?.error !== undefined && !several) {
    fail(answer.error, answerStatus(answer));
    return;
  }
  const body = answer === undefined || several ? NOT_ONE : answer.json;
  addBytes(account, body.byteLength);
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  // In chunks, as Triton: without a length.
  raw.writeHead(answerStatus(answer ?? { error: undefined }), ['Content-Type', 'application/json']);
  raw.end(body);
}
