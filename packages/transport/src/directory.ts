import type { Epoch, ProcessId } from '@nereid/protocol';
import type { SharedValue } from './directory-values.ts';

/** What a process can be. */
export type MainRole = 'gateway' | 'coordinator' | 'worker';
/** A caller is a part of a coordinator or a worker that calls models by itself: it has a mailbox, to which answers come. */
export type Role = MainRole | 'caller';

export interface ProcessRecord {
  readonly id: ProcessId;
  readonly role: Role;
  readonly draining: boolean;
  /** True of a coordinator that has not yet taken the models that fall to it at its start; else absent. */
  readonly starting?: boolean;
  /** Names the place where it finds blobs as files; absent where it finds none. Without blanks. */
  readonly blobHost?: string;
  /** Of a worker: what models can be placed on it by. */
  readonly hosting?: HostingRecord;
}

/** What a worker tells of itself beside the models that it holds; beliefs about it may lag by seconds. */
export interface HostingRecord {
  readonly labels: Readonly<Record<string, string>>;
  readonly gpus: number;
  readonly memory: readonly HostingMemory[];
  /** Loads of models that began, models that went for others, and loads that could not fit, since it started. */
  readonly loads: number;
  readonly evictions: number;
  readonly refusals: number;
}

/** What models take of a device, in bytes. */
export interface HostingMemory {
  /** `cpu`, `gpu0` … */
  readonly device: string;
  /** Null: without a bound. */
  readonly budget: number | null;
  readonly used: number;
  /** Of that: what does not go for others. */
  readonly fixed: number;
  /** How long the model that would go first has been idle; null where none may go. */
  readonly idle_ms: number | null;
}

/** Says what changed; look it up for the new value. */
export type DirectoryChange =
  | { readonly type: 'process'; readonly id: ProcessId }
  | { readonly type: 'owner'; readonly model: string }
  | { readonly type: 'record'; readonly model: string }
  | { readonly type: 'value'; readonly name: string };

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
  /** Changes what a registered worker tells of itself. Renews nothing, and says nothing of one that is not registered. */
  retell(id: ProcessId, hosting: HostingRecord): Promise<void>;
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
  /** What the cluster shares under that name; undefined where nobody has set it. */
  value(name: string): SharedValue | undefined;
  /**
   * Sets it and resolves with what is there now, which `value` then shows. With `known` only where no
   * version after that one is there (0: none at all), else it resolves with undefined. Throws
   * INVALID_ARG for a text, or one name more, beyond the bounds. A value is kept while any process is
   * registered.
   */
  setValue(name: string, text: string, known?: number): Promise<SharedValue | undefined>;
  /** Calls back after each change, never inside the call that made it. Returns how to stop. */
  watch(listener: (change: DirectoryChange) => void): () => void;
}
