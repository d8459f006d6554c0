import type { Clock, Random } from '@nereid/runtime';
import { createLog } from '@nereid/runtime';
import type { Redis } from 'ioredis';
import { DIRECTORY_KEYS, directoryScript } from './directory-script.ts';
import { createDirectoryOver, type RedisDirectory } from './redis-directory.ts';
import type { Timing } from './timing.ts';

interface Flight {
  readonly args: readonly string[];
  answer?: unknown;
  isRun: boolean;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

export interface WorldProcess {
  readonly directory: RedisDirectory<string>;
  /** Neither its timers nor answers reach it. */
  isPaused: boolean;
  /** Runs its oldest command that Redis has not run. */
  run(): Promise<void>;
  /** Hands it the oldest answer. */
  answer(): void;
  /** Its connection breaks: all under way is rejected, and what Redis has not run may run late. */
  cut(): void;
}

export interface World {
  readonly nowUs: number;
  /** Timers that are set, of all processes. */
  readonly liveTimers: number;
  /** `subscribe`: resolves once it hears the notices of others. */
  process(subscribe?: () => Promise<void>): WorldProcess;
  advance(us: number): void;
  /** Runs a command of a broken connection, any of them. */
  runLate(): Promise<void>;
  /** Lets time pass without a fault, in small steps. */
  calm(us: number, afterStep?: () => void): Promise<void>;
  /** The data are kept, but it is another run. */
  restart(): Promise<void>;
  wipe(): Promise<void>;
}

const TIME = "redis.call('MGET', 'world-s', 'world-us')";
const STEP_US = 10_000;

/** Everything that was made to happen has happened, up to the next command or timer. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

/**
 * Processes with a directory each over the real script on a real Redis, whose time is the world's, as
 * all the processes' clocks are. Each command is sent, run and answered when the test says so.
 */
export function createWorld(client: Redis, timing: Timing, random: Random): World {
  const script = directoryScript(TIME);
  const late: (readonly string[])[] = [];
  const timers = new Set<{
    readonly timeUs: number;
    readonly callback: () => void;
    readonly of: { isPaused: boolean };
  }>();
  const processes: WorldProcess[] = [];
  let nowUs = 1e12;

  const runScript = async (args: readonly string[]) => {
    await client.mset('world-s', Math.floor(nowUs / 1e6), 'world-us', Math.floor(nowUs % 1e6));
    return client.eval(script, DIRECTORY_KEYS.length, ...DIRECTORY_KEYS, ...args);
  };
  const fire = () => {
    for (;;) {
      const due = [...timers].filter(({ timeUs, of }) => timeUs <= nowUs && !of.isPaused);
      const first = due.toSorted((a, b) => a.timeUs - b.timeUs)[0];
      if (first === undefined) return;
      timers.delete(first);
      first.callback();
    }
  };

  const world: World = {
    get nowUs() {
      return nowUs;
    },
    get liveTimers() {
      return timers.size;
    },
    process(subscribe = async () => {}) {
      let flights: Flight[] = [];
      const cut = () => {
        const broken = flights;
        flights = [];
        for (const flight of broken) {
          if (!flight.isRun && random.next() < 0.5) late.push(flight.args);
          flight.reject(new Error('connection lost'));
        }
      };
      const self = { isPaused: false };
      const clock: Clock = {
        nowUs: () => nowUs,
        wallMs: () => nowUs / 1000,
        at(timeUs, callback) {
          const timer = { timeUs, callback, of: self };
          timers.add(timer);
          return { cancel: () => void timers.delete(timer) };
        },
      };
      const link = {
        channel: 'changes',
        call(args: () => readonly string[] | undefined) {
          const given = args();
          if (given === undefined) return Promise.reject(new Error('called off'));
          return new Promise<unknown>((resolve, reject) =>
            flights.push({ args: given, isRun: false, resolve, reject }),
          );
        },
        reset: cut,
        subscribe,
        close: cut,
      };
      const directory = createDirectoryOver<string>(link, {
        log: createLog({ level: 'silent' }),
        clock,
        timing,
        encode: (text) => text,
        decode: (text) => text,
      });
      const process: WorldProcess = Object.assign(self, {
        directory,
        async run() {
          const flight = flights.find(({ isRun }) => !isRun);
          if (flight === undefined) return;
          flight.answer = await runScript(flight.args);
          flight.isRun = true;
        },
        answer() {
          if (self.isPaused || flights[0]?.isRun !== true) return;
          const [flight] = flights.splice(0, 1);
          flight?.resolve(flight.answer);
        },
        cut,
      });
      processes.push(process);
      return process;
    },
    advance(us) {
      nowUs += us;
      fire();
    },
    async runLate() {
      const [args] = late.splice(Math.floor(random.next() * late.length), 1);
      if (args !== undefined) await runScript(args);
    },
    async calm(us, afterStep) {
      for (let passed = 0; passed < us; passed += STEP_US) {
        world.advance(STEP_US);
        await settled();
        for (const process of processes) {
          await process.run();
          process.answer();
        }
        await settled();
        afterStep?.();
      }
    },
    async restart() {
      await client.hset(DIRECTORY_KEYS[0], 'created', `${nowUs}`);
    },
    async wipe() {
      await client.flushall();
    },
  };
  return world;
}
