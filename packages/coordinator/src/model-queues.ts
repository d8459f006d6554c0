import { cachesAnswers, ensembleModels, type ModelRecord } from '@nereid/config';
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
import { allDescribed, isEnsemble, type OwnedModel, type OwnedVersion } from './owned-model.ts';
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

/** Gives each version of a model its queue, shows its metrics from 0 and begins to take its jobs. */
export function openQueues(model: OwnedModel, parts: ModelQueuesParts): void {
  const { config } = model.source;
  const createQueue = isEnsemble(model) ? ensembleQueues(model, parts) : workerQueues(model, parts);
  for (const version of model.versions) {
    const statistics = createModelStatistics();
    const queue = createQueue(version, statistics);
    version.queue = queue;
    version.statistics = statistics;
    version.hideMetrics = parts.metrics.add({
      model: model.name,
      version: version.version,
      tags: config.metricTags,
      statistics,
      batchSizes: batchSizeSeries(statistics.closes, Math.max(1, config.maxBatchSize), batchesTogether(config)),
      pending: () => queue.pending,
      cached: cachesAnswers(config),
      sequences: model.signature.sequence === undefined ? undefined : () => queue.sequences,
    });
  }
  model.dropJobs = parts.jobs?.serve(model);
}

type CreateQueue = (version: OwnedVersion, statistics: ModelStatistics) => VersionQueue;

function workerQueues(model: OwnedModel, parts: ModelQueuesParts): CreateQueue {
  const { clock, mailbox, limits, answer, idle, passOn, largeTensors } = parts;
  const { config } = model.source;
  const kind = executionKind(config, { decoupled: model.signature.decoupled, rate_limit: limits.rate_limit });
  const isOne = kind === 'exact' || kind === 'streams' || kind === 'sequences';
  const set = isOne ? undefined : limits.instance_depth;
  const sequences = sequenceParts(model, parts.apart);
  const depth = (means: BatchTimes | undefined) => set ?? instanceDepth(kind, means);
  return ({ version, strategy }, statistics) => {
    const order = preservesOrdering(config)
      ? createAnswerOrder({ owner: mailbox.id, passOn, largeTensors })
      : undefined;
    return createVersionQueue({
      clock,
      mailbox,
      model: model.name,
      version,
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
      decoupled: model.signature.decoupled,
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

function sequenceParts(model: OwnedModel, apart: boolean): SequenceParts | undefined {
  const { sequence } = model.signature;
  if (sequence === undefined) return undefined;
  return { iterative: sequence.iterative, described: () => allDescribed(model), apart };
}

/** Nothing more comes for the model: what waits is sent without waiting for company. */
export function drainQueues({ versions }: OwnedModel): void {
  for (const { queue } of versions) queue?.drain();
}

/** Gives its jobs back, ends what is left in the queues and takes the metrics away. */
export function closeQueues(model: OwnedModel): void {
  model.dropJobs?.();
  model.dropJobs = undefined;
  for (const version of model.versions) {
    version.queue?.close(STOPPING);
    version.queue = undefined;
    version.statistics = undefined;
    version.hideMetrics?.();
    version.hideMetrics = undefined;
  }
  closeStrategies(model);
}

/** As `closeQueues`, but nobody is answered: another owner will get every request again. */
export function abandonQueues(model: OwnedModel): void {
  for (const version of model.versions) version.queue?.abandon();
  closeQueues(model);
}
