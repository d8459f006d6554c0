import type { VersionState } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';

export interface VersionRecord {
  readonly version: string;
  readonly state: VersionState;
  /** `<Code label>: <text>` of a failed load, protocol's UNLOADED, or ''. */
  readonly reason: string;
}

/**
 * What a model's owner publishes and gateways and intake validate from
 * (submission works with no worker alive).
 */
export interface ModelRecord {
  readonly name: string;
  /** Completed and normalised; with roles apart the instance groups are left as open as the workers resolve them. */
  readonly config: ModelConfig;
  /** GPUs that its workers use for its instances, numbered from 0; absent where there are none. */
  readonly gpus?: number;
  /** Class labels by output name. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** Ascending by number: every version known, also those not ready. */
  readonly versions: readonly VersionRecord[];
  /** SHA-256 over the model's files. */
  readonly contentHash: string;
  /** As ModelSource has it. */
  readonly filesHash?: string;
  /** Of an ensemble that is wanted and not served for what its models are: it is served once they are right. */
  readonly awaitsModels?: boolean;
  /** Whether it stays where it is loaded, as somebody has said; absent: as its config says. */
  readonly pinned?: boolean;
  /** As ModelSource has them: who takes the model over needs them too. */
  readonly strategies?: Readonly<Record<string, string>>;
  /** What it was loaded from in place of the repository's files, as override-ref has it. */
  readonly override?: string;
  /** Number of its load, see protocol's OfLoad. */
  readonly load?: number;
  /** Of earlier loads, what has not ended yet: who takes the model over goes on with it. */
  readonly retiring?: readonly RetiringLoad[];
}

/** A version of an earlier load. */
export interface RetiringLoad {
  readonly load: number;
  readonly version: string;
  readonly config: ModelConfig;
}
