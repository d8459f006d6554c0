import { type OpenedCaller, openCaller, type ResponseStore } from '@nereid/caller';
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
export interface EnsembleCalls {
  /** Opens it at the first call. */
  caller(): OpenedCaller<CarriedTensor>;
  /** Whether a request came of a run here. */
  isOwn(sender: ProcessId): boolean;
  close(): Promise<void>;
}

export function createEnsembleCalls(parts: EnsembleCallsParts): EnsembleCalls {
  let opened: OpenedCaller<CarriedTensor> | undefined;
  return {
    caller() {
      opened ??= open(parts);
      return opened;
    },
    isOwn: (sender) => opened?.id === sender,
    async close() {
      await opened?.close();
    },
  };
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
  const caller = openCaller({ ...common, carries: true, limits });
  caller.registered.catch((error) => log.warn({ err: error, id: caller.id }, 'the directory was not told'));
  return caller;
}
