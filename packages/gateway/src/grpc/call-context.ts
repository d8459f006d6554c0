import type { BytesInFlight } from '@nereid/caller';
import type { Log } from '@nereid/runtime';
import type { Gateway } from '../gateway.ts';
import type { ForwardsHeader } from '../header-forward.ts';
import type { Services } from '../services.ts';
import type { SharedMemory } from '../shared-memory.ts';

/** What the calls of every area are made from; an area with a service of its own adds it to Services. */
export interface CallContext {
  readonly gateway: Gateway;
  readonly services: Services;
  /** The door takes connections from its own machine alone. */
  readonly onLoopback: boolean;
  readonly sharedMemory: SharedMemory;
  /** For what a call holds beside its messages. */
  readonly bytesInFlight: BytesInFlight;
  readonly log: Log;
  /** Name and version that the server's metadata tell. */
  readonly serverId: string;
  readonly version: string;
  /** Metadata that models get as parameters; undefined for none. */
  readonly forwards: ForwardsHeader | undefined;
}
