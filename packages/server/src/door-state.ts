import { type BytesInFlight, createBytesInFlight } from '@nereid/caller';
import { LIMITS } from '@nereid/config';
import { createSharedMemory, type SharedMemory } from '@nereid/gateway';
import type { ProcessParts } from './process-parts.ts';
import type { ServerOptions } from './server-options.ts';

/** What the doors of one gateway, HTTP and gRPC, share. */
export interface DoorState {
  readonly sharedMemory: SharedMemory;
  readonly bytesInFlight: BytesInFlight;
}

/** Add them before the doors, so that they end after these. */
export async function addDoorState({ lifecycle }: ProcessParts, options: ServerOptions): Promise<DoorState> {
  const sharedMemory = await lifecycle.add(
    'shared memory',
    async () => createSharedMemory(options.allowClientShm ?? true),
    async (memory) => memory.close(),
  );
  return { sharedMemory, bytesInFlight: createBytesInFlight(options.maxBytesInFlight ?? LIMITS.bytes_in_flight_max) };
}
