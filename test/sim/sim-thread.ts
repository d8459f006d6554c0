/**
 * An instance's thread in virtual time, for the real worker: takes the frames of batches, runs them
 * one by one for random times, and answers with result frames. It may throw, and it may end.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { type BatchTiming, CANCELLED, NereidError } from '@nereid/protocol';
import type { Random, Timer } from '@nereid/runtime';
import type { SpawnThread } from '@nereid/worker';
import { openBatch } from '../../packages/worker/src/batch-frame.ts';
import type {
  InstanceOrder,
  InstanceReport,
  InstanceSetup,
  RequestDetail,
  RunOutcome,
} from '../../packages/worker/src/instance-messages.ts';
import { packResult } from '../../packages/worker/src/result-frame.ts';
import { between, bytesOf, type SimModel, simModel, valuesOf } from './sim-models.ts';
import { startStreams } from './sim-stream.ts';
import type { SimProcess } from './sim-world.ts';

type Thread = ReturnType<SpawnThread>;
interface OpenedBatch extends ReturnType<typeof openBatch> {
  /** Of a model that keeps sequences. */
  readonly details: readonly RequestDetail[];
}

/** A batch as it reaches a model. */
export interface ModelRun {
  readonly worker: string;
  readonly model: string;
  readonly version: string;
  readonly rows: readonly number[];
  /** Of each request, in order; a request whose elements differ is broken. */
  readonly tokens: readonly (number | 'mixed')[];
}

export interface ThreadsOptions {
  readonly process: SimProcess;
  readonly random: Random;
  /** Returns what to call when it is over. */
  readonly ran: (run: ModelRun) => () => void;
  readonly crashed: (run: ModelRun) => void;
}

const LOAD_US_MAX = 30_000;
const NO_SLOT = -1;
/** In place of tokens: a step came first that is no START; a step whose elements differ. */
const NO_START = -1;
const MIXED = -2;
/** Runs are told apart by a number below this. */
const RUNS = 2 ** 31;

/** `close` lets go of the ports of threads that never ended. */
export function createSimThreads(options: ThreadsOptions): { readonly spawn: SpawnThread; close(): void } {
  const ports = new Set<MessagePort>();
  return {
    spawn: (setup) => startThread(setup, options, ports) as unknown as Thread,
    close() {
      for (const port of ports) port.close();
    },
  };
}

