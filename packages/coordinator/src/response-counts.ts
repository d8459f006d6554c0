import {
  type BatchTiming,
  type DoneEntry,
  type OtherResponse,
  RESPONSES_COUNTED_MAX,
  type ResponseTimes,
} from '@nereid/protocol';

/** Answers at one position in the streams of a decoupled model (infer_stats.cc, UpdateResponse…). */
export interface ResponseCounts {
  /** Answers and ends, but for cancels. */
  infer: number;
  inferNs: number;
  /** Answers with outputs. */
  success: number;
  outputNs: number;
  successNs: number;
  fail: number;
  failNs: number;
  empty: number;
  emptyNs: number;
  cancel: number;
  cancelNs: number;
}

/** The counts at that position, from 0 where there were none yet; undefined beyond those that are counted. */
function countsAt(responses: ResponseCounts[], index: number): ResponseCounts | undefined {
  if (index >= RESPONSES_COUNTED_MAX) return undefined;
  // Streams have no gaps, but an end may be told of a stream whose answers others counted.
  while (responses.length <= index) responses.push(noResponses());
  return responses[index];
}

export function noResponses(): ResponseCounts {
  return {
    infer: 0,
    inferNs: 0,
    success: 0,
    outputNs: 0,
    successNs: 0,
    fail: 0,
    failNs: 0,
    empty: 0,
    emptyNs: 0,
    cancel: 0,
    cancelNs: 0,
  };
}

/** Counts the answers of a batch whose worker told of each. */
export function countResponses(responses: ResponseCounts[], { answers, others }: ResponseTimes): void {
  for (const [index, { count, inferNs, outputNs }] of answers.entries()) {
    countAnswers(responses, index, count, Math.trunc(inferNs), Math.trunc(outputNs));
  }
  for (const other of others) countOther(responses, other);
}

/** Counts the answers of a batch in which each request got one. */
export function countWholeAnswers(
  responses: ResponseCounts[],
  entries: readonly DoneEntry[],
  { inferNs, outputNs }: BatchTiming,
): void {
  for (const { result } of entries) {
    if (result === 'ok') countAnswers(responses, 0, 1, Math.trunc(inferNs), Math.trunc(outputNs));
    else if (result === 'error') countOther(responses, { index: 0, how: 'fail', ns: inferNs });
    else if (result === 'cancelled') countOther(responses, { index: 0, how: 'cancel', ns: 0 });
  }
}

function countAnswers(
  responses: ResponseCounts[],
  index: number,
  count: number,
  inferNs: number,
  outputNs: number,
): void {
  const counts = count === 0 ? undefined : countsAt(responses, index);
  if (counts === undefined) return;
  counts.infer += count;
  counts.inferNs += inferNs;
  counts.success += count;
  counts.outputNs += outputNs;
  counts.successNs += inferNs + outputNs;
}

function countOther(responses: ResponseCounts[], { index, how, ns }: OtherResponse): void {
  const counts = countsAt(responses, index);
  if (counts === undefined) return;
  const wholeNs = Math.trunc(ns);
  if (how === 'cancel') {
    counts.cancel++;
    counts.cancelNs += wholeNs;
    return;
  }
  counts.infer++;
  counts.inferNs += wholeNs;
  if (how === 'fail') {
    counts.fail++;
    counts.failNs += wholeNs;
  } else {
    counts.empty++;
    counts.emptyNs += wholeNs;
  }
}
