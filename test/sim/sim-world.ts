/**
 * Virtual time for many simulated processes: one queue of events, run one by one. After each event
 * all promises that it settled have run, so that nothing depends on the real machine.
 */
import type { Clock, Timer } from '@nereid/runtime';

/** A simulated process, in which roles run by its own clock. Its events wait while it is stalled, and never come once it is dead. */
export interface SimProcess {
  readonly name: string;
  readonly clock: Clock;
  readonly alive: boolean;
  readonly stalled: boolean;
  /** Timers of its clock that are set. */
  readonly liveTimers: number;
  /** An event of the process at that world time. */
  at(timeUs: number, run: () => void): Timer;
  /** SIGSTOP for so long. */
  stall(us: number): void;
  /** SIGKILL. */
  kill(): void;
  /** Called after each of its events, for what is polled (orders to threads). Returns how to stop. */
  eachTurn(poll: () => void): () => void;
  /** Called once when it is killed. */
  onKill(callback: () => void): void;
}

export interface SimWorld {
  nowUs(): number;
  /** An event outside of all processes: in the network, in Redis, in the scenario. */
  at(timeUs: number, run: () => void): Timer;
  /** Its clock begins at `originUs`, as no two processes' monotonic clocks agree. */
  process(name: string, originUs: number): SimProcess;
  /** Runs events up to that time, or until `over` holds after one. */
  run(untilUs: number, over?: () => boolean): Promise<void>;
  readonly events: number;
}

interface SimEvent {
  timeUs: number;
  /** When it was to run; orders those that waited for the end of a stall. */
  readonly dueUs: number;
  readonly sequence: number;
  readonly process: ProcessState | undefined;
  run: (() => void) | undefined;
}

interface ProcessState {
  readonly name: string;
  alive: boolean;
  stalledUntilUs: number;
  readonly polls: Set<() => void>;
}

/** `crashed` is told of what an event throws; by default it is thrown on. */
export function createSimWorld(crashed?: (process: string, error: unknown) => void): SimWorld {
  const queue = createEventQueue();
  let nowUs = 0;
  let sequence = 0;
  let events = 0;

  const add = (timeUs: number, process: ProcessState | undefined, run: () => void): SimEvent => {
    const dueUs = Math.max(timeUs, nowUs);
    const event: SimEvent = { timeUs: dueUs, dueUs, sequence: sequence++, process, run };
    queue.add(event);
    return event;
  };

  const process = (name: string, originUs: number): SimProcess => {
    const state: ProcessState = { name, alive: true, stalledUntilUs: 0, polls: new Set() };
    const kills: (() => void)[] = [];
    let liveTimers = 0;
    const at = (timeUs: number, run: () => void) => {
      const event = add(timeUs, state, run);
      return cancelOf(event);
    };
    const clock: Clock = {
      nowUs: () => nowUs - originUs,
      wallMs: () => nowUs / 1000,
      at(timeUs, callback) {
        let over = false;
        liveTimers++;
        const finish = () => {
          if (!over) liveTimers--;
          over = true;
        };
        const timer = at(timeUs + originUs, () => {
          finish();
          callback();
        });
        return {
          cancel() {
            finish();
            timer.cancel();
          },
        };
      },
    };
    return {
      name,
      clock,
      at,
      get alive() {
        return state.alive;
      },
      get stalled() {
        return state.stalledUntilUs > nowUs;
      },
      get liveTimers() {
        return liveTimers;
      },
      stall(us) {
        state.stalledUntilUs = Math.max(state.stalledUntilUs, nowUs + us);
      },
      kill() {
        if (!state.alive) return;
        state.alive = false;
        for (const callback of kills) callback();
      },
      eachTurn(poll) {
        state.polls.add(poll);
        return () => void state.polls.delete(poll);
      },
      onKill: (callback) => void kills.push(callback),
    };
  };

  /** Runs one event; false where it did not come to that. */
  const runOne = (event: SimEvent): boolean => {
    const state = event.process;
    if (event.run === undefined || state?.alive === false) return false;
    if (state !== undefined && state.stalledUntilUs > nowUs) {
      event.timeUs = state.stalledUntilUs;
      queue.add(event);
      return false;
    }
    const { run } = event;
    event.run = undefined;
    try {
      run();
    } catch (error) {
      if (crashed === undefined) throw error;
      crashed(state?.name ?? 'the world', error);
    }
    return true;
  };

  return {
    nowUs: () => nowUs,
    at(timeUs, run) {
      const event = add(timeUs, undefined, run);
      return cancelOf(event);
    },
    process,
    async run(untilUs, over = () => false) {
      for (let event = queue.first(); event !== undefined && event.timeUs <= untilUs; event = queue.first()) {
        queue.removeFirst();
        nowUs = Math.max(nowUs, event.timeUs);
        if (!runOne(event)) continue;
        events++;
        await settle();
        if (event.process !== undefined) for (const poll of event.process.polls) poll();
        if (over()) return;
      }
      nowUs = Math.max(nowUs, untilUs);
    },
    get events() {
      return events;
    },
  };
}

function cancelOf(event: SimEvent): Timer {
  return {
    cancel() {
      event.run = undefined;
    },
  };
}

/** One turn of the real event loop: microtasks, and messages of ports between fake threads and workers. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

function isBefore(a: SimEvent, b: SimEvent): boolean {
  if (a.timeUs !== b.timeUs) return a.timeUs < b.timeUs;
  return a.dueUs !== b.dueUs ? a.dueUs < b.dueUs : a.sequence < b.sequence;
}

/** A binary heap. */
function createEventQueue() {
  const heap: SimEvent[] = [];

  const rise = (event: SimEvent) => {
    let at = heap.push(event) - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = heap[up];
      if (parent === undefined || !isBefore(event, parent)) break;
      heap[at] = parent;
      at = up;
    }
    heap[at] = event;
  };

  const sink = (event: SimEvent) => {
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      let child = heap[down];
      const right = heap[down + 1];
      if (child === undefined) break;
      if (right !== undefined && isBefore(right, child)) {
        child = right;
        down++;
      }
      if (!isBefore(child, event)) break;
      heap[at] = child;
      at = down;
    }
    heap[at] = event;
  };

  return {
    add: rise,
    first: (): SimEvent | undefined => heap[0],
    removeFirst() {
      const last = heap.pop();
      if (last !== undefined && heap.length > 0) sink(last);
    },
  };
}
