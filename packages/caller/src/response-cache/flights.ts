import type { CarriedOutcome, InferRequest } from '@nereid/protocol';
import type { CallOptions } from '../call-options.ts';
import { createLeaving, type LeaveSignal, type Leaving } from '../leave-signal.ts';
import type { ModelFound } from '../model-lookup.ts';

/** A caller that waits in a flight. */
export interface Waiter {
  readonly request: InferRequest;
  readonly arrivedUs: number;
  /** Its key was made, and it began to wait. */
  readonly joinedUs: number;
  /** When it gives up by itself; undefined for never. */
  readonly deadlineUs: number | undefined;
  readonly resolve: (outcome: CarriedOutcome) => void;
  readonly signal: LeaveSignal | undefined;
  /** Of the one that runs: gets its token. */
  readonly mark: CallOptions['mark'];
  readonly timed: CallOptions['timed'];
}

/** Equal requests that wait for one answer. */
export interface Flight {
  /** Requests with this name join it. */
  readonly name: string;
  /** Under which its answer is kept. */
  readonly key: string;
  /** Of the model, as they are in the key. */
  readonly files: string;
  readonly found: ModelFound;
  /** Whose request runs. It may leave, and the flight goes on for the others. */
  readonly first: Waiter;
  /** Each with how it stops listening to its signal. */
  readonly waiters: Map<Waiter, () => void>;
  /** Leaves once nobody waits any more. */
  readonly leaving: Leaving;
  /** Its request is under way. */
  runs: boolean;
}

/**
 * Who waits for what. A flight is there from `begin` until it lands, or until the last that waits in it has left, which
 * cancels it: the next of its name begins another.
 */
export interface Flights {
  find(name: string): Flight | undefined;
  /** For at least one, the first of whom is the flight's. `alone`: nobody joins it. */
  begin(as: Pick<Flight, 'name' | 'key' | 'files' | 'found'>, waiters: readonly Waiter[], alone?: 'alone'): Flight;
  join(flight: Flight, waiter: Waiter): void;
  /** Ends it: hands each its outcome. Returns those for whom there is none, who wait nowhere then. */
  land(flight: Flight, outcomeOf: (waiter: Waiter) => CarriedOutcome | undefined): readonly Waiter[];
  landAll(outcome: CarriedOutcome): void;
  readonly waiters: number;
  /** Those for whom no request is under way. */
  readonly waiting: number;
  whenEmpty(callback: () => void): void;
}

/** `left`: the outcome of one whose signal was aborted. */
export function createFlights(left: CarriedOutcome): Flights {
  const flights = new Map<string, Flight>();
  let waiters = 0;
  let alone = 0;
  let empty: (() => void) | undefined;

  const take = (flight: Flight, waiter: Waiter): boolean => {
    const unlisten = flight.waiters.get(waiter);
    if (unlisten === undefined) return false;
    flight.waiters.delete(waiter);
    unlisten();
    waiters--;
    return true;
  };

  /** Another of its name may have begun since it was cancelled. */
  const remove = (flight: Flight) => {
    if (flights.get(flight.name) === flight) flights.delete(flight.name);
  };

  const announceEmpty = () => {
    if (flights.size > 0) return;
    const callback = empty;
    empty = undefined;
    callback?.();
  };

  const join = (flight: Flight, waiter: Waiter) => {
    const { signal } = waiter;
    const onAbort = () => {
      if (!take(flight, waiter)) return;
      waiter.resolve(left);
      if (flight.waiters.size > 0) return;
      remove(flight);
      flight.leaving.leave('nobody waits for it any more');
      announceEmpty();
    };
    signal?.addEventListener('abort', onAbort);
    flight.waiters.set(waiter, () => signal?.removeEventListener('abort', onAbort));
    waiters++;
  };

  const land: Flights['land'] = (flight, outcomeOf) => {
    const without: Waiter[] = [];
    // Out of the map first: who is answered may ask again at once.
    remove(flight);
    for (const waiter of [...flight.waiters.keys()]) {
      if (!take(flight, waiter)) continue;
      const outcome = outcomeOf(waiter);
      if (outcome === undefined) without.push(waiter);
      else waiter.resolve(outcome);
    }
    if (without.length === 0) announceEmpty();
    return without;
  };

  return {
    find: (name) => flights.get(name),
    begin({ name, key, files, found }, group, isAlone) {
      const [first] = group;
      if (first === undefined) throw new Error('a flight without anybody in it');
      const flight: Flight = {
        name: isAlone === undefined ? name : `${name} alone ${++alone}`,
        key,
        files,
        found,
        first,
        waiters: new Map(),
        leaving: createLeaving(),
        runs: false,
      };
      flights.set(flight.name, flight);
      for (const waiter of group) join(flight, waiter);
      return flight;
    },
    join,
    land,
    landAll(outcome) {
      for (const flight of [...flights.values()]) land(flight, () => outcome);
    },
    get waiters() {
      return waiters;
    },
    get waiting() {
      let waiting = waiters;
      for (const { runs } of flights.values()) if (runs) waiting--;
      return waiting;
    },
    whenEmpty(callback) {
      empty = callback;
      announceEmpty();
    },
  };
}
