import { cachesAnswers, ensembleModels, type ModelRecord, type ModelSignature } from '@nereid/config';
import { type ErrorInfo, type InferMessage, STOPPING } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import {
  answersInOrder,
  type BatchTimes,
  batchesTogether,
  createScheduler,
  executionKind,
  instanceDepth,
  preservesOrdering,
  waitingAhead,
} from '@nereid/scheduler';
import type { Directory, LargeTensors, Mailbox } from '@nereid/transport';
import { createAnswerOrder } from './answer-order.ts';
import { batchSizeSeries } from './batch-size-metric.ts';
import { createVersionQueue } from './dispatch.ts';
import type { EnsembleCalls } from './ensemble-calls.ts';
import { createEnsembleQueue } from './ensemble-queue.ts';
import type { JobIntake } from './job-intake.ts';
import { createModelStatistics, type ModelStatistics } from './model-statistics.ts';
import { closeStrategies } from './model-strategies.ts';
import { allDescribed, allVersions, isEnsemble, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import type { PassOn } from './pass-on.ts';
import type { RunNotes } from './run-notes.ts';
import type { StatisticsMetrics } from './statistics-metrics.ts';
import type { OwnedRequest, SequenceParts, VersionQueue } from './version-queue.ts';

export interface QueueLimits {
  /** Requests that may wait in a version, unless its config allows more. */
  readonly queue_max: number;
  /** Batches that an instance holds at a time, in place of the scheduler's rule; not where that must be one. */
  readonly instance_depth: number | undefined;
  /** `--rate-limit` is on: instances may wait for resources. */
  readonly rate_limit: boolean;
}

export interface ModelQueuesParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  /** By which ensembles call their models. */
  readonly ensembleCalls: Pick<EnsembleCalls, 'caller'>;
  readonly metrics: StatisticsMetrics;
  readonly limits: QueueLimits;
  readonly answer: (message: InferMessage, error: ErrorInfo) => void;
  readonly notes: RunNotes;
  readonly passOn: PassOn;
  /** Undefined where messages are passed by reference. */
  readonly largeTensors: LargeTensors | undefined;
  readonly idle: () => void;
  /** Roles are processes of their own. */
  readonly apart: boolean;
  readonly jobs: Pick<JobIntake, 'serve'> | undefined;
  readonly holdsLease: (model: OwnedModel) => boolean;
  readonly leaseLost: (model: OwnedModel) => void;
}

/**
 * Gives each version of a model's load its queue and shows its metrics, from 0 or as an earlier load that retires has
 * counted; begins to take the model's jobs where it does not yet.
 */
export function openQueues(model: OwnedModel, parts: ModelQueuesParts): void {
  const { config } = model.source;
  const createQueue = isEnsemble(model) ? ensembleQueues(model, parts) : workerQueues(model, parts);
  for (const retiring of model.retiring) hide(retiring);
  for (const version of model.versions) {
    const before = model.retiring.findLast(({ version: name }) => name === version.version);
    const statistics = before?.statistics ?? createModelStatistics();
    const queue = createQueue(version, statistics);
    version.queue = queue;
    version.statistics = statistics;
    version.hideMetrics = parts.metrics.add({
      model: model.name,
      version: version.version,
      tags: config.metricTags,
      statistics,
      batchSizes: batchSizeSeries(statistics.closes, Math.max(1, config.maxBatchSize), batchesTogether(config)),
      pending: () => pendingOf(model, version.version),
      cached: cachesAnswers(config),
      sequences: model.signature.sequence === undefined ? undefined : () => queue.sequences,
    });
  }
  model.dropJobs ??= parts.jobs?.serve(model);
}

/** Of a model that was taken over: what its retiring loads have, ends in their queues. */
export function openRetiringQueues(model: OwnedModel, parts: ModelQueuesParts): void {
  const createQueue = workerQueues(model, parts);
  for (const version of model.retiring) {
    const now = model.versions.find(({ version: name }) => name === version.version);
    version.statistics = now?.statistics ?? createModelStatistics();
    version.queue = createQueue(version, version.statistics);
  }
}

