/**
 * One instance of a model version, carried by a thread or process of its own.
 *
 * States: *idle* until started; *loading* while the first carrier loads the model, from which a
 * failure leads to *failed*; *ready*; *restarting* from the end of a carrier that nobody asked to
 * end until another one has loaded the model, with growing pauses between the tries; *failed* also
 * when too many carriers in a row ended without a batch; *stopping* from `stop` until the
 * carrier has ended by itself; *stopped*.
 *
 * A batch is *waiting* while no carrier is ready, then *held* by it. Of the batches that a carrier
 * held when it died, the one that ran is split (lost-batch.ts), and all go before what waits. A step of
 * a sequence takes effect once, and its state is in the carrier: steps wait for no other carrier, and
 * never run a second time.
 */
import { CANCELLED, type ErrorInfo, errorInfo, type InstanceDescription } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { type Carrier, startCarrier } from './carrier.ts';
import type { ModelCaller } from './carrier-calls.ts';
import { failBatch, type InstanceBatch, isAbandoned } from './instance-batch.ts';
import type { OpenLine } from './instance-line.ts';
import type { InstanceSetup } from './instance-messages.ts';
import { retriesOf } from './lost-batch.ts';

/** The fields of LIMITS that an instance keeps to. */
export interface InstanceLimits {
  readonly instance_start_timeout_ms: number;
  readonly instance_restart_attempts_max: number;
  readonly instance_restart_backoff_min_ms: number;
  readonly instance_restart_backoff_max_ms: number;
  readonly instances_per_model_max: number;
}

export interface InstanceOptions {
  readonly index: number;
  readonly passive: boolean;
  readonly setup: InstanceSetup;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: InstanceLimits;
  readonly open: OpenLine;
  /** `nereid.execution_timeout_ms`. */
  readonly executionTimeoutMs: number | undefined;
  /** By whom its model calls others; asked only then. */
  readonly caller: () => ModelCaller;
  /** It became ready, ceased to be, or failed. */
  readonly changed: () => void;
  /** Of a model that keeps sequences: the carrier has ended, and what it had of them; told before its batches are settled. */
  readonly stateLost: () => void;
}

export interface Instance {
  /** Resolves when ready (null) or failed (why). Called at most once. */
  start(): Promise<ErrorInfo | null>;
  execute(batch: InstanceBatch): void;
  /** The request at that position of a batch given to this instance has been marked as cancelled. */
  cancel(batch: InstanceBatch, position: number): void;
  /** Finishes what is held, fails what waits, lets the carrier end. Idempotent. */
  stop(): Promise<void>;
  /** The stop is past its deadline: fails what is held where the carrier can be ended, which ends the stop. */
  abandon(): void;
  describe(): InstanceDescription;
  /** Why it has failed, null in all other states. */
  readonly failure: ErrorInfo | null;
  /** Batches not settled yet. */
  readonly unsettled: number;
  readonly liveCarriers: number;
}

type InstanceState = 'idle' | 'loading' | 'ready' | 'restarting' | 'failed' | 'stopping' | 'stopped';

const MS_IN_US = 1000;

