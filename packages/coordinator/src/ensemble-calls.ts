import { createLazyCaller, type LazyCaller, type OpenedCaller, openCaller, type ResponseStore } from '@nereid/caller';
import { LIMITS, type ModelRecord } from '@nereid/config';
import type { CarriedTensor, ProcessId } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory, Timing, Transport } from '@nereid/transport';

export interface EnsembleCallsParts {
  /** The coordinator's. */
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  /** Where answers of steps are kept; none are without it. */
  readonly responses?: ResponseStore | undefined;
  readonly timing: Timing | undefined;
}

/** By which a coordinator calls the models of its ensembles: one caller, from the first ensemble until the coordinator's end. */
export type EnsembleCalls = LazyCaller<CarriedTensor>;

export function createEnsembleCalls(parts: EnsembleCallsParts): EnsembleCalls {
  return createLazyCaller(() => open(parts));
}

/** As unique as the coordinator's id, and easy to find beside it in a log. */
export function callerOf(coordinator: ProcessId): ProcessId {
  return `ca-${coordinator.slice(coordinator.indexOf('-') + 1)}`;
}

function open({ id, ...parts }: EnsembleCallsParts): OpenedCaller<CarriedTensor> {
  const { clock, log, transport, directory, responses, timing } = parts;
  const { requests_pending_max, stream_unread_chunks_max, stream_unread_bytes_max } = LIMITS;
  const limits = { requests_pending_max, stream_unread_chunks_max, stream_unread_bytes_max };
  const common = { id: callerOf(id), clock, log, transport, directory, responses, timing };
  return openCaller({ ...common, carries: true, limits });
}
