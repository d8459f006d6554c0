import type { ModelMessage } from './message.ts';
import type { OfLoad } from './of-load.ts';

/** owner → worker: hold these versions of the model with this config, as that load; all others go, but for `keep`. */
export interface ControlMessage extends ModelMessage, OfLoad {
  readonly kind: 'control';
  readonly action: 'load' | 'unload' | 'drain';
  /** The completed ModelConfig as protobuf JSON text; '' unless action is load. */
  readonly config: string;
  readonly versions: readonly string[];
  /** SHA-256 of the model's files as the owner read them; a worker that reads others refuses. */
  readonly contentHash: string;
  /** Other loads of which the worker is to keep what it has. Absent for none. */
  readonly keep?: readonly number[];
  /** What the load takes in place of the repository's files, as config's override-ref has it. Absent for nothing. */
  readonly override?: string;
  /** The model is loaded when it is asked for: it may go for others while it is idle. Absent where it stays. */
  readonly onDemand?: boolean;
  /** It does not go for others all the same. Absent for false. */
  readonly pinned?: boolean;
}
