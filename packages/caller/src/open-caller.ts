import type { ModelRecord } from '@nereid/config';
import { type CarriedTensor, type Message, type ProcessId, STOPPING, type Tensor } from '@nereid/protocol';
import { type Clock, type Log, newProcessId, pause } from '@nereid/runtime';
import { type Directory, type Timing, type Transport, timing } from '@nereid/transport';
import { type Caller, type CallerLimits, createCaller } from './caller.ts';
import type { ResponseStore } from './response-cache/kept-answer.ts';

export interface OpenCallerOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly limits: CallerLimits;
  /** As of a Caller. */
  readonly responses?: ResponseStore | undefined;
  /** As of a Caller. */
  readonly timing?: Timing | undefined;
  /** As of a Caller. */
  readonly carries?: boolean;
  /** Random by default. */
  readonly id?: ProcessId;
}

/** A caller with a mailbox of its own, by which a coordinator or a worker calls models. */
export interface OpenedCaller<T extends CarriedTensor = Tensor> extends Omit<Caller<T>, 'take' | 'close'> {
  readonly id: ProcessId;
  /**
   * Resolves once the directory has it, or at its end; never rejects, since it is tried again until then. Calls may be
   * made before: answers find its mailbox all the same.
   */
  readonly registered: Promise<void>;
  /** Fails what waits, and leaves the directory. Idempotent. */
  close(): Promise<void>;
}

export function openCaller(options: OpenCallerOptions & { readonly carries: true }): OpenedCaller<CarriedTensor>;
export function openCaller(options: OpenCallerOptions): OpenedCaller;
export function openCaller(options: OpenCallerOptions): OpenedCaller<CarriedTensor> {
  const { transport, directory, log, id = newProcessId('ca') } = options;
  const receive = (messages: readonly Message[]) => {
    for (const message of messages) {
      if (!caller.take(message)) log.trace({ kind: message.kind }, 'message that this caller does not wait for');
    }
  };
  const mailbox = transport.open(id, receive, { carries: options.carries === true });
  const caller: Caller<CarriedTensor> =
    options.carries === true
      ? createCaller({ ...options, carries: true, id, mailbox })
      : createCaller({ ...options, id, mailbox });
  const retryMs = (options.timing ?? timing()).heartbeat_ms;
  const ending = new AbortController();
  let closing: Promise<void> | undefined;

  const register = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      try {
        return await directory.register({ id, role: 'caller', draining: false });
      } catch (error) {
        log.warn({ err: error, id }, 'the directory was not told of a caller yet');
        await pause(options.clock, retryMs, ending.signal);
      }
    }
  };
  const registered = register();

  const close = async () => {
    ending.abort();
    caller.close({ ok: false, error: STOPPING });
    await mailbox.close();
    try {
      await registered;
      await directory.leave(id);
    } catch (error) {
      // What a directory that does not answer still has of this caller runs out by itself.
      log.warn({ err: error, id }, 'the directory was not told');
    }
  };

  return {
    ...caller,
    get waiting() {
      return caller.waiting;
    },
    id,
    registered,
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** A caller that is opened at its first call: most processes never make one. */
export interface LazyCaller<T extends CarriedTensor = Tensor> {
  caller(): OpenedCaller<T>;
  /** Undefined before the first call. */
  readonly opened: OpenedCaller<T> | undefined;
  /** No call may come after. */
  close(): Promise<void>;
}

export function createLazyCaller<T extends CarriedTensor>(open: () => OpenedCaller<T>): LazyCaller<T> {
  let opened: OpenedCaller<T> | undefined;
  return {
    caller() {
      opened ??= open();
      return opened;
    },
    get opened() {
      return opened;
    },
    async close() {
      await opened?.close();
    },
  };
}
