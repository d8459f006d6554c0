import { type CallerLimits, type OpenCallerOptions, type OpenedCaller, openCaller } from '@nereid/caller';
import type { ModelCaller } from './carrier-calls.ts';

/** By whom the models of a worker call others: most never do, so it is opened at the first call. */
export interface WorkerCaller {
  caller(): ModelCaller;
  /** Fails what waits; no call may come after. */
  close(): Promise<void>;
  /** Calls without an outcome. */
  readonly waiting: number;
}

export function createWorkerCaller(
  options: Omit<OpenCallerOptions, 'limits'> & { readonly limits: CallerLimits },
): WorkerCaller {
  let opened: OpenedCaller | undefined;
  return {
    caller() {
      opened ??= openCaller(options);
      return opened;
    },
    async close() {
      await opened?.close();
    },
    get waiting() {
      return opened?.waiting ?? 0;
    },
  };
}
