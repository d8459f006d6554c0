import type { Tensor } from '@nereid/protocol';
import type { RunOutcome } from './instance-messages.ts';

/** Copies all outputs into one buffer: a cloned view would take its whole buffer along. */
export function compactOutcomes(outcomes: readonly RunOutcome[]) {
  let size = 0;
  for (const outcome of outcomes) if (outcome.ok) for (const { data } of outcome.outputs) size += data.byteLength;
  const bytes = new Uint8Array(size);
  let offset = 0;
  const move = (tensor: Tensor): Tensor => {
    bytes.set(tensor.data, offset);
    const data = bytes.subarray(offset, offset + tensor.data.byteLength);
    offset += tensor.data.byteLength;
    return { ...tensor, data };
  };
  const compact = outcomes.map((outcome) =>
    outcome.ok ? { ...outcome, outputs: outcome.outputs.map(move) } : outcome,
  );
  return { compact, buffer: bytes.buffer };
}