function startThread(setup: InstanceSetup, { process, random, ran, crashed }: ThreadsOptions, ports: Set<MessagePort>) {
  const { signature, version } = setup;
  const model = simModel(setup.config.name);
  const waiting: OpenedBatch[] = [];
  /** Of a model that keeps sequences: the tokens of the steps that each slot has had. */
  const states = new Map<number, readonly number[]>();
  const cancelled = new Map<number, Set<number>>();
  let onExit: (code: number) => void = () => {};
  let port: MessagePort | undefined;
  let running: Timer | undefined;
  let loaded = false;
  let stopping = false;
  let ended = false;
  /** What runs is over. */
  let over: () => void = () => {};

  const now = () => process.clock.nowUs();
  const report = (what: InstanceReport, transfer: readonly ArrayBuffer[] = []) =>
    port?.postMessage(what, [...transfer]);

  const end = (code: number) => {
    if (ended) return;
    ended = true;
    over();
    stopPolling();
    running?.cancel();
    if (port !== undefined) ports.delete(port);
    // The carrier reads what is left on its side, then closes the line.
    onExit(code);
  };

  const runOf = (opened: OpenedBatch): ModelRun => {
    return { worker: process.name, model: model.name, version, rows: opened.rows, tokens: tokensOf(opened) };
  };

  const crash = (opened: OpenedBatch) => {
    crashed(runOf(opened));
    end(1);
  };

  const answer = (opened: OpenedBatch, runUs: number) => {
    const [input] = opened.joined;
    if (input === undefined) throw new NereidError('INTERNAL', 'a batch without its input');
    const rows = input.shape[0] ?? 0;
    const outputs = [
      { name: 'B', datatype: 'INT32', shape: input.shape, data: input.data },
      { name: 'VERSION', datatype: 'INT32', shape: [rows, 1], data: bytesOf(Array(rows).fill(Number(version))) },
    ] as const;
    const { frame, others } = packResult(signature, opened.sequence, timing(runUs), outputs, false);
    if (others.length > 0) throw new NereidError('INTERNAL', 'a result larger than simulated models give');
    report(frame, [frame]);
  };

  /** Each step's answer tells of all that its slot has had since the START. */
  const takeSteps = (opened: OpenedBatch, runUs: number) => {
    const [input] = opened.joined;
    const length = input?.shape[1] ?? 0;
    const outcomes = tokensOf(opened).map((token, position): RunOutcome => {
      const [, , start = false, , , , , , slot = NO_SLOT] = opened.details[position] ?? [];
      // What no START began is to be seen in the answer.
      const before = start ? [] : (states.get(slot) ?? [NO_START]);
      const state = [...before, token === 'mixed' ? MIXED : token];
      states.set(slot, state);
      const column = (name: string, values: readonly number[]) =>
        ({ name, datatype: 'INT32', shape: [1, values.length], data: bytesOf(values) }) as const;
      const outputs = [
        column('B', Array(length).fill(token)),
        column('VERSION', [Number(version)]),
        column('STATE', state),
      ];
      return { ok: true, parameters: {}, outputs };
    });
    report({ kind: 'outcomes', sequence: opened.sequence, executed: true, timing: timing(runUs), outcomes });
  };

  const fail = (opened: OpenedBatch, executed: boolean, runUs: number, code: 'INTERNAL' | 'CANCELLED') => {
    const error = code === 'CANCELLED' ? CANCELLED : { code, message: 'the model threw' };
    const outcomes = opened.rows.map(() => ({ ok: false, error }) as const);
    report({ kind: 'outcomes', sequence: opened.sequence, executed, timing: timing(runUs), outcomes });
  };

  const finish = (opened: OpenedBatch, runUs: number) => {
    running = undefined;
    over();
    if (random.next() < model.crashShare) {
      crash(opened);
      return;
    }
    if (random.next() < model.throwShare) {
      for (const [, , start, , , , , , slot] of opened.details) if (start) states.set(slot, []);
      fail(opened, true, runUs, 'INTERNAL');
    } else if (model.idleUs !== undefined) takeSteps(opened, runUs);
    else answer(opened, runUs);
    next();
  };

  const stream = (opened: OpenedBatch): Timer => {
    const { sequence } = opened;
    const startUs = now();
    const length = opened.joined[0]?.shape[1] ?? 0;
    return startStreams({
      clock: process.clock,
      random,
      model,
      version,
      run: Math.floor(random.next() * RUNS),
      requests: tokensOf(opened).map((token, position) => ({
        token: token === 'mixed' ? 0 : token,
        shape: [opened.rows[position] ?? 0, length],
      })),
      isCancelled: (position) => cancelled.get(sequence)?.has(position) === true,
      send: (chunk) => report({ kind: 'chunk', sequence, bytes: 0, ...chunk }),
      over(outcomes) {
        running = undefined;
        over();
        report({ kind: 'outcomes', sequence, executed: true, timing: timing(now() - startUs), outcomes });
        next();
      },
      crash: () => crash(opened),
    });
  };

  const next = () => {
    if (ended || running !== undefined || !loaded) return;
    const opened = waiting.shift();
    if (opened === undefined) {
      if (stopping) end(0);
      return;
    }
    if (cancelled.get(opened.sequence)?.size === opened.rows.length) {
      fail(opened, false, 0, 'CANCELLED');
      next();
      return;
    }
    over = ran(runOf(opened));
    if (model.streams) {
      running = stream(opened);
      return;
    }
    const runUs = runTime(model, random);
    running = process.clock.at(now() + runUs, () => finish(opened, runUs));
  };

  const take = (order: InstanceOrder) => {
    if (order instanceof ArrayBuffer) waiting.push({ ...openBatch(signature, order), details: [] });
    else if (!('kind' in order)) waiting.push({ ...openBatch(signature, order[0]), details: order[1] });
    else if (order.kind === 'cancel') {
      const positions = cancelled.get(order.sequence) ?? new Set();
      cancelled.set(order.sequence, positions.add(order.position));
    } else if (order.kind === 'stop') stopping = true;
    next();
  };

  const stopPolling = process.eachTurn(() => {
    if (port === undefined || ended) return;
    for (let got = receiveMessageOnPort(port); got !== undefined && !ended; got = receiveMessageOnPort(port)) {
      take(got.message as InstanceOrder);
    }
  });

  process.onKill(() => over());
  running = process.clock.at(now() + between(random, 1_000, LOAD_US_MAX), () => {
    running = undefined;
    loaded = true;
    report({ kind: 'loaded', needsRequests: false });
    next();
  });

  return {
    postMessage(line: MessagePort) {
      port = line;
      ports.add(line);
    },
    on(event: 'error' | 'exit', callback: (code: number) => void) {
      if (event === 'exit') onExit = callback;
    },
  };
}

function timing(runUs: number): BatchTiming {
  return { waitNs: 0, inputNs: 0, inferNs: runUs * 1000, outputNs: 0 };
}

/** Most runs take about the mean; the slowest are rare. */
function runTime({ runUsMin, runUsMax }: SimModel, random: Random): number {
  return between(random, runUsMin, runUsMin + (runUsMax - runUsMin) * random.next());
}

function tokensOf({ joined, rows }: OpenedBatch): (number | 'mixed')[] {
  const [input] = joined;
  const values = input === undefined ? new Int32Array() : valuesOf(input.data);
  const length = input?.shape[1] ?? 0;
  let at = 0;
  return rows.map((count) => {
    const own = values.subarray(at, at + count * length);
    at += count * length;
    const [token] = own;
    return token !== undefined && own.every((value) => value === token) ? token : 'mixed';
  });
}
