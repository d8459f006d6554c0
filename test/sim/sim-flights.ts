/**
 * Commands of one connection on their way to Redis, and their replies on the way back, each in order.
 *
 * When the connection breaks, any subset of the commands is lost, some of the others run late, and all
 * replies are lost: what Redis answers afterwards goes nowhere, and so do messages that a pop left
 * waiting takes. Redis drops such a half-open pop after a while.
 */
import type { Random, Timer } from '@nereid/runtime';
import type { SimRedis } from './sim-redis.ts';
import type { SimProcess, SimWorld } from './sim-world.ts';

export interface FlightsOptions {
  readonly world: SimWorld;
  readonly process: SimProcess;
  readonly random: Random;
  readonly redis: SimRedis;
  /** When what is sent now leaves. */
  readonly departUs: () => number;
  /** How long it takes one way. */
  readonly travelUs: () => number;
}

/** What a command does at Redis; it answers at once, later or never, and says how to stop what it leaves waiting. */
export type Command = (answer: (value: unknown) => void) => (() => void) | undefined;

export interface Flights {
  /** Rejects once the connection breaks; the command may have run or may yet. */
  send(command: Command): Promise<unknown>;
  /** The connection breaks. */
  lose(): void;
}

interface Flight {
  readonly reject: (error: Error) => void;
  /** Runs it at Redis, whatever has become of the connection. */
  readonly run: () => void;
  /** Set while it is on its way to Redis. */
  arrival: Timer | undefined;
  /** Set while it waits at Redis. */
  leave: (() => void) | undefined;
}

const LOST_SHARE = 0.5;
const LATE_SHARE = 0.2;
const LATE_US_MAX = 1_000_000;
const HALF_OPEN_US_MAX = 3_000_000;

export function createFlights(options: FlightsOptions): Flights {
  const { world, process, random, redis, departUs, travelUs } = options;
  const flights = new Set<Flight>();
  let lastArrivalUs = 0;
  let lastReplyUs = 0;

  /** What is late for one Redis never runs in the next. */
  const runLate = ({ run }: Flight) => {
    const known = redis.runId;
    world.at(world.nowUs() + random.next() * LATE_US_MAX, () => {
      if (redis.runId === known) run();
    });
  };

  return {
    send: (command) =>
      new Promise((resolve, reject) => {
        const flight: Flight = {
          reject,
          arrival: undefined,
          leave: undefined,
          run() {
            flight.arrival = undefined;
            flight.leave = command((value) => {
              flight.leave = undefined;
              if (!flights.has(flight)) return;
              lastReplyUs = Math.max(lastReplyUs, departUs() + travelUs());
              process.at(lastReplyUs, () => {
                if (flights.delete(flight)) resolve(value);
              });
            });
          },
        };
        flights.add(flight);
        lastArrivalUs = Math.max(lastArrivalUs, departUs() + travelUs());
        flight.arrival = world.at(lastArrivalUs, flight.run);
      }),
    lose() {
      for (const flight of flights) {
        const { arrival, leave } = flight;
        const fate = random.next();
        if (leave !== undefined) world.at(world.nowUs() + random.next() * HALF_OPEN_US_MAX, leave);
        if (arrival !== undefined && fate < LOST_SHARE + LATE_SHARE) {
          arrival.cancel();
          if (fate >= LOST_SHARE) runLate(flight);
        }
        process.at(0, () => flight.reject(new Error('Connection is closed.')));
      }
      flights.clear();
      lastArrivalUs = 0;
      lastReplyUs = 0;
    },
  };
}
