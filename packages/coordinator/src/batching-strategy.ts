/**
 * A model's batching strategy: the module `strategy.mjs` beside it, in place of the shared library of
 * Triton's custom batching (tritonbackend.h, TRITONBACKEND_ModelBatch…). It is code of the repository
 * and runs in this process, so each of its calls is guarded; it can still block the process or end it.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { LIMITS, type ModelConfig, modelConfigJson } from '@nereid/config';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { BatchStrategy } from '@nereid/scheduler';
import { inTime } from './in-time.ts';
import { type StrategyRequest, strategyRequest } from './strategy-request.ts';
import type { OwnedRequest } from './version-queue.ts';

/** Faults of one strategy are logged once in so long. */
const FAULT_LOG_PAUSE_US = 60_000_000;

/** What the module exports; all but `include` may be left out. `batch` is what `batchInit` returned. */
interface StrategyModule {
  readonly modelInit?: (config: unknown) => unknown;
  readonly batchInit?: () => unknown;
  readonly include: (request: StrategyRequest, batch: unknown) => unknown;
  readonly batchEnd?: (batch: unknown) => unknown;
  readonly modelEnd?: () => unknown;
}

export interface StrategySource {
  readonly model: string;
  readonly version: string;
  /** The model's folder, and the module in it. */
  readonly directory: string;
  readonly file: string;
  readonly config: ModelConfig;
}

export interface LoadedStrategy {
  readonly ask: BatchStrategy<OwnedRequest>;
  /** Ends the batch that is being formed, then the module. Idempotent. */
  close(): void;
}

/**
 * Imports the module anew, so that a changed one is read, and awaits its `modelInit`.
 * Throws INVALID_ARG, naming model and file, for what cannot be imported or has no `include`, for a
 * `modelInit` that fails, and for either that takes longer than `strategy_start_timeout_ms`.
 */
export async function loadStrategy(source: StrategySource, clock: Clock, log: Log): Promise<LoadedStrategy> {
  const refuse = (what: string) =>
    new NereidError('INVALID_ARG', `batching strategy '${source.file}' of model '${source.model}': ${what}`);
  const ms = LIMITS.strategy_start_timeout_ms;
  const module = await inTime(clock, ms, start(source, refuse), () => refuse(`it did not load within ${ms} ms`));
  return guardedStrategy(module, faultLog(source, clock, log));
}

async function start(source: StrategySource, refuse: (what: string) => NereidError): Promise<StrategyModule> {
  const url = pathToFileURL(join(source.directory, source.file));
  // Node caches modules by URL: without this a reload would run the old code.
  url.searchParams.set('load', randomUUID());
  let module: Partial<StrategyModule>;
  try {
    module = await import(url.href);
  } catch (cause) {
    throw refuse(`it cannot be imported: ${thrownText(cause)}`);
  }
  const { modelInit, batchInit, include, batchEnd, modelEnd } = module;
  if (typeof include !== 'function') throw refuse('it must export a function include(request, batch)');
  try {
    await modelInit?.(JSON.parse(modelConfigJson(source.config)));
  } catch (cause) {
    throw refuse(`modelInit failed: ${thrownText(cause)}`);
  }
  return {
    include,
    ...(batchInit === undefined ? {} : { batchInit }),
    ...(batchEnd === undefined ? {} : { batchEnd }),
    ...(modelEnd === undefined ? {} : { modelEnd }),
  };
}

type Fault = (what: string) => void;

function faultLog({ model, version, file }: StrategySource, clock: Clock, log: Log): Fault {
  let nextUs = Number.NEGATIVE_INFINITY;
  return (what) => {
    const nowUs = clock.nowUs();
    if (nowUs < nextUs) return;
    nextUs = nowUs + FAULT_LOG_PAUSE_US;
    log.error({ model, version }, `batching strategy '${file}': ${what}`);
  };
}

/** What is thrown, also later by a promise, is told as a fault and never gets out. */
function guardedStrategy(module: StrategyModule, fault: Fault): LoadedStrategy {
  const guarded = <T>(name: string, call: () => T): T | undefined => {
    const failed = (cause: unknown) => fault(`${name} failed: ${thrownText(cause)}`);
    try {
      const returned = call();
      if (returned instanceof Promise) returned.catch(failed);
      return returned;
    } catch (cause) {
      failed(cause);
      return undefined;
    }
  };
  const include = (request: OwnedRequest, batch: unknown): boolean =>
    guarded('include', () => truth(module.include(strategyRequest(request.message.request), batch))) === true;
  let ending: (() => void) | undefined;
  let closed = false;
  return {
    ask() {
      const batch = guarded('batchInit', () => module.batchInit?.());
      const end = () => {
        if (ending !== end) return;
        ending = undefined;
        guarded('batchEnd', () => module.batchEnd?.(batch));
      };
      ending = end;
      return { include: (request) => include(request, batch), end };
    },
    close() {
      if (closed) return;
      closed = true;
      ending?.();
      guarded('modelEnd', () => module.modelEnd?.());
    },
  };
}

function truth(answer: unknown): boolean {
  if (typeof answer === 'boolean') return answer;
  const isPromise = answer instanceof Promise;
  // Nobody waits for it, so that it may fail.
  if (isPromise) answer.catch(() => {});
  throw new NereidError('INTERNAL', `it returned ${isPromise ? 'a promise' : typeof answer}, not true or false`);
}
