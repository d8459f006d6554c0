import type { Epoch, ProcessId } from '@nereid/protocol';

export type Role = 'gateway' | 'coordinator' | 'worker';

export interface ProcessRecord {
  readonly id: ProcessId;
  readonly role: Role;
  readonly draining: boolean;
  /** True of a coordinator that has not yet taken the models that fall to it at its start; else absent. */
  readonly starting?: boolean;
  /** Names the place where it finds blobs as files; absent where it finds none. Without blanks. */
  readonly blobHost?: string;
}

/** Says what changed; look it up for the new value. */
export type DirectoryChange =
  | { readonly type: 'process'; readonly id: ProcessId }
  | { readonly type: 'owner'; readonly model: string }
  | { readonly type: 'record'; readonly model: string };

/**
 * Who lives, who owns which model, and what each owner says of its models (`R`, see ModelRecord).
 * Reads are local beliefs and never wait. No safety rests on them: a stale belief is refused by
 * whoever holds the thing.
 */
export interface Directory<R> {
  /** Registers, and renews the registration until `leave`. Calling it again changes the record. */
  register(process: ProcessRecord): Promise<void>;
  /**
   * True while nobody can hold this process for gone, by its own clock: its last good renewal was
   * sent less than the registration's time minus the margin ago. A worker asks before each batch of
   * messages; after false it must go on under a new id (docs/protocol.md R10).
   */
  registered(id: ProcessId): boolean;
  leave(id: ProcessId): Promise<void>;
  processes(role: Role): readonly ProcessRecord[];
  /** Takes the model's lease, which is renewed until `release`, under a new epoch, above `above` if given; undefined while another holds it. */
  acquire(model: string, owner: ProcessId, above?: number): Promise<Epoch | undefined>;
  release(model: string, owner: ProcessId): Promise<void>;
  /** True while the lease is surely held, by the owner's own clock; asked before each dispatch (R5). */
  holds(model: string, owner: ProcessId): boolean;
  owner(model: string): Epoch | undefined;
  publish(model: string, record: R): Promise<void>;
  withdraw(model: string): Promise<void>;
  record(model: string): R | undefined;
  records(): readonly R[];
  /** Calls back after each change, never inside the call that made it. Returns how to stop. */
  watch(listener: (change: DirectoryChange) => void): () => void;
}
