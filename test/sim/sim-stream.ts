/** What a simulated thread runs of a decoupled model: each request's answers one by one, side by side. */
import { CANCELLED } from '@nereid/protocol';
import type { Clock, Random, Timer } from '@nereid/runtime';
import type { RunOutcome, StreamChunk } from '../../packages/worker/src/instance-messages.ts';
import { between, bytesOf, type SimModel, streamLength } from './sim-models.ts';

/** A request of the batch. */
export interface StreamedRequest {
  readonly token: number;
  readonly shape: readonly number[];
}

export interface StreamRun {
  readonly clock: Clock;
  readonly random: Random;
  readonly model: SimModel;
  readonly version: string;
  /** Tells this run from every other. */
  readonly run: number;
  readonly requests: readonly StreamedRequest[];
  readonly isCancelled: (position: number) => boolean;
  readonly send: (chunk: StreamChunk) => void;
  /** All have ended, as told. */
  readonly over: (outcomes: readonly RunOutcome[]) => void;
  /** The thread is to end. */
  readonly crash: () => void;
}

const CHUNK_US_MAX = 30_000;
/** Longer than a gateway waits without a sign that the execution runs. */
const LONG_GAP_US = 3_300_000;
const LONG_GAP_SHARE = 0.003;
const END: RunOutcome = { ok: true, parameters: {}, outputs: [] };

/** Starts the run; returns how to drop it. */
export function startStreams(options: StreamRun): Timer {
  const { clock, random, model, requests } = options;
  const timers = new Set<Timer>();
  const outcomes = new Map<number, RunOutcome>();
  const cancel = () => {
    for (const timer of timers) timer.cancel();
    timers.clear();
  };

  const end = (position: number, outcome: RunOutcome) => {
    options.send({ position, outcome, last: true });
    outcomes.set(position, outcome);
    if (outcomes.size === requests.length) options.over(requests.map((_, index) => outcomes.get(index) ?? END));
  };

  const step = (request: StreamedRequest, position: number, chunk: number) => {
    if (options.isCancelled(position)) end(position, { ok: false, error: CANCELLED });
    else if (random.next() < model.crashShare) {
      cancel();
      options.crash();
    } else if (random.next() < model.throwShare)
      end(position, { ok: false, error: { code: 'INTERNAL', message: 'the model threw' } });
    else if (chunk === streamLength(request.token)) end(position, END);
    else {
      options.send({ position, outcome: answer(options, request, chunk), last: false });
      later(request, position, chunk + 1);
    }
  };

  const later = (request: StreamedRequest, position: number, chunk: number) => {
    const gapUs = random.next() < LONG_GAP_SHARE ? LONG_GAP_US : between(random, 100, CHUNK_US_MAX);
    const timer = clock.at(clock.nowUs() + gapUs, () => {
      timers.delete(timer);
      step(request, position, chunk);
    });
    timers.add(timer);
  };

  for (const [position, request] of requests.entries()) later(request, position, 0);
  return { cancel };
}

function answer({ version, run }: StreamRun, { token, shape }: StreamedRequest, chunk: number): RunOutcome {
  const [rows = 0, length = 0] = shape;
  const column = (name: string, value: number) =>
    ({ name, datatype: 'INT32', shape: [rows, 1], data: bytesOf(Array(rows).fill(value)) }) as const;
  return {
    ok: true,
    parameters: {},
    outputs: [
      { name: 'B', datatype: 'INT32', shape, data: bytesOf(Array(rows * length).fill(token)) },
      column('VERSION', Number(version)),
      column('RUN', run),
      column('CHUNK', chunk),
    ],
  };
}
