import { createLog, virtualClock } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import { keepWorker, type WorkerProcess } from './keep-worker.ts';
import type { StopSignal } from './stop-signals.ts';
import type { KeeperMessage, WorkerMessage } from './worker-messages.ts';

const SECOND_US = 1e6;

interface FakeWorker {
  readonly told: string[];
  readonly signals: StopSignal[];
  readonly say: (message: WorkerMessage) => void;
  readonly end: (code: number) => Promise<void>;
}

/** A keeper whose workers do what the test says. */
function world() {
  const clock = virtualClock();
  const workers: FakeWorker[] = [];
  const metrics: (number | undefined)[] = [];
  let signal: (signal: StopSignal) => void = () => {};
  const start = (): WorkerProcess => {
    let listener: (message: WorkerMessage) => void = () => {};
    let end: (code: number) => void = () => {};
    const ended = new Promise<number>((resolve) => {
      end = resolve;
    });
    const worker: FakeWorker = {
      told: [],
      signals: [],
      say: (message) => listener(message),
      async end(code) {
        end(code);
        await ended;
        await Promise.resolve();
      },
    };
    workers.push(worker);
    return {
      pid: workers.length,
      send: ({ kind }: KeeperMessage) => void worker.told.push(kind),
      listen: (to) => {
        listener = to;
      },
      kill: (which) => void worker.signals.push(which),
      ended,
    };
  };
  const over = keepWorker({
    start,
    clock,
    log: createLog({ level: 'silent' }),
    listenForSignals: (listener) => {
      signal = listener;
    },
    serveMetrics: (port) => void metrics.push(port),
  });
  const pass = (seconds: number) => clock.advanceUs(seconds * SECOND_US);
  const at = (index: number) => workers[index] as FakeWorker;
  return { workers, metrics, over, pass, at, signal: (which: StopSignal) => signal(which) };
}

const started = (metricsPort: number): WorkerMessage => ({ kind: 'started', metricsPort });
const holds = (ready: readonly string[], isLoading = false): WorkerMessage => ({ kind: 'holds', ready, isLoading });
const SPENT: WorkerMessage = { kind: 'spent', why: '9 loads' };

/** With one that serves and is spent, and a next one that has started. */
function spentWorld() {
  const made = world();
  made.at(0).say(started(1));
  made.at(0).say(SPENT);
  made.at(1).say(started(2));
  made.at(0).say(holds(['a/1', 'b/1']));
  return made;
}

describe('a worker that is spent', () => {
  test('serves until the next one has all that it has, then ends what it has accepted', () => {
    const { at, pass, metrics } = spentWorld();
    at(1).say(holds(['a/1']));
    pass(1);
    at(1).say(holds(['a/1', 'b/1'], true));
    pass(1);
    expect([at(0).told.includes('retire'), at(1).told.includes('serve')]).toEqual([false, false]);
    at(1).say(holds(['a/1', 'b/1', 'c/1']));
    pass(1);
    expect([at(0).told.at(-1), at(1).told.at(-1)]).toEqual(['retire', 'serve']);
    expect(metrics).toEqual([1, 2]);
  });

  test('what the next one has not got after a while comes when it is asked for', () => {
    const { at, pass } = spentWorld();
    at(1).say(holds(['a/1']));
    pass(29);
    expect(at(0).told).not.toContain('retire');
    pass(2);
    expect(at(0).told.at(-1)).toBe('retire');
  });

  test('serves on where the next one ends, and another is tried after a minute', async () => {
    const { at, pass, workers } = spentWorld();
    await at(1).end(1);
    pass(59);
    expect(workers).toHaveLength(2);
    pass(2);
    expect(workers).toHaveLength(3);
    expect(at(0).told).not.toContain('retire');
  });

  test('and a next one that is never ready is given up', () => {
    const { at, pass } = spentWorld();
    at(1).say(holds([], true));
    pass(601);
    expect([at(0).told.includes('retire'), at(1).signals]).toEqual([false, ['SIGTERM']]);
  });

  test('only one is on its way out: the next is replaced behind it', async () => {
    const { at, pass, workers } = spentWorld();
    at(1).say(holds(['a/1', 'b/1']));
    pass(1);
    at(1).say(SPENT);
    pass(100);
    expect(workers).toHaveLength(2);
    await at(0).end(0);
    expect(workers).toHaveLength(3);
  });
});

test('one that ends by itself ends the keeper with its code', async () => {
  const { at, over } = world();
  at(0).say(started(1));
  await at(0).end(4);
  expect(await over).toBe(4);
});

test('a signal goes to all, and the end is that of the one that serves', async () => {
  const { at, over, pass, signal } = spentWorld();
  at(1).say(holds(['a/1', 'b/1']));
  pass(1);
  signal('SIGTERM');
  expect([at(0).signals, at(1).signals]).toEqual([['SIGTERM'], ['SIGTERM']]);
  await at(1).end(0);
  await at(0).end(1);
  expect(await over).toBe(0);
});
