import type { Caller } from '@nereid/caller';
import type { Clock, Log, Timer } from '@nereid/runtime';
import {
  type BulkRecord,
  type BulkStore,
  type JobPayloads,
  type JobQueues,
  parsePublicJobId,
  type Timing,
} from '@nereid/transport';
import { createBulkCalls } from './bulk-calls.ts';
import { type BulkRun, startBulkRun } from './bulk-run.ts';
import type { EnsembleCallsParts } from './ensemble-calls.ts';
import type { OwnedModel } from './owned-model.ts';

export interface BulkRunsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: BulkStore;
  readonly payloads: Pick<JobPayloads, 'read'>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  /** Whole answers come to it. */
  readonly caller: () => Pick<Caller, 'infer' | 'inferStream'>;
  readonly stopping: () => boolean;
}

/**
 * Runs the batches of the models that this coordinator owns, those of one model one after the other, the oldest first.
 * Each second it looks which there are, whether those that run are still wanted, and whether their time is over. After
 * an owner's death the next one goes on with the lines that have no result.
 */
export interface BulkRuns {
  /** Lines on their way. */
  readonly running: number;
  /** Resolves once nothing runs any more. Idempotent. */
  close(): Promise<void>;
}

const LOOK_MS = 1_000;
/** Two batches for each instance: one that runs, and one that is there when it ends. */
const WINDOW_BATCHES = 2;
const WINDOW_MIN = 4;
const WINDOW_MAX = 512;

interface Running {
  readonly model: OwnedModel;
  readonly run: BulkRun;
  readonly record: BulkRecord;
}

/** With a caller of their own; undefined where no batches are kept. */
export function openBulkRuns(
  parts: Omit<EnsembleCallsParts, 'timing'> & {
    readonly bulk?: BulkStore | undefined;
    readonly jobs?: Pick<JobQueues, 'payloads'> | undefined;
    readonly timing?: Timing;
  },
  models: ReadonlyMap<string, OwnedModel>,
  stopping: () => boolean,
): BulkRuns | undefined {
  const { bulk: store, jobs, clock, log } = parts;
  if (store === undefined || jobs === undefined) return undefined;
  const calls = createBulkCalls({ ...parts, timing: parts.timing });
  const runs = createBulkRuns({ clock, log, store, payloads: jobs.payloads, models, caller: calls.caller, stopping });
  return {
    get running() {
      return runs.running;
    },
    async close() {
      await runs.close();
      await calls.close();
    },
  };
}

export function createBulkRuns({ clock, log, store, payloads, models, caller, stopping }: BulkRunsParts): BulkRuns {
  /** By model. */
  const runs = new Map<string, Running>();
  let timer: Timer | undefined;
  let looking: Promise<void> | undefined;
  let closed = false;

  const serves = (model: OwnedModel): boolean =>
    !stopping() && !closed && models.get(model.name) === model && isServed(model);

  const start = (model: OwnedModel, record: BulkRecord) => {
    const run = startBulkRun({
      ...{ clock, log, store, payloads, model, record },
      caller: caller(),
      window: () => windowOf(model),
    });
    runs.set(model.name, { model, run, record });
    log.debug({ batch: record.id, lines: record.lines }, 'batch runs');
    void run.ended.then(() => runs.delete(model.name));
  };

  /** Its record, if it is to run. */
  const toRun = async (id: string): Promise<BulkRecord | undefined> => {
    const record = await store.find(id);
    if (record === undefined) return undefined;
    if (record.state !== 'waiting' && record.state !== 'running') {
      await store.forgetActive(id);
      return undefined;
    }
    if (record.deadlineMs === 0 || clock.wallMs() < record.deadlineMs) return record;
    await store.end(id, 'expired');
    await store.forgetActive(id);
    return undefined;
  };

  const look = async () => {
    for (const { model, run } of runs.values()) if (!serves(model)) run.stop();
    const ids = [...models.values()].some(serves) ? await store.active() : [];
    for (const id of ids) {
      const model = models.get(parsePublicJobId(id)?.model ?? '');
      if (model === undefined || !serves(model)) continue;
      const present = runs.get(model.name);
      if (present !== undefined && present.run.id !== id) continue;
      const record = await toRun(id);
      if (present !== undefined) {
        if (record === undefined) present.run.stop();
      } else if (record !== undefined && serves(model)) start(model, record);
    }
  };

  const tick = () => {
    timer = clock.at(clock.nowUs() + LOOK_MS * 1000, tick);
    looking ??= look()
      .catch((error) => log.debug({ err: error }, 'batches not looked for'))
      .finally(() => {
        looking = undefined;
      });
  };
  tick();

  return {
    get running() {
      return [...runs.values()].reduce((sum, { run }) => sum + run.running, 0);
    },
    async close() {
      closed = true;
      timer?.cancel();
      for (const { run } of runs.values()) run.stop();
      await looking;
      await Promise.all([...runs.values()].map(({ run }) => run.ended));
    },
  };
}

function isServed({ phase, versions }: OwnedModel): boolean {
  return phase === 'serving' && versions.some(({ state }) => state === 'READY');
}

function windowOf({ signature, versions, workers }: OwnedModel): number {
  const [version] = versions.filter(({ state }) => state === 'READY');
  let instances = 0;
  for (const { draining, versions: held } of workers.values()) {
    if (!draining) instances += held.get(version?.version ?? '')?.instances.length ?? 0;
  }
  const rows = Math.max(1, signature.maxBatchSize);
  return Math.min(WINDOW_MAX, Math.max(WINDOW_MIN, WINDOW_BATCHES * rows * Math.max(1, instances)));
}
