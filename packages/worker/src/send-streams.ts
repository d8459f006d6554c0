/** Answers of a decoupled model on their way out of an instance's thread or process, one by one as they come. */
import type { BatchResult } from '@nereid/backends';
import { CANCELLED, errorInfo } from '@nereid/protocol';
import type { BatchCancels } from './instance-cancels.ts';
import type { RunOutcome, StreamChunk } from './instance-messages.ts';
import type { ResponseClock } from './response-times.ts';
import { sharedNowNs } from './shared-now.ts';

type BackendOutcome = Extract<BatchResult, { kind: 'each' }>['outcomes'][number];
type BackendStream = Extract<BackendOutcome, { [Symbol.asyncIterator]: unknown }>;

/** Where chunks go. */
export interface ChunkLine {
  send(sequence: number, chunk: StreamChunk): void;
  /** Undefined where a chunk may be sent now, else resolves when it is worth to ask again. */
  room(): Promise<void> | undefined;
}

/** The end of a stream whose answers are all sent. */
const END: RunOutcome = { ok: true, parameters: {}, outputs: [] };
/** The same where the request is to run once more: its stream goes on then. */
const AGAIN: RunOutcome = { ...END, again: true };

/** Whether a request may be answered before the batch is over. */
export function hasStreams(result: BatchResult): result is Extract<BatchResult, { kind: 'each' }> {
  return result.kind === 'each' && result.outcomes.some((outcome) => isStream(outcome) || outcome.again === true);
}

/** An outcome of a model that is not decoupled, for which a stream is none. */
export function wholeOutcome(outcome: BackendOutcome | undefined): RunOutcome {
  if (outcome !== undefined && !isStream(outcome)) return outcome.again === true ? AGAIN : plainOutcome(outcome);
  const message = 'the model answered one request with a stream, which its configuration does not say';
  return { ok: false, error: { code: 'INTERNAL', message } };
}

function isStream(outcome: BackendOutcome): outcome is BackendStream {
  return Symbol.asyncIterator in outcome;
}

/** Nothing of it is an answer. */
function isEmpty(outcome: RunOutcome): boolean {
  return outcome.ok && outcome.outputs.length === 0;
}

function plainOutcome(outcome: Exclude<BackendOutcome, BackendStream>): RunOutcome {
  if (!outcome.ok) return outcome;
  return { ok: true, parameters: outcome.response.parameters, outputs: outcome.response.outputs };
}

/**
 * Sends the answers of all of a batch's streams side by side, and at once those that came whole.
 * Resolves when all have ended, with how each did: END, AGAIN, or the error that ended it. Never rejects.
 * `times` is told how long each answer took. `first` is the position of the first in its batch.
 */
export function sendStreams(
  sequence: number,
  outcomes: readonly BackendOutcome[],
  cancels: BatchCancels,
  line: ChunkLine,
  times: ResponseClock,
  first = 0,
): Promise<RunOutcome[]> {
  return Promise.all(
    outcomes.map(async (outcome, index) => {
      const position = first + index;
      const send = (each: RunOutcome, last: boolean) => line.send(sequence, { position, outcome: each, last });
      if (!isStream(outcome)) {
        const whole = plainOutcome(outcome);
        const givenNs = sharedNowNs();
        if (outcome.again === true && isEmpty(whole)) return AGAIN;
        send(whole, outcome.again !== true);
        tell(times, 0, whole, givenNs - times.startNs, sharedNowNs() - givenNs);
        if (outcome.again === true) return AGAIN;
        return whole.ok ? END : whole;
      }
      const end = await sendStream(outcome, cancels.signal(position), line, (each) => send(each, false), times);
      if (end !== AGAIN) send(end, true);
      return end;
    }),
  );
}

function tell(times: ResponseClock, index: number, given: RunOutcome, inferNs: number, outputNs: number): void {
  if (given.ok) times.answered(index, inferNs, outputNs);
  else times.other(index, 'fail', inferNs);
}

/** Passes on one stream; how it ended. A cancelled one has ended once its iterator has. */
async function sendStream(
  stream: BackendStream,
  signal: AbortSignal,
  line: ChunkLine,
  send: (outcome: RunOutcome) => void,
  times: ResponseClock,
): Promise<RunOutcome> {
  let index = 0;
  /** The end of the answer before, or since when it is left. */
  let sinceNs = times.startNs;
  let leaving: Promise<void> | undefined;
  let leave = () => {};
  let again = false;
  try {
    const iterator = stream[Symbol.asyncIterator]();
    leave = () => {
      if (leaving !== undefined) return;
      sinceNs = sharedNowNs();
      leaving = returned(iterator);
    };
    signal.addEventListener('abort', leave);
    if (signal.aborted) leave();
    for (let step = await iterator.next(); !step.done && !signal.aborted; step = await iterator.next()) {
      const inferNs = sharedNowNs() - sinceNs;
      for (let room = line.room(); room !== undefined; room = line.room()) await room;
      if (signal.aborted) break;
      const given = plainOutcome(step.value);
      again ||= step.value.again === true;
      if (step.value.again === true && isEmpty(given)) continue;
      // What waits for its reader counts for neither.
      const outputStartNs = sharedNowNs();
      send(given);
      sinceNs = sharedNowNs();
      tell(times, index++, given, inferNs, sinceNs - outputStartNs);
    }
    await leaving;
    times.other(index, signal.aborted ? 'cancel' : 'empty', sharedNowNs() - sinceNs);
    if (signal.aborted) return { ok: false, error: CANCELLED };
    return again ? AGAIN : END;
  } catch (failure) {
    const failedNs = sharedNowNs() - sinceNs;
    leave();
    await leaving;
    if (signal.aborted) times.other(index, 'cancel', sharedNowNs() - sinceNs);
    else times.other(index, 'fail', failedNs);
    return { ok: false, error: signal.aborted ? CANCELLED : errorInfo(failure) };
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** Lets a model clean up; what it throws on its way out is for nobody. */
async function returned(iterator: AsyncIterator<unknown>): Promise<void> {
  await Promise.allSettled([iterator.return?.()]);
}
