import type { pb } from '@nereid/config';
import { createLog, virtualClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { type StoppableServer, stopWithin } from './graceful-stop.ts';

const TIMEOUT_S = 2;

function record(backend: string): ReturnType<StoppableServer['models']>[number] {
  const config = { backend } as pb.ModelConfig;
  return { name: 'm', config, labels: {}, versions: [], contentHash: '' };
}

/** A server whose stop never ends, holding one batch of a model of each backend. */
function stuckServer(backends: readonly string[], batches: number, stopCalled: () => void): StoppableServer {
  let models = backends.map(record);
  return {
    models: () => models,
    counts: () => ({ waiting: 0, queued: 0, running: 0, batches, timers: 0 }),
    stop: () => {
      models = [];
      stopCalled();
      return new Promise(() => {});
    },
  };
}

function stopped(starting: (stopCalled: () => void) => Promise<StoppableServer>, pauseMs = 0) {
  const clock = virtualClock();
  let written = '';
  let kills = 0;
  let called = () => {};
  const stopCalled = new Promise<void>((resolve) => {
    called = resolve;
  });
  const destination = {
    write: (line: string) => {
      written += line;
    },
  };
  const ended = stopWithin({
    starting: starting(called),
    timeoutS: TIMEOUT_S,
    pauseMs,
    clock,
    log: createLog({ level: 'info', destination }),
    kill: () => {
      kills++;
    },
  });
  return { clock, ended, stopCalled, written: () => written, kills: () => kills };
}

describe('a stop that takes longer than its time', () => {
  it.each<[string, readonly string[], number, number]>([
    ['ends with 1 where nothing runs', ['onnxruntime'], 0, 0],
    ['ends with 1 where JavaScript runs, which can be interrupted', ['javascript'], 1, 0],
    ['is killed where native code may run', ['javascript', 'onnxruntime'], 1, 1],
  ])('%s', async (_rule, backends, batches, kills) => {
    const stop = stopped(async (called) => stuckServer(backends, batches, called));
    await stop.stopCalled;
    stop.clock.advanceUs(TIMEOUT_S * 1e6 - 1);
    expect(stop.written()).toBe('');
    stop.clock.advanceUs(1);
    expect(await stop.ended).toBe(1);
    expect(stop.written()).toContain('"Exit timeout expired. Exiting immediately."');
    expect(stop.kills()).toBe(kills);
  });

  it('has all of its time after the pause', async () => {
    const given: unknown[] = [];
    const stop = stopped(async (called) => {
      const stuck = stuckServer([], 0, called);
      const stop: StoppableServer['stop'] = (options) => {
        given.push(options);
        return stuck.stop(options);
      };
      return { ...stuck, stop };
    }, 500);
    await stop.stopCalled;
    expect(given).toEqual([{ deadlineMs: TIMEOUT_S * 1000, pauseMs: 500 }]);
    expect(stop.written()).toContain('Not ready from now on, and taking requests for another 500 ms.');
    stop.clock.advanceUs(TIMEOUT_S * 1e6 + 500_000 - 1);
    expect(stop.written()).not.toContain('Exit timeout');
    stop.clock.advanceUs(1);
    expect(await stop.ended).toBe(1);
  });

  it('is killed where the server is still starting', async () => {
    const stop = stopped(() => new Promise(() => {}));
    stop.clock.advanceUs(TIMEOUT_S * 1e6);
    expect(await stop.ended).toBe(1);
    expect(stop.kills()).toBe(1);
  });

  it('is no orderly one though the server drops what is left at the same time', async () => {
    const stop = stopped(async (called) => ({
      ...stuckServer([], 0, called),
      stop: ({ deadlineMs = 0 } = {}) =>
        new Promise((resolve) => {
          stop.clock.at(stop.clock.nowUs() + deadlineMs * 1000, resolve);
          called();
        }),
    }));
    await stop.stopCalled;
    stop.clock.advanceUs(TIMEOUT_S * 1e6);
    expect(await stop.ended).toBe(1);
  });
});

it('a stop in time ends with 0 and leaves no timer', async () => {
  const stop = stopped(async (called) => ({ ...stuckServer([], 0, called), stop: async () => {} }));
  expect(await stop.ended).toBe(0);
  expect(stop.clock.liveTimers).toBe(0);
  expect(stop.written()).toBe('');
});