export function createInstance(options: InstanceOptions): Instance {
  const { setup, clock, limits, log } = options;
  const { instanceName: name, config } = setup;
  const keepsState = setup.signature.sequence !== undefined;
  const waiting: InstanceBatch[] = [];
  let state: InstanceState = 'idle';
  let failure: ErrorInfo | null = null;
  let carrier: Carrier | undefined;
  /** Also carriers that were given up and have not ended. */
  const live = new Set<Carrier>();
  /** Carriers that ended since a batch last came back; sets the pause before the next try. */
  let endsInARow = 0;
  /** Those of them that held no batch when they ended. */
  let fruitlessInARow = 0;
  let timer: Timer | undefined;
  let reportStart: (why: ErrorInfo | null) => void = () => {};
  let reportStop: () => void = () => {};
  let stopping: Promise<void> | undefined;

  const unavailable = (why: string): ErrorInfo => ({
    code: 'UNAVAILABLE',
    message: `instance '${name}' of model '${config.name}' is not available: ${why}`,
  });

  const failWaiting = (why: string) => {
    for (const batch of waiting.splice(0)) failBatch(batch, false, unavailable(why), 'unseen');
  };

  const fail = (why: ErrorInfo) => {
    state = 'failed';
    failure = why;
    failWaiting(why.message);
    reportStart(why);
    options.changed();
  };

  const post = (to: Carrier, batch: InstanceBatch) => {
    try {
      to.post(batch);
    } catch (wrong) {
      failBatch(batch, false, errorInfo(wrong));
    }
  };

  /**
   * Hands on what waits, in order. One that may kill what runs it goes alone and nothing goes beside it: what is held
   * then is what the carrier died of. A write to one that has just died would lose the results that nobody has read yet.
   */
  const feed = (to: Carrier) => {
    for (let next = waiting[0]; next !== undefined && mayPost(to, next); next = waiting[0]) {
      waiting.shift();
      post(to, next);
    }
  };

  /** A carrier that is told to stop takes nothing more, so it is told last. */
  const stopOnceDone = () => {
    if (carrier !== undefined && waiting.length + carrier.held.size === 0) carrier.stop();
  };

  const returned = () => {
    endsInARow = 0;
    fruitlessInARow = 0;
    if (carrier !== undefined) feed(carrier);
    if (state === 'stopping') stopOnceDone();
  };

  const becomeReady = (from: Carrier) => {
    if (from !== carrier) return;
    timer?.cancel();
    if (state === 'stopping') return;
    state = 'ready';
    feed(from);
    reportStart(null);
    options.changed();
  };

  /** `blamed`: the request that it died of is known, so nothing is learnt about the others. */
  const restart = (why: ErrorInfo, lost: number, blamed: boolean) => {
    if (!blamed || endsInARow === 0) endsInARow++;
    fruitlessInARow = lost > 0 ? 0 : fruitlessInARow + 1;
    log.error({ model: config.name, instance: name, batches: lost }, why.message);
    if (fruitlessInARow > limits.instance_restart_attempts_max) {
      fail({ ...why, message: `${why.message} (given up after ${limits.instance_restart_attempts_max} restarts)` });
      return;
    }
    state = 'restarting';
    const pauseMs = Math.min(
      limits.instance_restart_backoff_min_ms * 2 ** (endsInARow - 1),
      limits.instance_restart_backoff_max_ms,
    );
    timer = clock.at(clock.nowUs() + pauseMs * MS_IN_US, openCarrier);
    options.changed();
  };

  const ended = (of: Carrier, why: ErrorInfo, lost: readonly InstanceBatch[], running: InstanceBatch | undefined) => {
    live.delete(of);
    const isCurrent = of === carrier;
    if (isCurrent) {
      carrier = undefined;
      timer?.cancel();
    }
    if (isCurrent && keepsState) options.stateLost();
    if (isCurrent && !keepsState && (state === 'ready' || state === 'restarting')) {
      waiting.unshift(...lost.flatMap((batch) => (batch === running ? retriesOf(batch, why) : [batch])));
      restart(why, lost.length, running?.isRetry === true);
    } else {
      for (const batch of lost) failBatch(batch, true, why, 'lost');
      if (isCurrent && state === 'loading') fail(why);
      else if (isCurrent && (state === 'ready' || state === 'restarting')) restart(why, lost.length, false);
    }
    if (state === 'stopping' && live.size === 0) {
      failWaiting('it is being unloaded');
      state = 'stopped';
      reportStop();
    }
  };

  /** The system gave no thread or process. */
  const startFailed = (cause: unknown) => {
    const why = unavailable(`its carrier cannot be started: ${errorInfo(cause).message}`);
    if (state === 'loading') fail(why);
    else restart(why, 0, false);
  };

  const openCarrier = () => {
    let started: Carrier;
    try {
      started = newCarrier();
    } catch (cause) {
      startFailed(cause);
      return;
    }
    live.add(started);
    carrier = started;
    timer = clock.at(clock.nowUs() + limits.instance_start_timeout_ms * MS_IN_US, () => {
      started.giveUp();
      if (state === 'stopping') return;
      carrier = undefined;
      fail(unavailable(`its model did not load within ${limits.instance_start_timeout_ms} ms`));
    });
  };

  const newCarrier = () => {
    const started: Carrier = startCarrier({
      setup,
      open: options.open,
      clock,
      log,
      executionTimeoutMs: options.executionTimeoutMs,
      caller: options.caller,
      loaded: () => becomeReady(started),
      returned,
      ended: (why, lost, running) => ended(started, why, lost, running),
    });
    return started;
  };

  const cancel = (batch: InstanceBatch, position: number) => {
    const retry = batch.retries?.get(position);
    if (retry !== undefined) {
      retry.cancelled ??= new Set([0]);
      cancel(retry, 0);
      return;
    }
    const place = waiting.indexOf(batch);
    if (place < 0) carrier?.cancel(batch, position);
    else if (isAbandoned(batch)) {
      waiting.splice(place, 1);
      failBatch(batch, false, CANCELLED);
    }
  };

  const stop = async () => {
    const before = state;
    state = live.size === 0 ? 'stopped' : 'stopping';
    if (before === 'restarting' && carrier === undefined) timer?.cancel();
    // What waits for others of its batch to be tried is finished as what is held is.
    if (before !== 'ready') failWaiting('it is being unloaded');
    reportStart(unavailable('it is being unloaded'));
    if (state === 'stopped') return;
    await new Promise<void>((resolve) => {
      reportStop = resolve;
      stopOnceDone();
    });
  };

  return {
    start() {
      state = 'loading';
      return new Promise((resolve) => {
        reportStart = resolve;
        openCarrier();
      });
    },
    execute(batch) {
      if (state === 'ready' && carrier !== undefined && waiting.length === 0 && mayPost(carrier, batch))
        post(carrier, batch);
      else if (keepsState) failBatch(batch, false, unavailable(failure?.message ?? `it is ${state}`), 'unseen');
      else if (state === 'ready' || state === 'loading' || state === 'restarting') waiting.push(batch);
      else failBatch(batch, false, unavailable(failure?.message ?? 'it is being unloaded'));
    },
    cancel,
    stop() {
      stopping ??= stop();
      return stopping;
    },
    abandon() {
      for (const each of live) each.terminate();
    },
    describe: () => ({
      index: options.index,
      name,
      ready: state === 'ready',
      passive: options.passive,
      batches: [...new Set([...(carrier?.held.values() ?? []), ...waiting].map(({ batch }) => batch))],
    }),
    get failure() {
      return state === 'failed' ? failure : null;
    },
    get unsettled() {
      return (carrier?.held.size ?? 0) + waiting.length;
    },
    get liveCarriers() {
      return live.size;
    },
  };
}

/** Whether a batch may go beside what a carrier holds: not where one of them is a request that is tried by itself. */
function mayPost({ held }: Carrier, batch: InstanceBatch): boolean {
  if (held.size === 0) return true;
  if (batch.isRetry === true) return false;
  const [first] = held.values();
  return first?.isRetry !== true;
}