function pendingOf(model: OwnedModel, version: string): number {
  const same = allVersions(model).filter((other) => other.version === version);
  return same.reduce((sum, { queue }) => sum + (queue?.pending ?? 0), 0);
}

function hide(version: OwnedVersion): void {
  version.hideMetrics?.();
  version.hideMetrics = undefined;
}

type CreateQueue = (version: OwnedVersion, statistics: ModelStatistics) => VersionQueue;

function workerQueues(model: OwnedModel, parts: ModelQueuesParts): CreateQueue {
  const { clock, mailbox, limits, answer, idle, passOn, largeTensors } = parts;
  return ({ version, load, strategy, config, signature }, statistics) => {
    const kind = executionKind(config, { decoupled: signature.decoupled, rate_limit: limits.rate_limit });
    const isOne = kind === 'exact' || kind === 'streams' || kind === 'sequences';
    const set = isOne ? undefined : limits.instance_depth;
    const sequences = sequenceParts(model, signature, parts.apart);
    const depth = (means: BatchTimes | undefined) => set ?? instanceDepth(kind, means);
    const order = preservesOrdering(config)
      ? createAnswerOrder({ owner: mailbox.id, passOn, largeTensors })
      : undefined;
    return createVersionQueue({
      clock,
      mailbox,
      model: model.name,
      version,
      load,
      epoch: () => model.epoch,
      nextBatch: () => ++model.batches,
      scheduler: createScheduler<OwnedRequest>(config, {
        queue_max: limits.queue_max,
        places_ahead: depth(undefined) - 1,
        strategy: strategy?.ask,
      }),
      instanceDepth: depth,
      statistics,
      notes: parts.notes,
      waitingAhead: waitingAhead(config),
      decoupled: signature.decoupled,
      sequences,
      answersTo: order?.owner,
      order,
      answer,
      idle,
      holdsLease: () => parts.holdsLease(model),
      leaseLost: () => parts.leaseLost(model),
    });
  };
}

function ensembleQueues(model: OwnedModel, parts: ModelQueuesParts): CreateQueue {
  const { clock, log, mailbox, limits, answer, idle, directory, notes } = parts;
  const { signature } = model;
  const caller = parts.ensembleCalls.caller();
  const recordOf = (step: number) => directory.record(signature.ensemble?.steps[step]?.model ?? '');
  return ({ version }, statistics) =>
    createEnsembleQueue({
      clock,
      log,
      mailbox,
      version,
      epoch: () => model.epoch,
      notes,
      signature,
      caller,
      statistics,
      queue_max: limits.queue_max,
      ordered(step) {
        const record = recordOf(step);
        return record !== undefined && answersInOrder(record.config);
      },
      handsOn(step) {
        const record = recordOf(step);
        return record === undefined || ensembleModels(record.config).length > 0;
      },
      answer,
      idle,
      holdsLease: () => parts.holdsLease(model),
      leaseLost: () => parts.leaseLost(model),
    });
}

function sequenceParts(model: OwnedModel, { sequence }: ModelSignature, apart: boolean): SequenceParts | undefined {
  if (sequence === undefined) return undefined;
  return { iterative: sequence.iterative, described: () => allDescribed(model), apart };
}

/** Nothing more comes for the model: what waits is sent without waiting for company. */
export function drainQueues(model: OwnedModel): void {
  for (const { queue } of allVersions(model)) queue?.drain();
}

/** Gives its jobs back, ends what is left in the queues and takes the metrics away. */
export function closeQueues(model: OwnedModel): void {
  model.dropJobs?.();
  model.dropJobs = undefined;
  closeVersions(allVersions(model));
  model.retiring = [];
}

/** Ends what is left in their queues and takes their metrics away. */
export function closeVersions(versions: readonly OwnedVersion[]): void {
  for (const version of versions) {
    version.queue?.close(STOPPING);
    version.queue = undefined;
    version.statistics = undefined;
    hide(version);
  }
  closeStrategies(versions);
}

/** As `closeQueues`, but nobody is answered: another owner will get every request again. */
export function abandonQueues(model: OwnedModel): void {
  for (const version of allVersions(model)) version.queue?.abandon();
  closeQueues(model);
}
