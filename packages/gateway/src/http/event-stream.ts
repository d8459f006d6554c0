import { type AnswerReader, type AnswerStream, openAnswerStream } from './answer-stream.ts';

const CONTENT_TYPE = 'text/event-stream; charset=utf-8';

/** Begins an answer of server-sent events; what its client has not read counts in the reader's account. */
export function openEventStream(
  reader: AnswerReader & Required<Pick<AnswerReader, 'account'>>,
  status: number,
): AnswerStream {
  return openAnswerStream(reader, CONTENT_TYPE, [], status);
}
