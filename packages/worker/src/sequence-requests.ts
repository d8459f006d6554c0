/** Steps of sequences for models that see their requests one by one. */
import type { Batch, BatchRequest } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { controlTensors } from './sequence-controls.ts';
import { copyStates, type SlotStep, zeroStates } from './slot-states.ts';

/** Of rows that nobody waits for. */
const NEVER = new AbortController().signal;

/**
 * The requests of all rows, with controls among their inputs and with their states. `positions` says which request
 * of the batch each row has: a row without a step has the tensors of another one's.
 */
export function stepRequests(
  signature: ModelSignature,
  { requests }: Pick<Batch, 'requests'>,
  positions: readonly number[],
  rows: readonly (SlotStep | undefined)[],
): BatchRequest[] {
  const { sequence, maxBatchSize } = signature;
  if (sequence === undefined) return [];
  const some = rows.find((step) => step !== undefined);
  const nullStates = some === undefined ? [] : zeroStates(signature, some);
  return positions.flatMap((position, row): BatchRequest[] => {
    const from = requests[position];
    if (from === undefined) return [];
    const { request } = from;
    const step = rows[row];
    const inputs = [...request.inputs, ...controlTensors(sequence, maxBatchSize > 0, [step])];
    if (step === undefined) {
      const flags = { correlationId: 0n, sequenceStart: false, sequenceEnd: false };
      return [{ request: { ...request, id: '', ...flags, parameters: {}, inputs }, signal: NEVER, states: nullStates }];
    }
    return [
      {
        request: { ...request, correlationId: step.correlationId, inputs },
        place: from.place,
        get signal() {
          return from.signal;
        },
        states: copyStates(signature, step),
      },
    ];
  });
}
