/**
 * The requests of a batch that has failed, each tried alone once, so that one bad request does not take
 * the others with it. A model that says itself which of its requests fail has not failed the batch.
 */
import type { BatchRequest, BatchResult } from '@nereid/backends';
import { CANCELLED, errorInfo, type ResponseTimes } from '@nereid/protocol';
import type { OpenedBatch } from './batch-frame.ts';
import { checkedExecute } from './checked-execute.ts';
import { compactOutcomes } from './compact-outcomes.ts';
import type { BatchCancels } from './instance-cancels.ts';
import type { RunOutcome } from './instance-messages.ts';
import { splitJoined, splitTensor } from './join-split.ts';
import { createResponseClock, sumResponseTimes } from './response-times.ts';
import type { LoadedModel } from './run-batch.ts';
import { type ChunkLine, sendStreams, wholeOutcome } from './send-streams.ts';
import { sharedNowNs } from './shared-now.ts';

export interface SingleRuns {
  /** One per request, in order; of a decoupled model how each stream ended. */
  readonly outcomes: readonly RunOutcome[];
  /** Of a decoupled model. */
  readonly responses: ResponseTimes | undefined;
}

/** Runs them one after the other, but those that are cancelled by then. `requests` is empty where the model needs none. */
export async function runSingly(
  model: LoadedModel,
  opened: OpenedBatch,
  requests: readonly BatchRequest[],
  cancels: BatchCancels,
  line: ChunkLine,
): Promise<SingleRuns> {
  const { signature, instance } = model;
  const inputs = opened.joined.map((input) => splitJoined(input, opened.rows));
  const outcomes: RunOutcome[] = [];
  let responses: ResponseTimes | undefined;
  for (const [position, rows] of opened.rows.entries()) {
    if (cancels.isCancelled(position)) {
      outcomes.push({ ok: false, error: CANCELLED });
      continue;
    }
    const times = createResponseClock(sharedNowNs());
    const request = requests[position];
    try {
      const result = await checkedExecute(signature, instance, {
        requests: request === undefined ? [] : [request],
        rows: [rows],
        joined: inputs.flatMap((parts) => parts[position] ?? []),
        wantedOutputs: opened.wantedOutputs,
      });
      outcomes.push(
        ...(signature.decoupled && result.kind === 'each'
          ? await sendStreams(opened.sequence, result.outcomes, cancels, line, times, position)
          : [onlyOutcome(result, rows)]),
      );
    } catch (failure) {
      outcomes.push({ ok: false, error: errorInfo(failure) });
      times.other(0, 'fail', sharedNowNs() - times.startNs);
    }
    if (signature.decoupled) responses = sumResponseTimes(responses, times.times());
  }
  return { outcomes, responses };
}

/** What a model returned for one request may still be its own, and written to in the next execution: it is copied. */
function onlyOutcome(result: BatchResult, rows: number): RunOutcome {
  if (result.kind === 'joined') {
    return { ok: true, parameters: {}, outputs: result.outputs.flatMap((output) => splitTensor(output, [rows])) };
  }
  const whole = wholeOutcome(result.outcomes[0]);
  return compactOutcomes([whole]).compact[0] ?? whole;
}
