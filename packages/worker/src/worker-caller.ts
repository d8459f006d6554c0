import { type CallerLimits, type OpenCallerOptions, type OpenedCaller, openCaller } from '@nereid/caller';
import type { ModelCaller } from './carrier-calls.ts';

/**
 * By whom the models of a worker call others: most never do, so it is opened at the first call. Where it cannot be
 * registered, or its registration lapses, no answer would find it any more: what waits fails, and the next call opens
 * another one.
 */
export interface WorkerCaller {
  caller(): ModelCaller;
  /** Fails what waits; no call may come after. */
  close(): Promise<void>;
  /** Calls without an outcome. */
  readonly waiting: number;
}

export function createWorkerCaller(
  options: Omit<OpenCallerOptions, 'limits' | 'id'> & { readonly limits: CallerLimits },
): WorkerCaller {
  const { directory, log } = options;
  let opened: OpenedCaller | undefined;
  let isRegistered = false;

  const drop = (lost: OpenedCaller, why: unknown) => {
    if (opened !== lost) return;
    opened = undefined;
    log.warn(
      { err: why, id: lost.id, calls: lost.waiting },
      'who calls for models is not registered; their calls fail',
    );
    void lost.close();
  };

  const open = () => {
    const caller = openCaller(options);
    opened = caller;
    isRegistered = false;
    caller.registered.then(
      () => {
        if (opened === caller) isRegistered = true;
      },
      (error) => drop(caller, error),
    );
    return caller;
  };

  const unwatch = directory.watch((change) => {
    if (change.type !== 'process' || change.id !== opened?.id || !isRegistered) return;
    if (!directory.registered(change.id)) drop(opened, undefined);
  });

  return {
    caller: () => opened ?? open(),
    async close() {
      unwatch();
      await opened?.close();
    },
    get waiting() {
      return opened?.waiting ?? 0;
    },
  };
}
