import type { CallMark } from '@nereid/caller';
import type { DecodedRequest, Outcome } from '@nereid/protocol';
import type { Gateway } from './gateway.ts';
import type { SharedMemory } from './shared-memory.ts';
import { holdSharedOutputs } from './shared-outputs.ts';

/**
 * As `gateway.infer`, for a request whose outputs may go to shared memory: the regions stay until its
 * outcome, and what was put there is without data in the outcome. Never rejects.
 */
export function inferShared(
  gateway: Pick<Gateway, 'infer'>,
  memory: SharedMemory,
  { request, outputs }: Pick<DecodedRequest, 'request' | 'outputs'>,
  signal: AbortSignal | undefined,
  mark: CallMark,
): Promise<Outcome> {
  const held = holdSharedOutputs(memory, outputs);
  if (!held.ok) return Promise.resolve(held);
  const places = held.value;
  if (places === undefined) return gateway.infer(request, signal, 0, mark);
  return gateway.infer(request, signal, 0, mark).then((outcome) => {
    const placed = outcome.ok ? places.place(outcome.response) : outcome;
    places.release();
    return placed;
  });
}
